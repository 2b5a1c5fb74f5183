// SPDX-License-Identifier: Apache-2.0
// controls/f16_sum_rounded: exponentials are rounded to f16 before anything is
// done with them, so that the denominator adds what P v is made of.
#include "impl/controls/rounded_p.h"

namespace qkvet::impl {

extern constinit const qkvet_kernel controls_f16_sum_rounded = plain_kernel(
    "controls/f16_sum_rounded", "P rounded to f16, denominator from rounded P",
    {"impl/controls/f16_sum_rounded.cpp", __LINE__},
    &kSumOfRoundedP<Storage::kF16>, kRowForward<SumOfRoundedP>,
    kOneHalf<Storage::kF16>);

}  // namespace qkvet::impl
