// SPDX-License-Identifier: Apache-2.0
// Kernels that deviate from the dialect of all others in one value, and in
// nothing else: the arithmetic of controls/naive, all options.
#ifndef QKVET_IMPL_CONTROLS_DIALECT_H_
#define QKVET_IMPL_CONTROLS_DIALECT_H_

#include <cstdint>

#include "impl/controls/arithmetic.h"
#include "impl/declare.h"
#include "impl/row_frame.h"

namespace qkvet::impl {

using NaiveRow = TwoPass<dot_ascending, libm_exp>;

inline constexpr qkvet_precision kNaivePrecision = sequential_f32();

// The usual dialect but for one member.
constexpr qkvet_dialect deviating(int32_t qkvet_dialect::*member,
                                  int32_t value) {
  qkvet_dialect d = options_dialect();
  d.*member = value;
  return d;
}

constexpr qkvet_kernel dialect_kernel(
    const char* name, const char* description, Place place,
    const qkvet_dialect* dialect, ForwardFunction forward,
    const qkvet_precision* precision = &kNaivePrecision,
    const qkvet_capabilities* capabilities = &kAllCapabilities) {
  qkvet_kernel kernel =
      plain_kernel(name, description, place, precision, forward, capabilities);
  kernel.dialect = dialect;
  return kernel;
}

// o of a row that sees nothing.
inline void fill_output(const Row& row, float value) {
  for (int64_t c = 0; c < row.value_width; ++c) {
    row.o[c * row.o_step] = value;
  }
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CONTROLS_DIALECT_H_
