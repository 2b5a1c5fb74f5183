// SPDX-License-Identifier: Apache-2.0
// controls/dialect_masked_nonfinite: hidden keys are walked like all others,
// with -infinity added to their scores: what is not finite in k or v there
// comes through, as NaN + -infinity and as 0 * infinity.
#include "impl/controls/dialect.h"

namespace qkvet::impl {
namespace {

struct MaskedNonfinite : NaiveRow {
  static constexpr bool kWalksHiddenKeys = true;
};

constexpr qkvet_dialect kDialect =
    deviating(&qkvet_dialect::masked_nonfinite, QKVET_MASKED_NOT_IGNORED);

}  // namespace

extern constinit const qkvet_kernel controls_dialect_masked_nonfinite =
    dialect_kernel("controls/dialect_masked_nonfinite",
                   "hidden keys have a bias of -infinity",
                   {"impl/controls/dialect_masked_nonfinite.cpp", __LINE__},
                   &kDialect, kRowForward<MaskedNonfinite>);

}  // namespace qkvet::impl
