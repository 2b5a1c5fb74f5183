// SPDX-License-Identifier: Apache-2.0
// controls/softcap_by_exp: the tanh of softcap as 1 - 2 / (exp(2 x) + 1), which
// cancels where x is small: below 0.5 it is that of the library. Relative error
// of this tanh: 2.96 units of 2^-24 from 0.5 on, and 2.75 for tanhf of glibc,
// measured against double tanh.
#include "impl/controls/arithmetic.h"
#include "impl/declare.h"
#include "impl/row_frame.h"

namespace qkvet::impl {
namespace {

constexpr float kLeastByExp = 0.5f;

float tanh_by_exp(float x) {
  const float size = std::fabs(x);
  if (!(size >= kLeastByExp)) {
    return std::tanh(x);
  }
  return std::copysign(1 - 2 / (std::exp(2 * size) + 1), x);
}

float capped_by_exp(const Row& row, float dot, int64_t n) {
  const float s = dot * row.scale, cap = row.terms.softcap;
  return row.shifted(cap > 0 ? cap * tanh_by_exp(s / cap) : s, n);
}

using SoftcapByExp = TwoPass<dot_ascending, libm_exp,
                             /*kDescending=*/false, capped_by_exp>;

constexpr qkvet_precision kPrecision = sequential_f32();

}  // namespace

extern constinit const qkvet_kernel controls_softcap_by_exp =
    plain_kernel("controls/softcap_by_exp", "tanh as 1 - 2 / (exp(2 x) + 1)",
                 {"impl/controls/softcap_by_exp.cpp", __LINE__}, &kPrecision,
                 kRowForward<SoftcapByExp>, &kAllCapabilities);

}  // namespace qkvet::impl
