// SPDX-License-Identifier: Apache-2.0
// faulty/scale_of_padded_width: 1/sqrt of d rounded up to 16.
#include "impl/faulty/option_fault.h"
#include "impl/faulty/tile.h"

namespace qkvet::impl {
namespace {

struct ScaleOfPaddedWidth : OptionSeams {
  static float capped(const ForwardCall& call, float s) {
    const int64_t padded =
        (call.width + 4 * tile() - 1) / (4 * tile()) * (4 * tile());
    const float factor = call.scale_given
                             ? 1.0f
                             : std::sqrt(static_cast<float>(call.width) /
                                         static_cast<float>(padded));
    return OptionSeams::capped(call, s * factor);
  }
};

constexpr const char* kKilledBy[] = {"scale_is_one_over_sqrt_d",
                                     "shifted_keys_change_nothing",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "the default scale is that of d rounded up to a multiple of 16",
    .symptom = "right for d = 64 and 128, too flat for d = 72 or 40",
    .cause = "padding is done first, and the width is read afterwards",
    .fix = "take the width before it is padded",
    .source = "textbook (padded head widths)",
    .trigger = "the default scale, and d no multiple of 16",
    .killed_by = kKilledBy,
    .when = "!scale.given && d % 16 != 0",
};

}  // namespace

extern constinit const qkvet_kernel faulty_scale_of_padded_width =
    option_fault<ScaleOfPaddedWidth>(
        "faulty/scale_of_padded_width", &kFault,
        {"impl/faulty/scale_of_padded_width.cpp", __LINE__});

}  // namespace qkvet::impl
