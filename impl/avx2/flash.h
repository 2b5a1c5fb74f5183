// SPDX-License-Identifier: Apache-2.0
// The attention of avx2/flash for the other kernels of the family. Baseline
// code, to be called only with AVX2 and FMA.
#ifndef QKVET_IMPL_AVX2_FLASH_H_
#define QKVET_IMPL_AVX2_FLASH_H_

#include <cstddef>

#include "impl/avx2/flash_kernel.h"
#include "impl/call/declare.h"
#include "impl/call/forward_view.h"

// Memory shared by calls, grown when needed.
struct qkvet_context {
  float* memory = nullptr;
  size_t floats = 0;
};

namespace qkvet::impl {

// A call without lengths.
qkvet_status attend_with_flash(const ForwardCall& call, qkvet_context* context,
                               qkvet_text* why);
// Frees the memory.
void free_flash(qkvet_context* context);

// Measured: 1.293 units (avx2/exp.h).
inline constexpr double kFlashExpError = 1.4 * kUnit;

inline constexpr qkvet_precision kFlashPrecision = [] {
  qkvet_precision p = sequential_f32();
  p.value_sum = QKVET_SUM_ANY;  // the denominator is summed in lanes
  p.fma = 1;
  p.tile = kTileKeys;
  p.exp_error = kFlashExpError;
  p.exp_floor = kClampedExpFloor;
  p.norm_roundings = kNormReciprocal;
  return p;
}();

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_AVX2_FLASH_H_
