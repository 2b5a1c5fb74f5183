// SPDX-License-Identifier: Apache-2.0
// faulty/hidden_tile_minus_itself: minus infinity is subtracted from itself in
// a hidden tile.
#include "impl/faulty/tiled_seams.h"

namespace qkvet::impl {
namespace {

struct HiddenTileMinusItself : TiledSeams {
  static float reference(float max) { return max; }
};

constexpr const char* kKilledBy[] = {"every_pair_is_seen_as_asked",
                                     "window_equals_mask", "agrees_with_oracle",
                                     nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "in a hidden tile the maximum, -infinity, is subtracted from itself",
    .symptom =
        "NaN in rows whose first keys are hidden, though they see others",
    .cause =
        "the maximum of an online softmax is -infinity until a key is seen",
    .fix = "subtract 0 while the maximum is -infinity, or leave such tiles out",
    .source =
        "ggml-org/llama.cpp#6438, ggml-org/llama.cpp#12776, "
        "pytorch/pytorch#130014",
    .trigger = "a hidden tile in front of a key that is seen",
    .killed_by = kKilledBy,
    .when = "(mask || window) && rows(seen > 0 && hidden > 1)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_hidden_tile_minus_itself =
    tiled_fault<HiddenTileMinusItself, QKVET_OPTION_MASK | QKVET_OPTION_WINDOW>(
        "faulty/hidden_tile_minus_itself", &kFault,
        {"impl/faulty/hidden_tile_minus_itself.cpp", __LINE__});

}  // namespace qkvet::impl
