// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/option_forms.h"

#include <algorithm>
#include <limits>

#include "properties/conventions/constrain.h"

namespace qkvet::properties {
namespace {

struct RowPlace {
  int64_t b, h, i;
};
RowPlace place_of(const Shape& s, int64_t row) {
  return {row / s.Tq / s.H, row / s.Tq % s.H, row % s.Tq};
}

// A row ((b * H + h) * Tq + i) that sees one of the keys that count and not
// another one, chosen by the seed; -1 if there is none.
int64_t row_with_hidden_key(const Case& value) {
  const Shape& s = value.shape;
  const int64_t rows = s.B * s.H * s.Tq;
  if (rows == 0) return -1;
  const Visibility visibility(value);
  const int64_t first = pick_by_seed(value.seed, rows);
  for (int64_t n = 0; n < rows; ++n) {
    const int64_t row = (first + n) % rows;
    const auto [b, h, i] = place_of(s, row);
    const int64_t seen = visibility.keys(b, h, i);
    if (seen > 0 && seen < counted_keys(value, b)) return row;
  }
  return -1;
}

}  // namespace

Case with_own_mask(Case value) {
  value.mask = {MaskKind::kRandomN, 50, kOwnAll};
  return value;
}

Case with_own_bias(Case value) {
  if (!value.score_bias) value.score_bias = make_recipe(RecipeKind::kZero);
  value.score_bias_own = kOwnAll;
  return value;
}

Case with_bias_for_mask(Case value) {
  value.score_bias = make_recipe(RecipeKind::kZero);
  value.score_bias_own = value.mask.own;
  value.mask = {};
  return value;
}

void mask_to_infinite_bias(const Case&, int64_t, Inputs& inputs) {
  inputs.bias.clear();
  for (const uint8_t attends : inputs.mask)
    inputs.bias.push_back(
        attends != 0 ? 0 : -std::numeric_limits<double>::infinity());
  inputs.mask.clear();
}

Case with_mask_fields(Case value) {
  MaskFields& f = value.fields;
  f.segments_from_file = f.ranges_from_file = f.tree_from_file = false;
  if (value.chunk == 0 && !f.segments && !f.tree && f.ranges == 0)
    value.chunk = 2;
  value.shape.Tq = std::max<int64_t>(value.shape.Tq, 1);
  value.shape.Tk = std::max<int64_t>(value.shape.Tk, 2);
  return value;
}

void write_visible_pairs(const Case& value, int64_t argument, Inputs& inputs) {
  const Shape& s = value.shape;
  const Visibility visibility(value, inputs, /*in_window=*/argument != 0);
  inputs.mask.clear();
  for (int64_t b = 0; b < s.B; ++b)
    for (int64_t h = 0; h < s.H; ++h)
      for (int64_t i = 0; i < s.Tq; ++i)
        for (int64_t j = 0; j < s.Tk; ++j)
          inputs.mask.push_back(visibility.sees(b, h, i, j) ? 1 : 0);
}

Case with_hidden_keys(Case value) {
  value.shape.Tk = std::max<int64_t>(value.shape.Tk, 2);
  // Fully hidden rows are uninformative here.
  if (value.mask.kind == MaskKind::kEmptyRowN)
    value.mask.kind = MaskKind::kButN;
  const bool limits =
      value.window && std::max(value.window->left, value.window->right) >= 0;
  const bool hides = limits || value.mask.kind != MaskKind::kNone ||
                     value.causal == Causal::kTopLeft;
  // A mask that lets all pairs pass hides none, nor does a wide window.
  if (!hides || row_with_hidden_key(value) < 0)
    value.mask = {MaskKind::kButN, 0, kOwnAll};
  return value;
}

void plan_hidden_keys(const Case& value, const KernelInfo&, Plan& plan) {
  const int64_t row = row_with_hidden_key(value);
  plan.calls[1].argument = row;
  if (row < 0) plan.not_applicable = "no row sees one key and not another";
}

void only_row_of_call(const JudgeInput& input, CallPair& pair) {
  const RowPlace row =
      place_of(input.value.shape, input.calls[1].planned->argument);
  pair.map = [row](const Element& at) {
    return at.b == row.b && at.h == row.h && at.i == row.i ? std::optional(at)
                                                           : std::nullopt;
  };
}

void for_each_hidden_key(const Case& value, const Inputs& inputs, int64_t row,
                         const std::function<void(int64_t)>& visit) {
  const Shape& s = value.shape;
  const Visibility visibility(value, inputs);
  const auto [b, h, i] = place_of(s, row);
  const int64_t head = b * s.Hkv + h / s.group();
  const int64_t counted = counted_keys(value, b);
  for (int64_t j = 0; j < counted; ++j)
    if (!visibility.sees(b, h, i, j)) visit(head * s.Tk + j);
}

}  // namespace qkvet::properties
