// SPDX-License-Identifier: Apache-2.0
// controls/layer_half_stages: q, k, v and attended are rounded to the storage
// type of x, as layers do that keep every tensor between two kernels in half.
// With f32 storage it is scalar/layer.
#include "impl/half.h"
#include "impl/layer_frame.h"

namespace qkvet::impl {
namespace {

struct HalfStages : PlainLayer {
  static float stage(const LayerCall& call, float value) {
    return round_to(call.storage, value);
  }
};

// All zero: the stages have the storage type of x.
constexpr qkvet_layer_table kTable =
    layer_table(LayerFrame<HalfStages>::forward, qkvet_dtype{});

}  // namespace

extern constinit const qkvet_kernel controls_layer_half_stages = layer_kernel(
    "controls/layer_half_stages", "stages rounded to the storage type",
    {"impl/controls/layer_half_stages.cpp", __LINE__}, &kLayerPrecision,
    &kTable);

}  // namespace qkvet::impl
