// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/permutations.h"

#include <algorithm>

#include "properties/conventions/constrain.h"

namespace qkvet::properties {

int64_t place_of_key(const Case& value, int64_t j) {
  const int64_t Tk = value.shape.Tk;
  const int64_t by = 1 + pick_by_seed(value.seed >> 1, Tk);
  const int64_t rotated = (j + by) % Tk;
  return value.seed % 2 == 0 ? rotated : Tk - 1 - rotated;
}

int64_t place_of_kv_head(const Case& value, int64_t kv) {
  return (kv + 1) % value.shape.Hkv;
}

int64_t place_of_head(const Case& value, int64_t h) {
  const int64_t group = value.shape.group();
  return place_of_kv_head(value, h / group) * group + h % group;
}

int64_t place_of_member(const Case& value, int64_t b) {
  return (b + 1) % value.shape.B;
}

void permute_keys(const Case& value, int64_t width, std::vector<double>& rows) {
  const std::vector<double> from = rows;
  const int64_t Tk = value.shape.Tk;
  for (size_t n = 0; n < from.size(); ++n) {
    const auto at = static_cast<int64_t>(n);
    const int64_t head = at / width / Tk;
    const int64_t place = place_of_key(value, at / width % Tk);
    rows[static_cast<size_t>((head * Tk + place) * width + at % width)] =
        from[n];
  }
}

void permute_heads(const Case& value, int64_t group, int64_t size,
                   std::vector<double>& values) {
  const std::vector<double> from = values;
  const int64_t heads = value.shape.Hkv * group;
  for (size_t n = 0; n < from.size(); ++n) {
    const auto at = static_cast<int64_t>(n);
    const int64_t head = at / size % heads;
    const int64_t to =
        place_of_kv_head(value, head / group) * group + head % group;
    values[static_cast<size_t>(at + (to - head) * size)] = from[n];
  }
}

void permute_members(const Case& value, std::vector<double>& values) {
  // One member to the back moves all others one to the front.
  const auto size = static_cast<ptrdiff_t>(values.size()) / value.shape.B;
  std::rotate(values.begin(), values.end() - size, values.end());
}

}  // namespace qkvet::properties
