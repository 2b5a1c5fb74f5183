// SPDX-License-Identifier: Apache-2.0
#include "properties/cases/draw.h"

namespace qkvet::properties {

void draw_layer_storage(Draw& draw, Case& value) {
  if (draw.chance(40))
    value.fused = static_cast<FusedOrder>(draw.range(1, kFusedOrderCount - 1));
  // As long as the text, a little longer, or much.
  if (value.causal == Causal::kNone || !draw.chance(40)) return;
  constexpr std::array<int64_t, 5> kLonger = {0, 0, 1, 7, 32};
  value.context = value.shape.Tq + draw.of(kLonger);
}

}  // namespace qkvet::properties
