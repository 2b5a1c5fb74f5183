// SPDX-License-Identifier: Apache-2.0
#include "properties/checking/list_cases.h"

#include <algorithm>

#include "core/case/key_lists.h"
#include "properties/calls/option_forms.h"
#include "properties/conventions/constrain.h"

namespace qkvet::properties {
namespace {

// Keys, or blocks of them.
int64_t entries_of_all(const Case& value) {
  return (value.shape.Tk + value.listed.block - 1) / value.listed.block;
}

}  // namespace

Case with_lists(Case value, int64_t entries) {
  value.listed.entries = std::max(value.listed.entries, entries);
  return value;
}

Case with_room_for_all_keys(Case value) {
  value.listed.lengths = value.listed.from_file = false;
  const int64_t all = entries_of_all(value);
  return with_lists(std::move(value), std::max<int64_t>(all, 1));
}

void lists_in_other_order(const Case& value, int64_t, Inputs& inputs) {
  const Shape& s = value.shape;
  for (int64_t b = 0; b < s.B; ++b)
    for (int64_t kv = 0; kv < list_heads(value); ++kv)
      for (int64_t i = 0; i < s.Tq; ++i) {
        const auto first =
            inputs.key_indices.begin() + list_begin(value, b, kv, i);
        const int64_t count = list_length(value, inputs, b, i);
        if (count == 0) continue;
        std::reverse(first, first + count);
        // By anything except 1, which would put the last one back.
        int64_t turn =
            pick_by_seed(value.seed, std::max<int64_t>(count - 1, 1));
        if (turn > 0) ++turn;
        std::rotate(first, first + turn, first + count);
      }
}

void lists_of_all_keys(const Case& value, int64_t, Inputs& inputs) {
  const int64_t entries = value.listed.entries;
  const int64_t all = entries_of_all(value);
  int64_t row = pick_by_seed(value.seed, 1024);
  for (size_t at = 0; at < inputs.key_indices.size(); ++row)
    for (int64_t n = 0; n < entries; ++n)
      inputs.key_indices[at++] =
          n < all ? static_cast<int32_t>((row + n) % all) : -1;
}

void no_lists(const Case&, int64_t, Inputs& inputs) {
  inputs.key_indices.clear();
  inputs.topk_length.clear();
}

void lists_as_mask(const Case& value, int64_t argument, Inputs& inputs) {
  write_visible_pairs(value, argument, inputs);
  no_lists(value, argument, inputs);
}

}  // namespace qkvet::properties
