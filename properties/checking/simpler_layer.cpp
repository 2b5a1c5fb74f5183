// SPDX-License-Identifier: Apache-2.0
// Simpler layers: tiny ones first, then smaller extents, fewer options, plainer
// data.
#include "properties/checking/simpler.h"

namespace qkvet::properties {
namespace {

constexpr int64_t kTinyLayer = 3;

// Every layer with up to three rows, two heads and head width two, smallest
// first.
void add_tiny(const Case& value, Collector& out) {
  for (int64_t d = 1; d <= 2; ++d)
    for (int64_t T = 1; T <= kTinyLayer; ++T)
      for (const auto& [H, Hkv] :
           {std::pair<int64_t, int64_t>{1, 1}, {2, 2}, {2, 1}}) {
        if (H > value.shape.H || T > value.shape.Tq) continue;
        out.add([&, H = H, Hkv = Hkv](
                    Case& c) { c.shape = {1, H, Hkv, T, T, d, d, H * d}; },
                /*smaller=*/true);
      }
}

void add_smaller(const Case& value, Collector& out) {
  const Shape& s = value.shape;
  if (s.B > 1) out.add([](Case& c) { c.shape.B = 1; });
  if (s.H > 1) {
    out.add([](Case& c) { c.shape.H = c.shape.Hkv = 1; });
    out.add([](Case& c) { c.shape.H = c.shape.Hkv; });
    out.add([](Case& c) { c.shape.H = c.shape.group(), c.shape.Hkv = 1; });
    out.add([](Case& c) { c.shape.H -= c.shape.group(), --c.shape.Hkv; });
  }
  for (const int64_t next : smaller_numbers(s.Tq, 1))
    out.add([&](Case& c) { c.shape.Tq = c.shape.Tk = next; });
  for (const auto extent : {&Shape::D, &Shape::d, &Shape::dv})
    for (const int64_t next : smaller_numbers(s.*extent, 1))
      out.add([&](Case& c) { c.shape.*extent = next; });
}

void add_fewer_options(const Case& value, Collector& out) {
  if (value.causal != Causal::kNone)
    out.add([](Case& c) { c.causal = Causal::kNone, c.context = 0; });
  if (value.layout != Layout::kBhtd) out.drop(kOptionLayout);
  if (value.unbatched) out.add([](Case& c) { c.unbatched = false; });
  if (value.fused != FusedOrder::kNone)
    out.add([](Case& c) { c.fused = FusedOrder::kNone; });
  if (value.fused > FusedOrder::kQkv)
    out.add([](Case& c) { c.fused = FusedOrder::kQkv; });
  if (value.context > 0) out.add([](Case& c) { c.context = 0; });
  if (value.context > value.shape.Tq)
    out.add([](Case& c) { c.context = c.shape.Tq; });
  if (value.context > value.shape.Tq + 1)
    out.add([](Case& c) { c.context = c.shape.Tq + 1; });
  if (value.biases != 0) out.add([](Case& c) { c.biases = 0; });
  for (int i = 0; i < 4; ++i)
    if ((value.biases >> i & 1) != 0)
      out.add([&](Case& c) {
        c.biases = static_cast<uint8_t>(c.biases & ~(1 << i));
      });
}

}  // namespace

void add_simpler_layer(const Case& value, Collector& out) {
  add_tiny(value, out);
  add_smaller(value, out);
  add_fewer_options(value, out);
  add_simpler_numbers(value, out);
  add_simpler_fields(value, out);
  add_simpler_rope(value, out);
  add_plainer_data(value, {&Case::x, &Case::w, &Case::bias}, out);
}

}  // namespace qkvet::properties
