// SPDX-License-Identifier: Apache-2.0
// controls/f16_p_normalised: weights are divided by their sum, rounded to f16,
// and then meet the values.
#include "impl/controls/rounded_p.h"

namespace qkvet::impl {

extern constinit const qkvet_kernel controls_f16_p_normalised = plain_kernel(
    "controls/f16_p_normalised", "P normalised, then rounded to f16",
    {"impl/controls/f16_p_normalised.cpp", __LINE__},
    &kNormalisedP<Storage::kF16>, kRowForward<NormalisedP>,
    kOneHalf<Storage::kF16>);

}  // namespace qkvet::impl
