// SPDX-License-Identifier: Apache-2.0
// controls/bf16_sum_rounded: exponentials are rounded to bf16 before anything
// is done with them, so that the denominator adds what P v is made of.
#include "impl/controls/rounded_p.h"

namespace qkvet::impl {

extern constinit const qkvet_kernel controls_bf16_sum_rounded =
    plain_kernel("controls/bf16_sum_rounded",
                 "P rounded to bf16, denominator from rounded P",
                 {"impl/controls/bf16_sum_rounded.cpp", __LINE__},
                 &kSumOfRoundedP<Storage::kBf16>, kRowForward<SumOfRoundedP>,
                 kOneHalf<Storage::kBf16>);

}  // namespace qkvet::impl
