// SPDX-License-Identifier: Apache-2.0
// Which cases count as simpler than a given one: first smaller extents, the
// very smallest first of all; then fewer options; then plainer data. Data is a
// function of the index, so an element that survives keeps its value.
#include <algorithm>

#include "properties/generate.h"

namespace qkvet {
namespace {

// Extents tried in every combination before any single one is reduced. Three
// is the least at which a first, a middle and a last differ.
constexpr int64_t kTiny = 3;

class Collector {
 public:
  Collector(const Law& law, const Case& origin) : law_(law), origin_(origin) {}

  // Adds what `change` makes of the origin, if that is a valid, other case;
  // with `smaller` only if its extents are smaller even after the law has
  // fitted it, so that plainer and wilder data cannot take turns for ever.
  template <class Change>
  void add(Change change, bool smaller = false) {
    Case candidate = origin_;
    change(candidate);
    candidate = law_.fit(candidate);
    drop_outside_values(candidate);
    if (smaller &&
        sum_of_extents(candidate.shape) >= sum_of_extents(origin_.shape))
      return;
    if (candidate == origin_ || !invalid_reason(candidate).empty()) return;
    if (std::find(cases_.begin(), cases_.end(), candidate) == cases_.end())
      cases_.push_back(std::move(candidate));
  }
  std::vector<Case> take() { return std::move(cases_); }

 private:
  static void drop_outside_values(Case& value) {
    const Shape& s = value.shape;
    std::erase_if(value.set, [&](const SetValue& set) {
      const bool is_q = set.tensor == TensorName::kQ;
      const int64_t width = set.tensor == TensorName::kV ? s.dv : s.d;
      return set.index[0] >= s.B || set.index[1] >= (is_q ? s.H : s.Hkv) ||
             set.index[2] >= (is_q ? s.Tq : s.Tk) || set.index[3] >= width;
    });
  }

