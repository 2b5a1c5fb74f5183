// SPDX-License-Identifier: Apache-2.0
// Draws from RapidCheck's source, and code shared by the generators of all
// subjects. Choices are made directly and not through rc::gen::inRange, which
// draws from ranges that grow with its size parameter: here every round covers
// the whole range.
#ifndef QKVET_PROPERTIES_CASES_DRAW_H_
#define QKVET_PROPERTIES_CASES_DRAW_H_

#include <array>
#include <functional>
#include <optional>
#include <vector>

#include "properties/cases/scope.h"
#include "properties/judging/law.h"

namespace qkvet::properties {

class Draw {
 public:
  explicit Draw(std::function<uint64_t()> next) : next_(std::move(next)) {}

  uint64_t bits() { return next_(); }
  int64_t range(int64_t low, int64_t high) {
    return low +
           static_cast<int64_t>(bits() % static_cast<uint64_t>(high - low + 1));
  }
  bool chance(int percent) { return range(0, 99) < percent; }
  template <class T, size_t n>
  T of(const std::array<T, n>& choices) {
    return choices[static_cast<size_t>(range(0, static_cast<int64_t>(n) - 1))];
  }

 private:
  std::function<uint64_t()> next_;
};

// The cost of the scores of a case, in approximate products of two numbers.
int64_t work_of(const Shape& s);
// Whether no plan has a case of this shape. A law that makes both extents alike
// makes a long one of each, and its masks may take all memory.
bool is_too_much_work(const Shape& s);

// How large the extents of a case are; most are small.
SizeClass draw_size(Draw& draw, SizeClass largest);
// At most 300.
int64_t draw_extent(Draw& draw, SizeClass size);
void draw_heads(Draw& draw, SizeClass size, Shape& shape);
// Extents of attention that the law has not constrained yet.
Shape draw_shape(Draw& draw, const Law& law, const Scope& scope, bool backward);
// Extents at one of these paths or next to it; nullopt if they would be larger
// or more expensive than cases are.
std::optional<Shape> draw_path_shape(Draw& draw, const Scope& scope,
                                     const std::vector<qkvet_path>& paths,
                                     SizeClass largest, int64_t most_work);
// The same for a path that some kernel declares, in some of all cases, and for
// a hint in fewer.
std::optional<Shape> draw_near_path(Draw& draw, const Scope& scope,
                                    SizeClass largest, int64_t most_work);
// The same for a subject with another way to an extent: the extent, and the
// most that a case at it should cost.
struct NearPath {
  int32_t axis = 0;  // QKVET_AXIS_*
  int64_t extent = 0;
  int64_t most_work = 0;
};
std::optional<NearPath> draw_near_path_of(Draw& draw, const Scope& scope,
                                          SizeClass largest, int64_t most_work);
// Gives a shape the extent, and adapts the others that depend on it.
void put_extent(Draw& draw, const Scope& scope, int32_t axis, int64_t extent,
                Shape& s);
// Draws a case that costs ten times as much a tenth as often.
bool is_drawn_at_its_cost(Draw& draw, int64_t cost, int64_t most_work);
// The capacity of a cache, in tokens.
int64_t draw_capacity(Draw& draw, SizeClass size);

void draw_dtype(Draw& draw, const Scope& scope, Case& value);
void draw_scale(Draw& draw, Case& value);
// Recipes for q, k and v that belong together, and a seed.
void draw_data(Draw& draw, Case& value);
void draw_data_of(Draw& draw, const DataPreset& preset, Case& value);

Rope draw_rotation(Draw& draw);
// Some of the channels, for a case with a rotation; d is then at least 3.
void draw_rope_part(Draw& draw, Case& value);

// Adds numbers at the edges of narrower types, strides of any order, and lse up
// to the range of their type, to a case with drawn data.
void draw_edges(const Law& law, Case& value);

// Options that the law allows and some kernel of the run declares.
void draw_options(Draw& draw, const Law& law, const Scope& scope, Case& value);
// Draws one of them; and, after the last, fits those that depend on each other.
void draw_option(Draw& draw, uint64_t option, Case& value);
void finish_options(Draw& draw, const Law& law, const Scope& scope,
                    Case& value);
// With Layout::kFar: enough members or heads for strides of 2^31 and 2^32
// elements.
void fit_far(Draw& draw, Case& value);

// Attention that is not constrained yet: extents, options and data.
Case draw_unconstrained(Draw& draw, const Law& law, const Scope& scope,
                        bool backward);

// A case of the law's subject, constrained to the law.
Case draw_case(Draw& draw, const Law& law, const Scope& scope);
// The case, or the nearest one that satisfies both the law and the declaration.
// Nullopt if there is none near it.
std::optional<Case> declared_case(const Law& law, const Scope& scope,
                                  const Case& value);
Case draw_attention(Draw& draw, const Law& law, const Scope& scope);
Case draw_story(Draw& draw, const Law& law, const Scope& scope);
Case draw_layer(Draw& draw, const Law& law, const Scope& scope);
// A layer that is not constrained yet.
Case draw_unconstrained_layer(Draw& draw, const Scope& scope, bool backward);
// Now and then, strides of the tensors of a layer or of steps of a cache.
void draw_any_strides(const Scope& scope, Case& value);
Case draw_layer_backward(Draw& draw, const Law& law, const Scope& scope);
Case draw_backward(Draw& draw, const Law& law, const Scope& scope);
Case draw_merge(Draw& draw, const Law& law, const Scope& scope);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CASES_DRAW_H_
