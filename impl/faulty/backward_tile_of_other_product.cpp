// SPDX-License-Identifier: Apache-2.0
// faulty/backward_tile_of_other_product: one of two products takes the tiles
// of the other.
#include "impl/faulty/backward_fault.h"
#include "impl/faulty/tile.h"

namespace qkvet::impl {
namespace {

struct TileOfOtherProduct : PlainBackward {
  static int64_t value_columns(const ForwardCall& call) {
    const int64_t columns = (call.width + tile() - 1) / tile() * tile();
    return columns < call.value_width ? columns : call.value_width;
  }
};

constexpr const char* kKilledBy[] = {"backward_is_the_adjoint",
                                     "backward_agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "dv is computed in as many tiles of 4 channels as dk has",
    .symptom =
        "the last channels of dv are 0; right wherever both heads have the "
        "same width",
    .cause = "two products share one description of tiles, made for the first",
    .fix = "describe the tiles of each product by its own extents",
    .source = "Dao-AILab/flash-attention#2035",
    .trigger = "dv of more tiles of 4 channels than d",
    .killed_by = kKilledBy,
    .when = "(d + 3) / 4 * 4 < dv",
};

}  // namespace

extern constinit const qkvet_kernel faulty_backward_tile_of_other_product =
    backward_fault<TileOfOtherProduct>(
        "faulty/backward_tile_of_other_product", &kFault,
        {"impl/faulty/backward_tile_of_other_product.cpp", __LINE__});

}  // namespace qkvet::impl
