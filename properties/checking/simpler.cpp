// SPDX-License-Identifier: Apache-2.0
// The order of simpler cases: first smaller extents, the very smallest first of
// all; then fewer options; then plainer data. Data is a function of the index,
// so an element that is kept has the same value.
#include "properties/checking/simpler.h"

#include "core/case/option_fields.h"
#include "core/case/paging.h"

namespace qkvet::properties {
namespace {

// Extents tried in every combination before any single one is reduced. Three is
// the least with a first, a middle and a last one.
constexpr int64_t kTiny = 3;

// Every shape with extents up to kTiny (one batch member, up to two heads) and
// a smaller sum than the origin's, smallest sum first.
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
  int64_t parameter;  // for both recipes, if they take one
};
constexpr Probe kProbes[] = {{RecipeKind::kNormal, RecipeKind::kNormal, 0},
                             {RecipeKind::kLattice, RecipeKind::kLattice, 0},
                             {RecipeKind::kLargeN, RecipeKind::kLargeN, 4},
                             {RecipeKind::kLead, RecipeKind::kDominantN, 0}};

// Tiny shapes with the present data and with the probes: otherwise a rare value
// in a long tensor would keep the tensor long.
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
  if (out.tries_tiny) add_tiny_shapes(value, out);
  const Shape& s = value.shape;
  if (s.H > 1) {
    out.add([](Case& c) { c.shape.H = c.shape.Hkv = 1; });
    out.add([](Case& c) { c.shape.H = c.shape.Hkv; });
    out.add([](Case& c) { c.shape.H = c.shape.group(), c.shape.Hkv = 1; });
    out.add([](Case& c) { c.shape.H -= c.shape.group(), --c.shape.Hkv; });
    out.add([](Case& c) { c.shape.H -= c.shape.Hkv; });
    // Groups of two, which can show mistakes that groups of three hide.
    if (s.group() > 2) out.add([](Case& c) { c.shape.H = 2 * c.shape.Hkv; });
  }
  for (const auto extent :
       {&Shape::B, &Shape::Tq, &Shape::Tk, &Shape::d, &Shape::dv}) {
    // Groups of channels have steps of their own: add_simpler_forms().
    if (extent == &Shape::d && channel_group_of(value) > 0) continue;
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

// Gradients have two widths, and a kernel that confuses them is visible by the
// leftover channels: removing two and four channels keeps these. Plain data may
// be equal where the two meet; small integers seldom are.
void add_even_steps(const Case& value, Collector& out) {
  for (const auto width : {&Shape::d, &Shape::dv})
    for (const int64_t step : {4, 2})
      if (value.shape.*width > step) {
        out.add([&](Case& c) { c.shape.*width -= step; });
        out.add(
            [&](Case& c) {
              c.shape.*width -= step;
              c.d_o = make_recipe(RecipeKind::kLattice);
            },
            /*smaller=*/true);
      }
}

// Without step n of a sequence, and with fewer of its calls; half of the
// sequence first.
void add_fewer_calls(const Case& value, size_t n, Collector& out) {
  const auto at = static_cast<ptrdiff_t>(n);
  const size_t size = value.calls.size();
  if (n == 0 && size > 2) out.add([&](Case& c) { c.calls.resize(size / 2); });
  out.add([&](Case& c) {
    c.calls.erase(c.calls.begin() + at);
    c.calls = joined(c.calls);
  });
  const int64_t now = value.calls[n].times;
  for (const int64_t next : {int64_t{1}, now / 2, now - now / 8, now - 1})
    if (next >= 1 && next < now)
      out.add([&](Case& c) { c.calls[n].times = next; });
}

// Without each option.
void add_without_options(const Case& value, Collector& out) {
  for (const uint64_t option :
       single_options(options_of(value) & ~QKVET_OPTION_EMPTY_EXTENTS))
    // Without block tables a case would have lists, which are no simpler.
    out.drop(option == QKVET_OPTION_PAGED
                 ? QKVET_OPTION_PAGED | QKVET_OPTION_PAGED_CSR
                 : option);
}

// Open on one side, and no longer than the extents.
void add_simpler_window(const Case& value, Collector& out) {
  if (!value.window) return;
  for (const auto side : {&Window::left, &Window::right}) {
    if (std::min(value.window->left, value.window->right) >= 0)
      out.add([&](Case& c) { (*c.window).*side = -1; });
    out.add([&](Case& c) {
      auto& keys = (*c.window).*side;
      keys = std::min(keys, std::max(c.shape.Tq, c.shape.Tk));
    });
  }
}

// Plainer tensors of the options.
void add_plainer_options(const Case& value, Collector& out) {
  if (value.mask.kind >= MaskKind::kPrefixN &&
      value.mask.kind <= MaskKind::kTreeN)
    out.add([](Case& c) { c.mask = {MaskKind::kButN, 0, c.mask.own}; });
  if (value.score_bias) {
    out.add([](Case& c) { c.score_bias = make_recipe(RecipeKind::kLattice); });
    // From the last number of every type to usual ones.
    for (const int64_t digits : {int64_t{4}, int64_t{9}})
      if (is_of_bias_alone(value.score_bias->kind) &&
          value.score_bias->parameter > digits)
        out.add([&](Case& c) { c.score_bias->parameter = digits; });
  }
  for (const auto per_head : {&Case::sink, &Case::slopes})
    if (value.*per_head)
      out.add([&](Case& c) { c.*per_head = make_recipe(RecipeKind::kOne); });
}

// Fewer calls, members with all their rows or keys, smaller strides, and widths
// that keep groups of channels whole.
void add_simpler_forms(const Case& value, Collector& out) {
  for (size_t n = 0; n < value.calls.size(); ++n)
    add_fewer_calls(value, n, out);
  if (!value.q_len.empty() && !value.kv_len.empty()) {
    out.add([](Case& c) { c.q_len.clear(); });
    out.add([](Case& c) { c.kv_len.clear(); });
  }
  if (value.layout == Layout::kFar)
    out.add([](Case& c) { c.layout = Layout::kGaps; });
  if (const int64_t x = channel_group_of(value); x > 0)
    for (const int64_t next : {x, value.shape.d / 2 / x * x, value.shape.d - x})
      if (next >= x && next < value.shape.d)
        out.add([&](Case& c) {
          if (c.shape.dv == c.shape.d) c.shape.dv = next;
          c.shape.d = next;
        });
}

void add_simpler_mask(const Case& value, Collector& out) {
  if (value.causal != Causal::kNone)
    out.add([](Case& c) { c.causal = Causal::kNone; });
  if (value.causal == Causal::kBottomRight)
    out.add([](Case& c) { c.causal = Causal::kTopLeft; });
}

}  // namespace

int64_t size_of(const Case& value) {
  int64_t size = sum_of_extents(value.shape) + value.shape.D + value.capacity;
  const CacheForm& form = value.cache;
  size += form.window + form.first_tokens + form.rollback;
  for (const StoryCommand& command : value.story) size += 1 + command.count;
  return size;
}

void add_simpler_numbers(const Case& value, Collector& out) {
  if (value.q_dtype != Dtype::kF32)
    out.add([](Case& c) { c.q_dtype = c.kv_dtype = c.o_dtype = Dtype::kF32; });
  if (value.scale) {
    out.add([](Case& c) { c.scale.reset(); });
    out.add([](Case& c) { c.scale = 1.0f; });
  }
}

void add_simpler_fields(const Case& value, Collector& out) {
  // Farther than twice the extents only halves lead back to them soon.
  const int64_t near =
      2 * std::max({value.shape.Tq, value.shape.Tk, value.capacity});
  for (const OptionField& field : option_fields()) {
    if (field.set == nullptr || !field.given(value)) continue;
    const int64_t now = field.get(value);
    const auto add = [&](int64_t next) {
      out.add([&](Case& c) { field.set(c, next); });
    };
    for (const int64_t plain : field.plain)
      if (plain < now || now < field.least) add(plain);
    if (!field.counts || now <= std::max<int64_t>(field.least, 0)) continue;
    if (now / 2 >= field.least) add(now / 2);
    if (now <= near) add(now - 1);
  }
}

void add_simpler_options(const Case& value, Collector& out) {
  add_without_options(value, out);
  add_simpler_window(value, out);
  add_simpler_fields(value, out);
  add_plainer_options(value, out);
}

void add_plainer_data(const Case& value,
                      std::initializer_list<Recipe Case::*> tensors,
                      Collector& out) {
  // From the plainest; a recipe is only ever replaced by one before it.
  constexpr RecipeKind kPlain[] = {RecipeKind::kZero,    RecipeKind::kOne,
                                   RecipeKind::kOnehotN, RecipeKind::kCount,
                                   RecipeKind::kLattice, RecipeKind::kNormal};
  for (const auto tensor : tensors) {
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

void add_simpler_attention(const Case& value, Collector& out) {
  add_smaller_extents(value, out);
  add_simpler_lengths(value, out);
  add_simpler_numbers(value, out);
  add_simpler_options(value, out);
  add_simpler_forms(value, out);
  add_simpler_rope(value, out);
  add_simpler_mask(value, out);
  add_plainer_data(value, {&Case::q, &Case::k, &Case::v}, out);
}

void add_simpler_rope(const Case& value, Collector& out) {
  if (value.rope.style == RopeStyle::kNone) return;
  out.add([](Case& c) { c.rope = {}; });
  if (value.rope.channels != 0) out.add([](Case& c) { c.rope.channels = 0; });
  if (value.rope.channels > 2) out.add([](Case& c) { c.rope.channels -= 2; });
  if (value.shape.d > 2) out.add([](Case& c) { c.shape.d -= 2; });
}

void add_simpler_backward(const Case& value, Collector& out) {
  add_simpler_attention(value, out);
  add_plainer_data(value, {&Case::d_o}, out);
  add_even_steps(value, out);
}

void add_simpler_layer_backward(const Case& value, Collector& out) {
  add_simpler_layer(value, out);
  add_plainer_data(value, {&Case::d_o}, out);
}

std::vector<Case> simpler_cases(const Law& law, const Case& value,
                                bool tries_tiny) {
  Collector out(law, value, tries_tiny);
  subject_row(value.subject()).simplify(value, out);
  return out.take();
}

}  // namespace qkvet::properties
