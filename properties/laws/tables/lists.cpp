// SPDX-License-Identifier: Apache-2.0
// Lists of keys: in another order, in blocks, over pages, and against calls
// without them.
#include <algorithm>
#include <array>
#include <limits>

#include "core/case/key_lists.h"
#include "core/case/option_data.h"
#include "properties/calls/gradient_calls.h"
#include "properties/checking/list_cases.h"
#include "properties/checking/serving_cases.h"
#include "properties/judging/law_texts.h"

namespace qkvet::properties {
namespace of_lists {

Case with_one_entry(Case value) { return with_lists(std::move(value), 1); }
Case with_two_entries(Case value) { return with_lists(std::move(value), 2); }

void without_lists(Case& value) { value.listed = {}; }
void mask_for_lists(Case& value) {
  value = with_own_mask(std::move(value));
  value.listed = {};
}

void all_keys_first(const Case&, const KernelInfo&, Plan& plan) {
  plan.calls[0].edit = lists_of_all_keys;
}

// ---- Blocks of keys

Case with_blocks(Case value) {
  value.listed.entries = std::max<int64_t>(value.listed.entries, 1);
  value.listed.block = std::max<int64_t>(value.listed.block, 2);
  value.listed.from_file = false;
  return value;
}

void blocks_to_keys(Case& value) {
  value.listed.entries *= value.listed.block;
  value.listed.block = 1;
}

void list_keys(const Case& value, int64_t, Inputs& inputs) {
  Case expanded = value;
  expand_key_blocks(expanded, inputs);
}

// ---- Pages: an entry is a position in the sequence of its member, wherever
// that is stored.

Case with_lists_over_pages(Case value) {
  return with_lists(with_pages(std::move(value)), 1);
}

// Appended tokens are then among the keys from the beginning.
void in_rows(Case& value) {
  value.paging = {};
  value.append = 0;
}

void takes_rows(const Case& value, const KernelInfo& kernel, Plan& plan) {
  if (kernel.has_flag(QKVET_FLAG_PAGES_ONLY))
    plan.unsupported = "k and v in rows are not declared";
  if (!value.cu_q.empty() && !kernel.has_option(QKVET_OPTION_PACKED))
    plan.unsupported = "packed batches in rows are not declared";
  if ((!value.kv_len.empty() || !value.q_len.empty()) &&
      !kernel.has_option(QKVET_OPTION_LENGTHS))
    plan.unsupported = "lengths are not declared";
}

// ---- Entries that do not count

// Numbers that are no keys, and the first key.
int32_t anything(const Case& value, int64_t n) {
  constexpr auto kLeast = std::numeric_limits<int32_t>::min();
  constexpr auto kMost = std::numeric_limits<int32_t>::max();
  const std::array<int32_t, 5> numbers = {kMost, 0, kLeast, -2,
                                          static_cast<int32_t>(value.shape.Tk)};
  return numbers[(static_cast<uint64_t>(n) + value.seed) % numbers.size()];
}

void other_rest(const Case& value, int64_t, Inputs& inputs) {
  const Shape& s = value.shape;
  for (int64_t b = 0; b < s.B; ++b)
    for (int64_t kv = 0; kv < list_heads(value); ++kv)
      for (int64_t i = 0; i < s.Tq; ++i) {
        const int64_t begin = list_begin(value, b, kv, i);
        for (int64_t n = list_length(value, inputs, b, i);
             n < value.listed.entries; ++n)
          inputs.key_indices[static_cast<size_t>(begin + n)] =
              anything(value, begin + n);
      }
}

Case with_list_lengths(Case value) {
  value = with_two_entries(std::move(value));
  value.listed.lengths = true;
  return value;
}

// Whether an entry is after a length; not checked for data from a file.
bool has_rest(const Case& value) {
  Inputs inputs;
  fill_option_data(value, inputs);
  const auto all = static_cast<int32_t>(value.listed.entries);
  return value.listed.from_file ||
         std::any_of(inputs.topk_length.begin(), inputs.topk_length.end(),
                     [all](int32_t count) { return count < all; });
}

void only_with_rest(const Case& value, const KernelInfo&, Plan& plan) {
  if (!has_rest(value)) plan.not_applicable = "all entries count";
}

constexpr Law kRows[] = {
    {.id = "listed_order_changes_nothing",
     .sentence = "The order of a list of keys changes nothing, nor do the "
                 "places of -1 in it.",
     .formula = "forward(key_indices) = forward(key_indices, each list in "
                "another order)",
     .precondition = "lists of keys of two entries at least",
     .reason =
         "A list is a set: softmax and the sum over values are sums over it.",
     .rounding = kNeverBitwise,
     .kept_for =
         "(c) it moves what tiles of entries hold, (d) it needs no oracle",
     .rank = 342,
     .domain = {.allows = kAllowAll | QKVET_OPTION_KEY_LISTS,
                .about = QKVET_OPTION_KEY_LISTS},
     .constrain = with_two_entries,
     .relation = {.first = "the lists as they were",
                  .second = "the same keys in another order",
                  .looks = "an entry of a list counts for its place: the last "
                           "one is lost, or -1 ends the list",
                  .edit = lists_in_other_order}},
    {.id = "full_lists_equal_dense",
     .sentence = "Lists of all keys, in any order and followed by -1, equal a "
                 "call without lists.",
     .formula = "forward(key_indices = all keys) = forward()",
     .precondition =
         "lists of keys, of as many entries as there are keys or more",
     .reason = "Each key is in the list once, and -1 is no key.",
     .rounding = kNeverBitwise,
     .kept_for = "(c) it sets the sparse path of a kernel against its dense "
                 "one, (d) it needs no oracle",
     .rank = 344,
     .domain = {.free_data = false,
                .allows = kAllowAll | QKVET_OPTION_KEY_LISTS,
                .about = QKVET_OPTION_KEY_LISTS},
     .constrain = with_room_for_all_keys,
     .relation =
         {.first = "with all keys listed",
          .second = "without lists",
          .looks = "a listed key is lost, or one that is not there is counted: "
                   "where there are more entries than keys, these are -1",
          .variant = without_lists,
          .edit = no_lists,
          .more_plan = all_keys_first}},
    {.id = "rest_of_lists_changes_nothing",
     .sentence = "Entries of a list of keys after topk_length change nothing, "
                 "even if they are no key.",
     .formula = "o[i] = f(key_indices[i, n] : n < topk_length[i])",
     .precondition =
         "lists of keys with lengths, one of which is short of the list",
     .reason =
         "Entries after the length do not occur in the formula of the row.",
     .rounding = kRowsSeeTheSame,
     .kept_for = kBitwiseIfClaimed,
     .rank = 346,
     .domain = {.free_data = false,
                .allows = kAllowAll | QKVET_OPTION_KEY_LISTS,
                .about = QKVET_OPTION_KEY_LIST_LENGTHS},
     .constrain = with_list_lengths,
     .relation = {.first = "as it was",
                  .second = "with other numbers behind topk_length",
                  .looks = "entries of a list are read that do not count",
                  .edit = other_rest,
                  .needs = QKVET_OPTION_KEY_LIST_LENGTHS,
                  .missing = "lengths of lists of keys are not declared",
                  .same_rows = true,
                  .more_plan = only_with_rest}},
    {.id = "block_lists_equal_key_lists",
     .sentence = "A list of blocks is the list of the keys of these blocks.",
     .formula = "forward(key_indices, key_block_size = n) = "
                "forward(key_indices'), key_indices'[n m + c] = n "
                "key_indices[m] + c, -1 where there is no such key",
     .precondition = "lists of blocks of keys",
     .reason = "Both name the same keys.",
     .rounding = kNeverBitwise,
     .kept_for = kPathsWithoutOracle,
     .rank = 347,
     .domain = {.allows = kAllowAll | QKVET_OPTION_KEY_LISTS,
                .about = QKVET_OPTION_KEY_LIST_BLOCKS},
     .constrain = with_blocks,
     .relation =
         {.first = "lists of blocks",
          .second = "lists of their keys",
          .looks = "an entry of a list of blocks is not read as the keys that "
                   "it stands for: the last block has those that are there",
          .variant = blocks_to_keys,
          .edit = list_keys,
          .needs = QKVET_OPTION_KEY_LIST_BLOCKS,
          .missing = "lists of blocks of keys are not declared"}},
    {.id = "lists_equal_masks",
     .sentence = "Lists of keys equal a mask of the same pairs: they only "
                 "determine what a row sees.",
     .formula = "forward(key_indices) = forward(mask), mask[i,j] = j in "
                "key_indices[i]",
     .precondition = "lists of keys; the kernel takes a mask as well",
     .reason = "A softmax over the listed keys is one over all keys in which "
               "the others have no weight; causal rule, window, mask and "
               "lengths hold beside it.",
     .rounding = kNeverBitwise,
     .kept_for = kPathsWithoutOracle,
     .rank = 348,
     .domain = {.allows = kAllowAll | QKVET_OPTION_KEY_LISTS,
                .about = QKVET_OPTION_KEY_LISTS},
     .constrain = with_one_entry,
     .relation = {.first = "lists of keys",
                  .second = "a mask of the same pairs",
                  .looks = "a row sees other keys than its list says, or one "
                           "of them more than once",
                  .variant = mask_for_lists,
                  .edit = lists_as_mask,
                  .needs = QKVET_OPTION_MASK,
                  .missing = "a mask is not declared"}},
    {.id = "listed_pages_equal_rows",
     .sentence = "Lists of keys name positions of a sequence: over pages they "
                 "say what they say of rows.",
     .formula = "forward(pages, key_indices) = forward(k, v, key_indices)",
     .precondition = "lists of keys over pages; the kernel takes rows as well",
     .reason =
         "The table gives the place of a key, and the list gives its number.",
     .rounding = kNeverBitwise,
     .kept_for = kPathsWithoutOracle,
     .rank = 475,
     .domain = {.allows = kAllowAll | QKVET_OPTION_KEY_LISTS,
                .about = QKVET_OPTION_KEY_LISTS},
     .constrain = with_lists_over_pages,
     .relation =
         {.first = "over pages",
          .second = "in rows",
          .looks = "an entry of a list is taken for a slot of the pool, or for "
                   "one of another member: it is a position in the sequence",
          .variant = in_rows,
          .more_plan = takes_rows}},
    {.id = "listed_order_changes_no_gradient",
     .sentence = "The order of a list of keys changes no gradient, nor do the "
                 "places of -1 in it.",
     .formula = "backward(key_indices) = backward(key_indices, each list in "
                "another order)",
     .precondition = "lists of keys of two entries at least",
     .reason = "A list is a set, and the loss a function of the set.",
     .rounding = kNeverBitwise,
     .kept_for = "(c) it moves what tiles of entries hold and which of them "
                 "meet at a key, (d) it needs no oracle",
     .rank = 52,
     .domain = {.subject = Subject::kBackward,
                .allows = kAllowGradients,
                .about = QKVET_OPTION_KEY_LISTS},
     .constrain = with_two_entries,
     .relation = {.first = "the lists as they were",
                  .second = "the same keys in another order",
                  .looks = "where a key stands in a list decides what it gets, "
                           "or which key gets it",
                  .edit = lists_in_other_order}},
    {.id = "gradient_of_full_lists_is_dense",
     .sentence = "Lists of all keys, in any order and followed by -1, have the "
                 "gradient of a call without lists.",
     .formula = "backward(key_indices = all keys) = backward()",
     .precondition =
         "lists of keys, of as many entries as there are keys or more",
     .reason = "Each key is in the list once, and -1 is no key.",
     .rounding = kNeverBitwise,
     .kept_for = "(c) it sets the sparse path of a kernel against its dense "
                 "one, (d) it needs no oracle",
     .rank = 54,
     .domain = {.subject = Subject::kBackward,
                .free_data = false,
                .allows = kAllowGradients,
                .about = QKVET_OPTION_KEY_LISTS},
     .constrain = with_room_for_all_keys,
     .relation = {.first = "with all keys listed",
                  .second = "without lists",
                  .looks =
                      "a listed key gets nothing, or one that is not there "
                      "gets something: entries behind those of all keys are -1",
                  .variant = without_lists,
                  .edit = no_lists,
                  .more_plan = all_keys_first}},
    {.id = "gradient_lists_equal_masks",
     .sentence = "Lists of keys have the gradient of a mask of the same pairs.",
     .formula = "backward(key_indices) = backward(mask), mask[i,j] = j in "
                "key_indices[i]",
     .precondition = "lists of keys; the kernel takes a mask as well",
     .reason = "The loss is the same function of q, k, v, bias and sinks.",
     .rounding = kNeverBitwise,
     .kept_for = kPathsWithoutOracle,
     .rank = 56,
     .domain = {.subject = Subject::kBackward,
                .allows = kAllowGradients,
                .about = QKVET_OPTION_KEY_LISTS},
     .constrain = with_one_entry,
     .relation = {.first = "lists of keys",
                  .second = "a mask of the same pairs",
                  .looks = "what a row adds goes to other keys than its list "
                           "names, or to one of them more than once",
                  .variant = mask_for_lists,
                  .edit = lists_as_mask,
                  .needs = QKVET_OPTION_MASK,
                  .missing = "a mask is not declared"}},
};

}  // namespace of_lists

extern constinit const LawTable lists_laws{of_lists::kRows};

}  // namespace qkvet::properties
