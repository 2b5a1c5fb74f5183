// SPDX-License-Identifier: Apache-2.0
// controls/dialect_softcap_after_bias: the bias is added first and capped with
// the score. ALiBi is not declared: whether it is a bias here is open.
#include "impl/controls/dialect.h"

namespace qkvet::impl {
namespace {

float capped_last(const Row& row, float dot, int64_t n) {
  return row.capped(row.shifted(dot * row.scale, n));
}

using SoftcapAfterBias = TwoPass<dot_ascending, libm_exp,
                                 /*kDescending=*/false, capped_last>;

constexpr qkvet_capabilities kCapabilities =
    capabilities_with(kAllOptions & ~QKVET_OPTION_ALIBI, {kF32, kF16, kBf16});

constexpr qkvet_dialect kDialect =
    deviating(&qkvet_dialect::softcap_order, QKVET_SOFTCAP_AFTER_MASK);

}  // namespace

extern constinit const qkvet_kernel controls_dialect_softcap_after_bias =
    dialect_kernel(
        "controls/dialect_softcap_after_bias", "softcap of the biased score",
        {"impl/controls/dialect_softcap_after_bias.cpp", __LINE__}, &kDialect,
        kRowForward<SoftcapAfterBias>, &kNaivePrecision, &kCapabilities);

}  // namespace qkvet::impl
