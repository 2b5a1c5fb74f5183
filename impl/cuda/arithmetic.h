// SPDX-License-Identifier: Apache-2.0
// Declarations of the kernels on CUDA cores: f32 throughout, q.k and P v added
// one by one, ascending, the denominator in any order. A product may be fused
// with the next addition, which rounds once less.
#ifndef QKVET_IMPL_CUDA_ARITHMETIC_H_
#define QKVET_IMPL_CUDA_ARITHMETIC_H_

#include "impl/call/declare.h"
#include "impl/cuda/simt/simt.h"

namespace qkvet::impl {

// expf of the CUDA library is within 1 ulp, which is 2 units at most (CUDA C++
// Programming Guide, "Mathematical Functions"); the emulator's is that of libm.
#if defined(__CUDACC__)
inline constexpr double kDeviceExpError = 2.01 * kUnit;
#else
inline constexpr double kDeviceExpError = kLibmExpError;
#endif

constexpr qkvet_precision cuda_core_f32() {
  qkvet_precision p = sequential_f32();
  p.value_sum = QKVET_SUM_ANY;
  p.exp_error = kDeviceExpError;
  return p;
}

inline constexpr uint64_t kDeviceOptions =
    kCommonOptions | QKVET_OPTION_WINDOW | QKVET_OPTION_LENGTHS |
    QKVET_OPTION_INT32_LENGTHS | QKVET_OPTION_EMPTY_EXTENTS |
    QKVET_OPTION_ALIBI | QKVET_OPTION_ALIBI_PER_MEMBER |
    QKVET_OPTION_VALUES_IN_KEYS;

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CUDA_ARITHMETIC_H_
