/* SPDX-License-Identifier: Apache-2.0
 * plain.h makes a library out of a C11 function; the C++ test runs one. */
#include "qkvet/plain.h"

static void first_value(const float* q, const float* k, const float* v,
                        float* o, int64_t B, int64_t H, int64_t Tq, int64_t Tk,
                        int64_t d, int causal) {
  (void)q, (void)k, (void)Tk, (void)causal;
  for (int64_t n = 0; n < B * H * Tq * d; ++n) o[n] = v[0];
}

QKVET_PLAIN_KERNEL_TOP_LEFT(first_value, "plain/first_value");
