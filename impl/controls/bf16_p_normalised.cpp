// SPDX-License-Identifier: Apache-2.0
// controls/bf16_p_normalised: weights are divided by their sum, rounded to
// bf16, and then meet the values.
#include "impl/controls/rounded_p.h"

namespace qkvet::impl {

extern constinit const qkvet_kernel controls_bf16_p_normalised =
    p_normalised_kernel<Storage::kBf16>(
        "controls/bf16_p_normalised", "P normalised, then rounded to bf16",
        {"impl/controls/bf16_p_normalised.cpp", __LINE__});

}  // namespace qkvet::impl
