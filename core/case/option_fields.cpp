// SPDX-License-Identifier: Apache-2.0
#include "core/case/option_fields.h"

#include <type_traits>

#include "core/case/key_lists.h"
#include "core/case/mask_fields.h"
#include "core/case/paging.h"

namespace qkvet {
namespace option_field_rows {
namespace {

using Given = bool (*)(const Case&);
using Plain = std::span<const int64_t>;

// A member of a case, or of one of its members.
template <auto... path>
int64_t get(const Case& c) {
  return static_cast<int64_t>((c.*....*path));
}
template <auto... path>
void set(Case& c, int64_t number) {
  auto& field = (c.*....*path);
  field = static_cast<std::remove_reference_t<decltype(field)>>(number);
}
template <auto... path>
bool is_set(const Case& c) {
  return get<path...>(c) != 0;
}
template <Given given>
int64_t is_given(const Case& c) {
  return given(c);
}
// Whether a mask or a bias has this extent of its own.
template <Given given, uint8_t own, auto... path>
int64_t owns(const Case& c) {
  return given(c) && (get<path...>(c) & own) != 0;
}

constexpr OptionField word(std::string_view name,
                           int64_t (*value)(const Case&)) {
  return {name, value};
}
template <auto... path>
constexpr OptionField choice(std::string_view name, Given given, Plain plain,
                             int64_t least = 0) {
  return {name,  get<path...>, given, set<path...>, /*counts=*/false,
          least, least,        plain};
}
template <auto... path>
constexpr OptionField number(std::string_view name, Given given, int64_t least,
                             int64_t most, Plain plain = {}) {
  return {name,  get<path...>, given, set<path...>, /*counts=*/true,
          least, most,         plain};
}

constexpr int64_t kZero[] = {0};
constexpr int64_t kZeroOrOne[] = {0, 1};
constexpr int64_t kOne[] = {1};
constexpr int64_t kOneOrTwo[] = {1, 2};
constexpr int64_t kTwo[] = {2};
constexpr int64_t kAllOwn[] = {kOwnAll};

bool has_window(const Case& c) { return c.window.has_value(); }
bool has_mask(const Case& c) { return c.mask.kind != MaskKind::kNone; }
bool has_bias(const Case& c) { return c.score_bias.has_value(); }
bool has_lists(const Case& c) { return c.listed.entries > 0; }
bool has_pages(const Case& c) { return c.paging.size > 0; }
bool has_rope(const Case& c) { return c.rope.style != RopeStyle::kNone; }
constexpr Given has_segments = is_set<&Case::fields, &MaskFields::segments>;
constexpr Given has_ranges = is_set<&Case::fields, &MaskFields::ranges>;
constexpr Given has_tree = is_set<&Case::fields, &MaskFields::tree>;

template <int64_t Window::*side>
constexpr OptionField side_of_window(std::string_view name) {
  return {name,
          [](const Case& c) { return c.window.value_or(Window{}).*side; },
          has_window,
          [](Case& c, int64_t keys) { (*c.window).*side = keys; },
          /*counts=*/true,
          -1,
          kMaxCount};
}

// The number of some kinds of masks.
template <MaskKind first, MaskKind last>
constexpr OptionField number_of_masks(int64_t least, int64_t most,
                                      Plain plain) {
  return number<&Case::mask, &Mask::parameter>(
      "",
      [](const Case& c) { return c.mask.kind >= first && c.mask.kind <= last; },
      least, most, plain);
}

template <auto part>
constexpr OptionField number_of_cache(std::string_view name, int64_t least) {
  return number<&Case::cache, part>(name, is_set<&Case::cache, part>, least,
                                    kMaxExtent);
}

constexpr OptionField kFields[] = {
    word("window", is_given<has_window>),
    side_of_window<&Window::left>("window.left"),
    side_of_window<&Window::right>("window.right"),

    word("mask", is_given<has_mask>),
    word("mask.members", owns<has_mask, kOwnB, &Case::mask, &Mask::own>),
    word("mask.heads", owns<has_mask, kOwnH, &Case::mask, &Mask::own>),
    word("mask.rows", owns<has_mask, kOwnQ, &Case::mask, &Mask::own>),
    word("mask.keys", owns<has_mask, kOwnK, &Case::mask, &Mask::own>),
    choice<&Case::mask, &Mask::own>("", has_mask, kAllOwn, kOwnAll),
    number_of_masks<MaskKind::kRandomN, MaskKind::kRandomN>(0, 100, kZero),
    number_of_masks<MaskKind::kBandN, MaskKind::kPaddingN>(0, kMaxExtent,
                                                           kZero),
    // Parts of one token are the plainest. 0 would put all tokens into one
    // part.
    number_of_masks<MaskKind::kPrefixN, MaskKind::kChunkN>(1, kMaxExtent, kOne),
    number_of_masks<MaskKind::kTreeN, MaskKind::kTreeN>(0, kMaxExtent, kZero),

    word("segments", get<&Case::fields, &MaskFields::segments>),
    choice<&Case::fields, &MaskFields::wide_segments>("segments.wide",
                                                      has_segments, kZero),
    number<&Case::fields, &MaskFields::tokens>("segments.tokens", has_segments,
                                               0, kMaxExtent, kZeroOrOne),
    number<&Case::fields, &MaskFields::ranges>("ranges", has_ranges, 1,
                                               kMostRanges, kOne),
    choice<&Case::fields, &MaskFields::wide_ranges>("ranges.wide", has_ranges,
                                                    kZero),
    number<&Case::chunk>("chunk", is_set<&Case::chunk>, 1, kMaxCount, kOne),
    word("tree", get<&Case::fields, &MaskFields::tree>),
    // 0, any shape, is no plainer than that of a chain, or of pairs.
    number<&Case::fields, &MaskFields::children>("tree.children", has_tree, 1,
                                                 kMaxExtent, kOneOrTwo),
    word("values_in_keys", get<&Case::values_in_keys>),

    word("lists", is_given<has_lists>),
    number<&Case::listed, &KeyLists::entries>("lists.entries", has_lists, 1,
                                              kMostListed, kOneOrTwo),
    choice<&Case::listed, &KeyLists::per_head>("lists.heads", has_lists, kZero),
    word("lists.lengths", get<&Case::listed, &KeyLists::lengths>),
    number<&Case::listed, &KeyLists::block>(
        "lists.block", [](const Case& c) { return c.listed.block > 1; }, 2,
        kMostBlockKeys, kOneOrTwo),

    word("bias", is_given<has_bias>),
    word("bias.members", owns<has_bias, kOwnB, &Case::score_bias_own>),
    word("bias.heads", owns<has_bias, kOwnH, &Case::score_bias_own>),
    word("bias.rows", owns<has_bias, kOwnQ, &Case::score_bias_own>),
    word("bias.keys", owns<has_bias, kOwnK, &Case::score_bias_own>),
    choice<&Case::score_bias_own>("", has_bias, kAllOwn, kOwnAll),
    word("sink", [](const Case& c) { return int64_t{c.sink.has_value()}; }),
    word("alibi", [](const Case& c) { return int64_t{c.slopes.has_value()}; }),
    word("alibi.members", get<&Case::member_slopes>),
    word("rope", is_given<has_rope>),
    choice<&Case::rope, &Rope::style>("", has_rope, kOne),
    choice<&Case::rope, &Rope::random_positions>("rope.random", has_rope,
                                                 kZero),
    number<&Case::rope, &Rope::first>("rope.first", has_rope, 0, kMaxExtent,
                                      kZero),
    number<&Case::rope, &Rope::channels>("rope.channels",
                                         is_set<&Case::rope, &Rope::channels>,
                                         2, kMaxExtent - 2, kTwo),

    word("q_len", [](const Case& c) { return int64_t{!c.q_len.empty()}; }),
    word("kv_len", [](const Case& c) { return int64_t{!c.kv_len.empty()}; }),
    word("packed", [](const Case& c) { return int64_t{!c.cu_q.empty()}; }),
    word("channel_group", channel_group_of),
    number<&Case::paging, &Paging::size>("page_size", has_pages, 1,
                                         kMostPageTokens, kOneOrTwo),
    choice<&Case::paging, &Paging::unowned>("", has_pages, kZero),
    choice<&Case::paging, &Paging::order>("", has_pages, kOne, 1),
    word("csr", get<&Case::paging, &Paging::table>),
    word("int32_lengths", get<&Case::int32_lengths>),
    {"new_tokens", new_tokens, is_set<&Case::append>, set<&Case::append>,
     /*counts=*/true, 1, kMaxExtent, kOne},
    choice<&Case::layout>("", is_set<&Case::layout>, kOne),

    number_of_cache<&CacheForm::window>("cache.window", 1),
    number_of_cache<&CacheForm::first_tokens>("cache.first_tokens", 0),
    number_of_cache<&CacheForm::rollback>("cache.rollback", 0),
    choice<&Case::cache, &CacheForm::stored>(
        "", is_set<&Case::cache, &CacheForm::stored>, kZeroOrOne),
};

}  // namespace
}  // namespace option_field_rows

std::span<const OptionField> option_fields() {
  return option_field_rows::kFields;
}

const OptionField* find_option_field(std::string_view word) {
  for (const OptionField& row : option_fields())
    if (!word.empty() && row.word == word) return &row;
  return nullptr;
}

}  // namespace qkvet
