// SPDX-License-Identifier: Apache-2.0
// controls/bf16_p_normalised: weights are divided by their sum, rounded to
// bf16, and then meet the values.
#include "impl/controls/rounded_p.h"

namespace qkvet::impl {

extern constinit const qkvet_kernel controls_bf16_p_normalised = plain_kernel(
    "controls/bf16_p_normalised", "P normalised, then rounded to bf16",
    {"impl/controls/bf16_p_normalised.cpp", __LINE__},
    &kNormalisedP<Storage::kBf16>, kRowForward<NormalisedP>,
    kOneHalf<Storage::kBf16>);

}  // namespace qkvet::impl
