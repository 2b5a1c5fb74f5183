// SPDX-License-Identifier: Apache-2.0
#include "properties/option_forms.h"

#include <cmath>

#include "properties/fit.h"
namespace qkvet {
namespace {

// Rows [from, end) of the extent `axis` of a tensor with these extents; an
// extent of 1 that is broadcast stays as it is.
template <class Value>
void cut(std::array<int64_t, 4>& extents, size_t axis, bool is_own,
         int64_t from, int64_t end, std::vector<Value>& values) {
  if (!is_own) return;
  int64_t inner = 1, outer = 1;
  for (size_t n = 0; n < 4; ++n)
    (n < axis ? outer : inner) *= n == axis ? 1 : extents[n];
  std::vector<Value> kept;
  for (int64_t n = 0; n < outer; ++n) {
    const auto at = values.begin() + n * extents[axis] * inner;
    kept.insert(kept.end(), at + from * inner, at + end * inner);
  }
  extents[axis] = end - from;
  values = std::move(kept);
}

// [B,heads,rows,width]: one member, some of its rows.
void cut_rows(const Case& value, TensorName tensor, int64_t b, int64_t from,
              int64_t end, std::vector<double>& values) {
  auto extents = tensor_extents(value.shape, tensor);
  cut(extents, 0, true, b, b + 1, values);
  cut(extents, 2, true, from, end, values);
}

template <class Value>
void cut_pairs(const Case& value, TensorName tensor, uint8_t own,
               const MemberPart& part, std::vector<Value>& values) {
  if (values.empty()) return;
  auto extents = tensor_extents(value, tensor);
  cut(extents, 0, (own & kOwnB) != 0, part.b, part.b + 1, values);
  cut(extents, 2, (own & kOwnQ) != 0, part.q_from, part.q_end, values);
  cut(extents, 3, (own & kOwnK) != 0, part.k_from, part.k_end, values);
}

struct RowPlace {
  int64_t b, h, i;
};
RowPlace place_of(const Shape& s, int64_t row) {
  return {row / s.Tq / s.H, row / s.Tq % s.H, row % s.Tq};
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

void write_visible_pairs(const Case& value, int64_t, Inputs& inputs) {
  const Shape& s = value.shape;
  const Visibility visibility(value, inputs);
  inputs.mask.clear();
  for (int64_t b = 0; b < s.B; ++b)
    for (int64_t h = 0; h < s.H; ++h)
      for (int64_t i = 0; i < s.Tq; ++i)
        for (int64_t j = 0; j < s.Tk; ++j)
          inputs.mask.push_back(visibility.sees(b, h, i, j) ? 1 : 0);
}

Plan plan_two_forms(const KernelInfo& kernel, const Case& variant,
                    InputEdit edit, bool bounds) {
  Plan plan;
  PlannedCall call;
  call.want_lse = wants_lse(kernel);
  call.needs_truth = bounds;
  plan.calls.push_back(call);
  call.edit = edit;
  call.variant = variant;
  plan.calls.push_back(call);
  return plan;
}

Case part_case(Case value, const MemberPart& part) {
  value.shape.B = 1;
  value.shape.Tq = part.q_end - part.q_from;
  value.shape.Tk = part.k_end - part.k_from;
  value.q_len.clear();
  value.kv_len.clear();
  value.cu_q.clear();
  value.cu_k.clear();
  value.layout = Layout::kBhtd;
  value.share = 0;
  value.set.clear();
  return value;
}

void cut_part(const Case& value, const MemberPart& part, Inputs& inputs) {
  cut_rows(value, TensorName::kQ, part.b, part.q_from, part.q_end, inputs.q);
  cut_rows(value, TensorName::kK, part.b, part.k_from, part.k_end, inputs.k);
  cut_rows(value, TensorName::kV, part.b, part.k_from, part.k_end, inputs.v);
  cut_pairs(value, TensorName::kMask, value.mask.own, part, inputs.mask);
  cut_pairs(value, TensorName::kBias, value.score_bias_own, part, inputs.bias);
}

std::optional<Element> place_in_part(const MemberPart& part,
                                     const Element& element) {
  if (element.b != part.b || element.i < part.q_from || element.i >= part.q_end)
    return std::nullopt;
  Element to = element;
  to.b = 0;
  to.i -= part.q_from;
  return to;
}

int64_t row_with_hidden_key(const Case& value) {
  const Shape& s = value.shape;
  const int64_t rows = s.B * s.H * s.Tq;
  if (rows == 0) return -1;
  const Inputs inputs = make_inputs(value);
  const Visibility visibility(value, inputs);
  const int64_t first = pick_by_seed(value.seed, rows);
  for (int64_t n = 0; n < rows; ++n) {
    const int64_t row = (first + n) % rows;
    const auto [b, h, i] = place_of(s, row);
    if (visibility.keys(b, h, i) == 0) continue;
    bool hides = false;
    for_each_hidden_key(value, inputs, row, [&](int64_t) { hides = true; });
    if (hides) return row;
  }
  return -1;
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

ElementMap only_row(const Shape& shape, int64_t row) {
  const auto [b, h, i] = place_of(shape, row);
  return [b = b, h = h, i = i](const Element& at) {
    return at.b == b && at.h == h && at.i == i ? std::optional(at)
                                               : std::nullopt;
  };
}

}  // namespace qkvet
