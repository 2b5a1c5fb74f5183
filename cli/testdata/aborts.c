/* SPDX-License-Identifier: Apache-2.0
 * A kernel that ends its process: what that means for a test program it is
 * linked into. */
#include <stdlib.h>

#include "qkvet/plain.h"

static void aborts(const float* q, const float* k, const float* v, float* o,
                   int64_t B, int64_t H, int64_t Tq, int64_t Tk, int64_t d,
                   int causal) {
  (void)q, (void)k, (void)v, (void)o, (void)B, (void)H, (void)Tq, (void)Tk;
  (void)d, (void)causal;
  abort();
}

QKVET_PLAIN_KERNEL(aborts, "consumer/aborts");
