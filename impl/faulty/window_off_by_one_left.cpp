// SPDX-License-Identifier: Apache-2.0
// faulty/window_off_by_one_left: one key too few to the left.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct WindowOffByOneLeft : OptionSeams {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    const Run run = call.in_reach(i);
    const bool limited = call.options.window_left >= 0 &&
                         call.position(i) - call.options.window_left >= 0;
    return run.begin + (limited ? 1 : 0) <= j && j < run.end;
  }
};

constexpr const char* kKilledBy[] = {
    "every_pair_is_seen_as_asked", "window_equals_mask",
    "every_key_counts_once",       "rows_stay_in_hull",
    "agrees_with_oracle",          nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "the left side of the window is exclusive",
    .symptom = "rows see one key less than they should, the oldest",
    .cause =
        "a comparison with > for one with >=, or a width that counts the "
        "diagonal",
    .fix = "keys from position - left on, inclusive",
    .source = "textbook, cf. flashinfer-ai/flashinfer#4972",
    .trigger = "a window whose left border lies inside the keys",
    .killed_by = kKilledBy,
    .when = "window.left >= 0 && rows(diagonal >= window.left)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_window_off_by_one_left =
    option_fault<WindowOffByOneLeft, QKVET_OPTION_WINDOW | QKVET_OPTION_MASK>(
        "faulty/window_off_by_one_left", &kFault,
        {"impl/faulty/window_off_by_one_left.cpp", __LINE__});

}  // namespace qkvet::impl
