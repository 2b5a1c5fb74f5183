// SPDX-License-Identifier: Apache-2.0
// faulty/value_channels_side_by_side: the channels of V are taken to lie side
// by side.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct ValueChannelsSideBySide : OptionSeams {
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    if (whole.value_width > 1) {
      member->v.step[3] = 1;
    }
  }
};

constexpr const char* kKilledBy[] = {"reads_only_its_inputs", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "channel c of a value is read c elements behind the first",
    .symptom =
        "right for rows in one piece; a slice of every second channel gives "
        "the wrong half of them",
    .cause =
        "strides are taken for three of four dimensions, the last one being 1 "
        "in every model so far",
    .fix =
        "use the stride of the channels, or refuse another one than 1 in "
        "supports()",
    .source = "pytorch/pytorch#187506",
    .trigger = "channels that lie apart, and dv > 1",
    .killed_by = kKilledBy,
    .when = "layout == apart && dv > 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_value_channels_side_by_side =
    option_fault<ValueChannelsSideBySide>(
        "faulty/value_channels_side_by_side", &kFault,
        {"impl/faulty/value_channels_side_by_side.cpp", __LINE__});

}  // namespace qkvet::impl
