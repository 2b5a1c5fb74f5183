// SPDX-License-Identifier: Apache-2.0
// faulty/window_in_packed_rows: a window is counted in rows that are pairs of
// token and head.
#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct WindowInPackedRows : OptionSeams {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    return j < call.visible(i);
  }
  static bool allows(const ForwardCall& call, RowAt at, int64_t j) {
    const Options& o = call.options;
    const int64_t row = at.i * call.group() + at.h % call.group();
    const int64_t position = call.position(row);
    return (o.window_left < 0 || position - o.window_left <= j) &&
           (o.window_right < 0 || j <= position + o.window_right);
  }
};

constexpr const char* kKilledBy[] = {"every_pair_is_seen_as_asked",
                                     "grouped_heads_equal_repeated_heads",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "heads of a group are packed behind each other as rows, and the window "
        "takes such a row for a token",
    .symptom =
        "grouped heads lose the keys near them; without groups all is right",
    .cause =
        "the row of the tile is not divided by the size of the group before it "
        "is compared with a key",
    .fix = "divide by H / Hkv first",
    .source = "flashinfer-ai/flashinfer#714, pytorch/pytorch#171271",
    .trigger = "a window, and Hkv < H",
    .killed_by = kKilledBy,
    .when = "window && Hkv < H",
};

}  // namespace

extern constinit const qkvet_kernel faulty_window_in_packed_rows =
    option_fault<WindowInPackedRows, QKVET_OPTION_WINDOW>(
        "faulty/window_in_packed_rows", &kFault,
        {"impl/faulty/window_in_packed_rows.cpp", __LINE__});

}  // namespace qkvet::impl
