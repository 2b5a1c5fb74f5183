// SPDX-License-Identifier: Apache-2.0
// faulty/window_from_top_left: the window forgets the keys in front of a chunk.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct WindowFromTopLeft : OptionSeams {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    const Options& o = call.options;
    return j < call.visible(i) &&
           (o.window_left < 0 || j >= i - o.window_left) &&
           (o.window_right < 0 || j <= i + o.window_right);
  }
};

constexpr const char* kKilledBy[] = {
    "every_pair_is_seen_as_asked", "masked_keys_change_nothing",
    "every_key_counts_once",       "rows_stay_in_hull",
    "agrees_with_oracle",          nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "the window counts from key i instead of key i + Tk - Tq",
    .symptom = "right for prompts, wrong for every chunk on earlier keys",
    .cause = "the row number of the chunk taken for a position",
    .fix =
        "count from the diagonal: i + Tk - Tq unless causal from the top left",
    .source = "flashinfer-ai/flashinfer#4972",
    .trigger = "a window, and Tq != Tk",
    .killed_by = kKilledBy,
    .when = "window && !top_left && Tq != Tk",
};

}  // namespace

extern constinit const qkvet_kernel faulty_window_from_top_left =
    option_fault<WindowFromTopLeft, QKVET_OPTION_WINDOW>(
        "faulty/window_from_top_left", &kFault,
        {"impl/faulty/window_from_top_left.cpp", __LINE__});

}  // namespace qkvet::impl
