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

}  // namespace

void put_other_data(const Case& value, const Changes& changes, Inputs& inputs) {
  replace(value, TensorName::kQ, changes, value.shape.group(), inputs.q);
  replace(value, TensorName::kK, changes, 1, inputs.k);
  replace(value, TensorName::kV, changes, 1, inputs.v);
  if (value.backward)
    replace(value, TensorName::kDO, changes, value.shape.group(), inputs.d_o);
}

}  // namespace qkvet::properties
