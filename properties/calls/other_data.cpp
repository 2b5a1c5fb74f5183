// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/other_data.h"

#include <cmath>

namespace qkvet::properties {
namespace {

// One tensor [B, heads, rows, width], `group` heads to a key/value head.
void replace(const Case& value, TensorName tensor, const Changes& changes,
             int64_t group, std::vector<double>& values) {
  const Recipe recipe{RecipeKind::kLargeN, 3};
  const auto [members, heads, rows, width] =
      tensor_extents(value.shape, tensor);
  std::vector<double> other(static_cast<size_t>(width));
  double* at = values.data();
  for (int64_t b = 0; b < members; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t t = 0; t < rows; ++t, at += width) {
        if (!changes(b, h / group)) continue;
        recipe_row(recipe, ~value.seed, tensor, b, h, t, other);
        for (size_t c = 0; c < other.size(); ++c)
          if (!std::isnan(at[c])) at[c] = other[c];
      }
}

// Those of each member, where members have slopes of their own.
void replace_slopes(const Case& value, const Changes& changes,
                    std::vector<double>& slopes) {
  if (!value.member_slopes) return;
  const auto [members, heads, one, none] =
      tensor_extents(value, TensorName::kSlopes);
  std::vector<double> other(static_cast<size_t>(heads));
  for (int64_t m = 0; m < members; ++m) {
    recipe_row({}, ~value.seed, TensorName::kSlopes, m, 0, 0, other);
    const int64_t b = value.cu_q.empty() ? m : 0;
    for (int64_t h = 0; h < heads; ++h)
      if (changes(b, h / value.shape.group()))
        slopes[static_cast<size_t>(m * heads + h)] =
            other[static_cast<size_t>(h)];
  }
}

}  // namespace

void put_other_data(const Case& value, const Changes& changes, Inputs& inputs) {
  replace(value, TensorName::kQ, changes, value.shape.group(), inputs.q);
  replace(value, TensorName::kK, changes, 1, inputs.k);
  replace(value, TensorName::kV, changes, 1, inputs.v);
  replace_slopes(value, changes, inputs.slopes);
  if (value.backward)
    replace(value, TensorName::kDO, changes, value.shape.group(), inputs.d_o);
}

void put_all_other_data(const Case& value, int64_t, Inputs& inputs) {
  if (!value.is_layer())
    return put_other_data(
        value, [](int64_t, int64_t) { return true; }, inputs);
  // Exact, and far from the data of the case.
  for (double& x : inputs.values(TensorName::kX)) x *= -2;
  for (double& d : inputs.d_y) d *= 2;
}

void zero_queries(const Case&, int64_t, Inputs& inputs) {
  for (double& x : inputs.q) x = std::isnan(x) ? x : 0;
}

}  // namespace qkvet::properties
