// SPDX-License-Identifier: Apache-2.0
// Simpler merges: fewer rows, states and channels, one layout, plainer data.
#include "properties/checking/simpler.h"

namespace qkvet::properties {

void add_simpler_merge(const Case& value, Collector& out) {
  for (const int64_t states : {int64_t{2}, int64_t{3}})
    if (value.shape.Tk >= states)
      out.add(
          [&](Case& c) {
            c.shape.B = c.shape.H = c.shape.Hkv = c.shape.dv = 1;
            c.shape.Tk = states;
          },
          /*smaller=*/true);
  for (const int64_t next : smaller_numbers(value.shape.H, 1))
    out.add([&](Case& c) { c.shape.H = c.shape.Hkv = next; });
  for (const auto extent : {&Shape::B, &Shape::Tk, &Shape::dv}) {
    const int64_t now = value.shape.*extent;
    for (const int64_t next :
         {int64_t{1}, int64_t{2}, now / 2, now - now / 4, now - 1})
      if (next >= 1 && next < now)
        out.add([&](Case& c) { c.shape.*extent = next; });
  }
  add_simpler_lengths(value, out);
  if (!value.kv_len.empty()) out.drop(QKVET_OPTION_LENGTHS);
  if (value.layout != Layout::kBhtd) {
    out.drop(kOptionLayout);
    out.add([](Case& c) { c.layout = Layout::kBthd; });
  }
  if (value.layout == Layout::kFar)
    out.add([](Case& c) { c.layout = Layout::kGaps; });
  add_simpler_numbers(value, out);
  for (const RecipeKind kind :
       {RecipeKind::kZero, RecipeKind::kLattice, RecipeKind::kNormal}) {
    if (value.score_bias && value.score_bias->kind == kind) break;
    out.add([&](Case& c) { c.score_bias = make_recipe(kind); });
  }
  add_plainer_data(value, {&Case::v}, out);
}

}  // namespace qkvet::properties
