// SPDX-License-Identifier: Apache-2.0
// f16 to f32 by F16C. Only reached on a CPU that has it.
#include <immintrin.h>
#include <stdint.h>

#include "impl/avx2/flash_kernel.h"

namespace qkvet::impl {

void widen_f16c(const uint16_t* from, int64_t n, float* to) {
  constexpr int64_t kVector = 8;
  int64_t c = 0;
  for (; c + kVector <= n; c += kVector) {
    const __m128i bits =
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + c));
    _mm256_storeu_ps(to + c, _mm256_cvtph_ps(bits));
  }
  for (; c < n; ++c) {
    to[c] = _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(from[c])));
  }
}

}  // namespace qkvet::impl