  const Law& law_;
  const Case& origin_;
  std::vector<Case> cases_;
};

// Every shape with extents up to kTiny (one batch member, up to two heads)
// whose sum is below the origin's, smallest sum first.
std::vector<Shape> tiny_shapes(const Shape& origin) {
  std::vector<Shape> shapes;
  for (int64_t B = 1; B <= std::min<int64_t>(2, origin.B); ++B)
    for (const auto& [H, Hkv] :
         {std::pair<int64_t, int64_t>{1, 1}, {2, 1}, {2, 2}})
      for (int64_t Tq = 1; Tq <= kTiny; ++Tq)
        for (int64_t Tk = 1; Tk <= kTiny; ++Tk)
          for (int64_t d = 1; d <= kTiny; ++d)
            for (int64_t dv = 1; dv <= kTiny; ++dv)
              if (dv == 1 || dv == d)
                shapes.push_back({B, H, Hkv, Tq, Tk, d, dv});
  std::erase_if(shapes, [&](const Shape& s) {
    return s.H > origin.H || s.Tq > origin.Tq || s.Tk > origin.Tk ||
           s.d > origin.d || s.dv > origin.dv ||
           sum_of_extents(s) >= sum_of_extents(origin);
  });
  std::stable_sort(shapes.begin(), shapes.end(),
                   [](const Shape& a, const Shape& b) {
                     return sum_of_extents(a) < sum_of_extents(b);
                   });
  return shapes;
}

// Data that shows most mistakes in the smallest shapes: plain, exact, with
// scores beyond exp's range, and with one key that takes all.
struct Probe {
  RecipeKind q, k;
  int64_t parameter;  // of both recipes, if they take one
};
constexpr Probe kProbes[] = {{RecipeKind::kNormal, RecipeKind::kNormal, 0},
                             {RecipeKind::kLattice, RecipeKind::kLattice, 0},
                             {RecipeKind::kLargeN, RecipeKind::kLargeN, 4},
                             {RecipeKind::kLead, RecipeKind::kDominantN, 0}};

// Tiny shapes with the data at hand and with the probes: a rare value that a
// long tensor happened to hold would otherwise keep the tensor long.
void add_tiny_shapes(const Case& value, Collector& out) {
  for (const Shape& shape : tiny_shapes(value.shape)) {
    out.add([&](Case& c) { c.shape = shape; }, /*smaller=*/true);
    for (const Probe& probe : kProbes)
      out.add(
          [&](Case& c) {
            c.shape = shape;
            c.q = {probe.q, probe.parameter};
            c.k = {probe.k, probe.parameter};
          },
          /*smaller=*/true);
  }
}

void add_smaller_extents(const Case& value, Collector& out) {
  add_tiny_shapes(value, out);
  const Shape& s = value.shape;
  if (s.H > 1) {
    out.add([](Case& c) { c.shape.H = c.shape.Hkv = 1; });
    out.add([](Case& c) { c.shape.H = c.shape.Hkv; });
    out.add([](Case& c) { c.shape.H = c.shape.group(), c.shape.Hkv = 1; });
    out.add([](Case& c) { c.shape.H -= c.shape.group(), --c.shape.Hkv; });
    out.add([](Case& c) { c.shape.H -= c.shape.Hkv; });
  }
  for (const auto extent :
       {&Shape::B, &Shape::Tq, &Shape::Tk, &Shape::d, &Shape::dv}) {
    const int64_t now = s.*extent;
    for (const int64_t next : {int64_t{1}, now / 2, now - now / 4, now - 1})
      if (next >= 1 && next < now)
        out.add([&](Case& c) { c.shape.*extent = next; });
  }
  // A recipe that points at a row must follow a shrinking extent.
  out.add([](Case& c) {
    for (Recipe* recipe : {&c.q, &c.k, &c.v})
      if (recipe->kind == RecipeKind::kDominantN ||
          recipe->kind == RecipeKind::kOnehotN)
        recipe->parameter = 0;
  });
}

void add_simpler_options(const Case& value, Collector& out) {
  if (value.q_dtype != Dtype::kF32)
    out.add([](Case& c) { c.q_dtype = c.kv_dtype = c.o_dtype = Dtype::kF32; });
  if (value.causal != Causal::kNone)
    out.add([](Case& c) { c.causal = Causal::kNone; });
  if (value.causal == Causal::kBottomRight)
    out.add([](Case& c) { c.causal = Causal::kTopLeft; });
  if (value.scale) {
    out.add([](Case& c) { c.scale.reset(); });
    out.add([](Case& c) { c.scale = 1.0f; });
  }
}

void add_plainer_data(const Case& value, Collector& out) {
  // From the plainest; a recipe is only ever replaced by one before it.
  constexpr RecipeKind kPlain[] = {RecipeKind::kZero,    RecipeKind::kOne,
                                   RecipeKind::kOnehotN, RecipeKind::kCount,
                                   RecipeKind::kLattice, RecipeKind::kNormal};
  for (const auto tensor : {&Case::q, &Case::k, &Case::v}) {
    for (const RecipeKind kind : kPlain) {
      if ((value.*tensor).kind == kind) break;
      out.add([&](Case& c) { c.*tensor = make_recipe(kind); });
    }
    const Recipe& recipe = value.*tensor;
    if (recipe.parameter > 0)
      for (const int64_t next : {recipe.parameter / 2, recipe.parameter - 1})
        out.add([&](Case& c) { (c.*tensor).parameter = next; });
  }
  for (const uint64_t seed : {uint64_t{1}, uint64_t{2}, uint64_t{3}}) {
    if (value.seed == seed) break;
    out.add([&](Case& c) { c.seed = seed; });
  }
  for (size_t i = 0; i < value.set.size(); ++i) {
    out.add([&](Case& c) {
      c.set.erase(c.set.begin() + static_cast<ptrdiff_t>(i));
    });
    if (value.set[i].value != 0) out.add([&](Case& c) { c.set[i].value = 0; });
  }
}

}  // namespace

std::vector<Case> simpler_cases(const Law& law, const Case& value) {
  Collector out(law, value);
  add_smaller_extents(value, out);
  add_simpler_options(value, out);
  add_plainer_data(value, out);
  return out.take();
}

}  // namespace qkvet
