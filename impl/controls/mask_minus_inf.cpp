// SPDX-License-Identifier: Apache-2.0
// controls/mask_minus_inf: scores of hidden keys are replaced by -infinity, and
// the keys are walked with a weight of 0: NaN in k there is gone, in v it is
// not.
#include "impl/controls/dialect.h"

namespace qkvet::impl {
namespace {

float or_minus_infinity(const Row& row, float dot, int64_t n) {
  return row.terms.bias[n] == -kInfinity ? -kInfinity
                                         : usual_score(row, dot, n);
}

struct MaskMinusInf : TwoPass<dot_ascending, libm_exp, /*kDescending=*/false,
                              or_minus_infinity> {
  static constexpr bool kWalksHiddenKeys = true;
};

constexpr qkvet_dialect kDialect =
    deviating(&qkvet_dialect::masked_nonfinite, QKVET_MASKED_NOT_IGNORED);

}  // namespace

extern constinit const qkvet_kernel controls_mask_minus_inf = dialect_kernel(
    "controls/mask_minus_inf", "scores of hidden keys are -infinity",
    {"impl/controls/mask_minus_inf.cpp", __LINE__}, &kDialect,
    kRowForward<MaskMinusInf>);

}  // namespace qkvet::impl
