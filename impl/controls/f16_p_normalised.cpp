// SPDX-License-Identifier: Apache-2.0
// controls/f16_p_normalised: weights are divided by their sum, rounded to f16,
// and then meet the values.
#include "impl/controls/rounded_p.h"

namespace qkvet::impl {

extern constinit const qkvet_kernel controls_f16_p_normalised =
    p_normalised_kernel<Storage::kF16>(
        "controls/f16_p_normalised", "P normalised, then rounded to f16",
        {"impl/controls/f16_p_normalised.cpp", __LINE__});

}  // namespace qkvet::impl
