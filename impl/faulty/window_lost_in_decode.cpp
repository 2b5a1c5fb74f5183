// SPDX-License-Identifier: Apache-2.0
// faulty/window_lost_in_decode: with one query the window is not looked at.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct WindowLostInDecode : OptionSeams {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    return call.queries == 1 ? j < call.visible(i)
                             : OptionSeams::in_reach(call, i, j);
  }
};

constexpr const char* kKilledBy[] = {"masked_keys_change_nothing",
                                     "every_pair_is_seen_as_asked",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "the path for one query knows no window",
    .symptom =
        "prefill is right, and decoding drifts once the context is longer "
        "than the window",
    .cause = "a decode path of its own, written for models without windows",
    .fix = "limit the keys of the decode path as well",
    .source = "textbook (decode paths)",
    .trigger = "a window shorter than what one query could see, and Tq = 1",
    .killed_by = kKilledBy,
    .when = "window && Tq == 1 && rows(hidden > 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_window_lost_in_decode =
    option_fault<WindowLostInDecode, QKVET_OPTION_WINDOW>(
        "faulty/window_lost_in_decode", &kFault,
        {"impl/faulty/window_lost_in_decode.cpp", __LINE__});

}  // namespace qkvet::impl
