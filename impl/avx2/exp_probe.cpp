// SPDX-License-Identifier: Apache-2.0
// The exp of avx2/exp.h as a function that a test of the baseline can call.
#include <immintrin.h>
#include <stdint.h>

#include "impl/avx2/exp.h"

namespace qkvet::impl {

// y[i] = exp_nonpositive(x[i]); n is a multiple of 8.
void probe_exp(const float* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; i += 8) {
    _mm256_storeu_ps(y + i, exp_nonpositive(_mm256_loadu_ps(x + i)));
  }
}

}  // namespace qkvet::impl
