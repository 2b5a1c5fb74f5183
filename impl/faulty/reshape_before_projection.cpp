// SPDX-License-Identifier: Apache-2.0
// faulty/reshape_before_projection: x is split into heads before it is
// projected.
#include "impl/faulty/fault.h"

namespace qkvet::impl {
namespace {

struct ReshapeBeforeProjection : PlainLayer {
  // Head h of `heads` sees its own slice of x, and of the matrix its own block.
  static InputRange input(const LayerCall& call, int64_t heads, int64_t h) {
    if (call.model_width % heads != 0) {
      return PlainLayer::input(call, heads, h);
    }
    const int64_t slice = call.model_width / heads;
    return {h * slice, (h + 1) * slice};
  }
};

constexpr const char* kKilledBy[] = {"split_and_merge_place_every_element",
                                     "layer_agrees_with_oracle", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "each head is projected from its own slice of x by its own block of "
        "the matrix",
    .symptom =
        "every shape fits; heads never see the rest of x, and most of the "
        "matrices is never read",
    .cause = "x is reshaped to [B, T, H, D / H] before the projection",
    .fix = "project the whole row of x, then split the result",
    .source = "textbook",
    .trigger =
        "more than one head, a number of heads that divides D, and matrices "
        "with entries off the blocks",
    .killed_by = kKilledBy,
    .when = "H > 1 && D % H == 0 || Hkv > 1 && D % Hkv == 0",
};

}  // namespace

extern constinit const qkvet_kernel faulty_reshape_before_projection =
    faulty_layer<ReshapeBeforeProjection>(
        "faulty/reshape_before_projection", &kFault,
        {"impl/faulty/reshape_before_projection.cpp", __LINE__});

}  // namespace qkvet::impl
