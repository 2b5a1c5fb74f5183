// SPDX-License-Identifier: Apache-2.0
// faulty/window_first_tile_without_offset: the first tile of a window is found
// as if the chunk began the sequence.
#include <algorithm>

#include "impl/faulty/option_fault.h"
#include "impl/faulty/tile.h"

namespace qkvet::impl {
namespace {

struct WindowFirstTileWithoutOffset : OptionSeams {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    const Run run = call.in_reach(i);
    const int64_t left = call.options.window_left, tile = half_tile();
    if (left < 0) {
      return run.begin <= j && j < run.end;
    }
    // Only the first tile is thought to hold keys in front of the window.
    const int64_t first = std::max<int64_t>(i - left, 0) / tile * tile;
    return first <= j && j < run.end && (first + tile <= j || run.begin <= j);
  }
};

constexpr const char* kKilledBy[] = {"every_pair_is_seen_as_asked",
                                     "masked_keys_change_nothing",
                                     "agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "the tile in which a window begins is found from the row, without the "
        "offset of the chunk",
    .symptom =
        "prefill from the start is right; later chunks see keys that left the "
        "window",
    .cause =
        "the loop over tiles begins at a tile that is counted from the first "
        "query",
    .fix = "count from the position of the query, as its mask does",
    .source = "flashinfer-ai/flashinfer#4972",
    .trigger = "a window to the left, and Tq other than Tk",
    .killed_by = kKilledBy,
    .when = "window.left >= 0 && !top_left && Tq != Tk",
};

}  // namespace

extern constinit const qkvet_kernel faulty_window_first_tile_without_offset =
    option_fault<WindowFirstTileWithoutOffset, QKVET_OPTION_WINDOW>(
        "faulty/window_first_tile_without_offset", &kFault,
        {"impl/faulty/window_first_tile_without_offset.cpp", __LINE__});

}  // namespace qkvet::impl
