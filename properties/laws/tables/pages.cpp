// SPDX-License-Identifier: Apache-2.0
// The same tokens in pages of other places, sizes, tables and forms, and among
// tokens of others.
#include <algorithm>

#include "core/case/paging.h"
#include "properties/cases/scope.h"
#include "properties/checking/serving_cases.h"
#include "properties/judging/finite.h"
#include "properties/judging/law_texts.h"

namespace qkvet::properties {
namespace of_pages {

// ---- Pages

// The first call is the one with groups, which can go wrong.
Case with_channel_groups(Case value) {
  value = with_pages(std::move(value));
  in_channel_groups(value);
  return value;
}

void takes_pages_of_rows(const Case&, const KernelInfo& kernel, Plan& plan) {
  if (kernel.has_flag(QKVET_FLAG_CHANNEL_GROUPS_ONLY))
    plan.unsupported = "pages of rows are not declared";
}

// The first call is the one with lists, which can go wrong.
Case with_page_lists(Case value) {
  value = with_pages(std::move(value));
  value.paging.table = PageTable::kCsr;
  return value;
}

void in_another_order(Case& value) {
  value.paging.order = value.paging.order == PageOrder::kInOrder
                           ? PageOrder::kReverse
                           : PageOrder::kInOrder;
}

// Pages that are not all of a member, so that there are larger ones.
Case with_small_pages(Case value) {
  value.shape.Tk = std::max<int64_t>(value.shape.Tk, 2);
  value = with_pages(std::move(value));
  if (value.paging.size >= value.shape.Tk) value.paging.size = 1;
  return value;
}

// One page for all tokens of a member; for a kernel that lists its sizes, its
// largest one.
int64_t largest_page(const Case& value, const KernelInfo& kernel) {
  const qkvet_capabilities& can = kernel.capabilities;
  const int32_t count = std::clamp<int32_t>(can.page_size_count, 0, 16);
  if (count == 0)
    return std::clamp<int64_t>(value.shape.Tk, 1, kMostPageTokens);
  return *std::max_element(can.page_sizes, can.page_sizes + count);
}

void in_largest_pages(const Case& value, const KernelInfo& kernel, Plan& plan) {
  Case& larger = plan.calls[1].variant.emplace(value);
  larger.paging.size = largest_page(value, kernel);
  if (larger.paging.size == value.paging.size)
    plan.not_applicable = "the pages are the largest already";
}

// ---- Slots that no member owns: NaN in one call, tokens of other sequences in
// the other (zeros instead of NaN if the kernel declares that they must be
// finite). The tails of the block tables stay as they are.

Unowned unowned_first(const Case& value, const KernelInfo& kernel) {
  return in_finite_slots(kernel.dialect, value.paging).unowned;
}

// Tokens of others, or data for which the kernel need not be finite.
Unowned unowned_second(const Case& value, const KernelInfo& kernel) {
  if (unowned_first(value, kernel) != Unowned::kOthers) return Unowned::kOthers;
  return needs_finite_slots(kernel.dialect) ? Unowned::kZero : Unowned::kNan;
}

void with_other_slots(const Case& value, const KernelInfo& kernel, Plan& plan) {
  plan.calls[1].variant.emplace(value).paging.unowned =
      unowned_second(value, kernel);
}

void name_slots(const JudgeInput& input, CallPair& pair) {
  constexpr const char* kNames[] = {"NaN in pages that it does not own",
                                    "tokens of others there",
                                    "zeros in pages that it does not own"};
  const auto name_of = [&](Unowned unowned) {
    return kNames[static_cast<size_t>(unowned)];
  };
  pair.first_name = name_of(unowned_first(input.value, input.kernel));
  pair.second_name = name_of(unowned_second(input.value, input.kernel));
}

constexpr Law kRows[] = {
    {.id = "append_equals_given",
     .sentence =
         "Tokens that a call appends are attended as if they had been there.",
     .formula = "forward(cache, k_new, v_new, kv_len) = forward(cache + new, "
                "kv_len + new)",
     .precondition = "new tokens for every member",
     .reason = "They are stored first, and then there is no difference.",
     .rounding = kNeverBitwise,
     .kept_for = kPathAgainstPath,
     .rank = 490,
     .domain = {.allows = kAllowListsAndFields, .about = QKVET_OPTION_APPEND},
     .constrain = with_new_tokens,
     .relation =
         {.first = "appended by the call",
          .second = "there before",
          .looks =
              "new tokens are not attended, or the diagonal is that of before",
          .variant = [](Case& value) { value.append = 0; }}},
    {.id = "page_placement_changes_nothing",
     .sentence = "The places of the pages in the pool change nothing.",
     .formula = "forward(pool, table) = forward(P pool, P table)   P any order "
                "of pages",
     .precondition = "keys and values in pages",
     .reason =
         "A table names the same tokens in the same order, wherever they lie.",
     .rounding =
         "Bit for bit where the kernel declares that placement changes "
         "nothing; else each side is within its own bound of the same number.",
     .kept_for = kPathAgainstPath,
     .rank = 450,
     .domain = {.allows = kAllowListsAndFields, .about = QKVET_OPTION_PAGED},
     .constrain = with_pages,
     .relation =
         {.first = "where the pages lie",
          .second = "in another order",
          .looks = "a page is not looked up in the block table of its member",
          .variant = in_another_order,
          .claim = QKVET_FLAG_PAGE_PLACEMENT_INVARIANT}},
    {.id = "page_size_changes_nothing",
     .sentence = "How many tokens a page has changes nothing.",
     .formula = "forward(pages of n tokens) = forward(pages of m tokens)",
     .precondition = "keys and values in pages that are not the largest",
     .reason = "Pages of any size hold the same tokens in the same order.",
     .rounding = kNeverBitwise,
     .kept_for = kPathAgainstPath,
     .rank = 460,
     .domain = {.allows = kAllowListsAndFields, .about = QKVET_OPTION_PAGED},
     .constrain = with_small_pages,
     .relation = {.first = "in small pages",
                  .second = "in large pages",
                  .looks =
                      "slots are counted with another size than that of a page",
                  .more_plan = in_largest_pages}},
    {.id = "page_lists_equal_block_table",
     .sentence = "Pages in one list, with the tokens of each last page, are "
                 "those of a block table with lengths.",
     .formula = "forward(page_indptr, page_indices, last_page_len) = "
                "forward(block_table, kv_len)",
     .precondition =
         "keys and values in pages, and both forms of table declared",
     .reason = "Both name the same tokens in the same order.",
     .rounding = kNeverBitwise,
     .kept_for = kPathAgainstPath,
     .rank = 455,
     .domain = {.allows = kAllowListsAndFields,
                .about = QKVET_OPTION_PAGED_CSR},
     .constrain = with_page_lists,
     .relation = {.first = "pages in a list",
                  .second = "in a block table",
                  .looks =
                      "page_indptr or last_page_len is not read as it is meant",
                  .variant =
                      [](Case& value) {
                        value.paging.table = PageTable::kBlocks;
                      },
                  .needs = QKVET_OPTION_PAGED,
                  .missing = "block tables are not declared"}},
    {.id = "channel_groups_change_nothing",
     .sentence =
         "Pages of keys in groups of channels hold what pages of rows hold.",
     .formula =
         "forward(k [pages, Hkv, d / x, page, x], v [pages, Hkv, dv, page]) = "
         "forward(k [pages, Hkv, page, d], v [pages, Hkv, page, dv])",
     .precondition =
         "keys and values in pages, and both forms of page declared",
     .reason = "A key has the same channels, wherever each of them lies.",
     .rounding = kNeverBitwise,
     .kept_for = kPathAgainstPath,
     .rank = 452,
     .domain = {.allows = kAllowListsAndFields,
                .about = QKVET_OPTION_PAGED_CHANNEL_GROUPS},
     .constrain = with_channel_groups,
     .relation = {.first = "keys in groups of channels",
                  .second = "in rows",
                  .looks = "channel c of slot j is not read at c % x of group "
                           "c / x: x is 16 bytes of the keys' type, and the "
                           "slots of a page lie between two groups",
                  .variant =
                      [](Case& value) { value.paging.pool = PageForm::kRows; },
                  .more_plan = takes_pages_of_rows}},
    {.id = "unowned_pages_change_nothing",
     .sentence = "Pages and slots that a member does not own change nothing, "
                 "be it NaN: its rows stay as they are.",
     .formula = "o[b] = f(q[b], the first kv_len[b] tokens of its block table)",
     .precondition = "keys and values in pages",
     .reason = "These slots do not occur in the formula.",
     .rounding = kRowsSeeTheSame,
     .kept_for = "(a) it is bitwise where that is claimed",
     .rank = 470,
     .domain = {.allows = kAllowListsAndFields, .about = QKVET_OPTION_PAGED},
     .constrain = with_pages,
     .relation =
         {.looks =
              "what stands in slots that the member does not own reaches it",
          .same_rows = true,
          .more_plan = with_other_slots,
          .pair = name_slots}},
};

}  // namespace of_pages

extern constinit const LawTable pages_laws{of_pages::kRows};

}  // namespace qkvet::properties
