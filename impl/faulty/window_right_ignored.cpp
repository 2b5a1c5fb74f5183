// SPDX-License-Identifier: Apache-2.0
// faulty/window_right_ignored: a window open to the right.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct WindowRightIgnored : OptionSeams {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    ForwardCall open = call;
    open.options.window_right = -1;
    return OptionSeams::in_reach(open, i, j);
  }
};

constexpr const char* kKilledBy[] = {
    "every_pair_is_seen_as_asked", "masked_keys_change_nothing",
    "every_key_counts_once",       "rows_stay_in_hull",
    "agrees_with_oracle",          nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "only the left side of the window is honoured",
    .symptom = "without the causal rule, rows see everything behind them",
    .cause = "a window that only ever ran together with the causal rule",
    .fix = "limit both sides",
    .source = "textbook",
    .trigger =
        "a window with a right side, and no causal rule that hides the same "
        "keys",
    .killed_by = kKilledBy,
    .when = "window.right >= 0 && !causal && rows(hidden > 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_window_right_ignored =
    option_fault<WindowRightIgnored, QKVET_OPTION_WINDOW>(
        "faulty/window_right_ignored", &kFault,
        {"impl/faulty/window_right_ignored.cpp", __LINE__});

}  // namespace qkvet::impl
