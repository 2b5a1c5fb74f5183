// SPDX-License-Identifier: Apache-2.0
// Options of attention for a case that has none yet.
#include <algorithm>
#include <vector>

#include "properties/cases/draw.h"
#include "properties/conventions/domain.h"

namespace qkvet::properties {
namespace {

// Extents of its own: all of them as often as any other choice.
uint8_t draw_own(Draw& draw) {
  return draw.chance(40) ? uint8_t{kOwnAll}
                         : static_cast<uint8_t>(draw.range(1, kOwnAll));
}

// -1, 0, or up to beyond the extent.
int64_t draw_side(Draw& draw, int64_t extent) {
  if (draw.chance(25)) return -1;
  return draw.chance(30) ? 0 : draw.range(0, extent + 1);
}

void draw_window(Draw& draw, Case& value) {
  const int64_t longest = std::max(value.shape.Tq, value.shape.Tk);
  value.window = Window{draw_side(draw, longest), draw_side(draw, longest)};
}

// The masks of serving: small ranges, so that several meet in a tile, and trees
// of any shape, of two and of three children. All heads see one text.
void draw_mask_of_text(Draw& draw, Case& value) {
  const auto first = static_cast<int64_t>(MaskKind::kPrefixN);
  Mask& mask = value.mask;
  mask.kind = static_cast<MaskKind>(draw.range(first, kMaskKindCount - 1));
  mask.parameter = mask.kind == MaskKind::kTreeN
                       ? draw.of(std::array<int64_t, 5>{0, 0, 0, 2, 3})
                   : mask.kind == MaskKind::kPrefixN
                       ? draw.range(0, std::max<int64_t>(value.shape.Tk, 1))
                       : draw.of(std::array<int64_t, 7>{1, 2, 3, 4, 5, 8, 16});
  mask.own = draw.chance(60)   ? uint8_t{kOwnB | kOwnQ | kOwnK}
             : draw.chance(50) ? uint8_t{kOwnQ | kOwnK}
                               : uint8_t{kOwnAll};
}

void draw_mask(Draw& draw, Case& value) {
  const Shape& s = value.shape;
  Mask& mask = value.mask;
  if (draw.chance(30)) return draw_mask_of_text(draw, value);
  mask.kind = static_cast<MaskKind>(
      draw.range(1, static_cast<int64_t>(MaskKind::kPaddingN)));
  switch (mask.kind) {
    case MaskKind::kRandomN:
      mask.parameter = draw.of(std::array<int64_t, 5>{10, 30, 50, 70, 90});
      break;
    case MaskKind::kBandN:
      mask.parameter = draw.range(0, std::max<int64_t>(s.Tk / 2, 1));
      break;
    case MaskKind::kEmptyRowN:
      mask.parameter = draw.range(0, std::max<int64_t>(s.Tq, 1) - 1);
      break;
    default:
      mask.parameter = draw.range(0, std::max<int64_t>(s.Tk, 1) - 1);
  }
  mask.own = draw_own(draw);
}

// Biases of the size of the logits, and some far beyond.
void draw_bias(Draw& draw, Case& value) {
  constexpr std::array<Recipe, 6> kBiases = {{{RecipeKind::kNormal, 0},
                                              {RecipeKind::kNormal, 0},
                                              {RecipeKind::kLattice, 0},
                                              {RecipeKind::kSmall, 0},
                                              {RecipeKind::kLargeN, 3},
                                              {RecipeKind::kHeavy, 0}}};
  // Numbers that stand for a mask, and large ones: of the logits' storage, of
  // a usual mask, of f16, and the last of each type.
  constexpr std::array<Recipe, 8> kMasking = {{{RecipeKind::kMaskingN, 4},
                                               {RecipeKind::kMaskingN, 4},
                                               {RecipeKind::kMaskingN, 5},
                                               {RecipeKind::kMaskingN, 9},
                                               {RecipeKind::kMaskingN, 9},
                                               {RecipeKind::kMaskingN, 309},
                                               {RecipeKind::kRaisedN, 4},
                                               {RecipeKind::kRaisedN, 9}}};
  value.score_bias = draw.of(kBiases);
  if (!value.backward && draw.chance(35)) value.score_bias = draw.of(kMasking);
  value.score_bias_own = draw_own(draw);
}

// Most lengths are short of the extent, some are 0, some all of it.
std::vector<int64_t> draw_lengths(Draw& draw, int64_t members, int64_t most) {
  std::vector<int64_t> lengths;
  for (int64_t b = 0; b < members; ++b)
    lengths.push_back(draw.chance(15)   ? 0
                      : draw.chance(20) ? most
                                        : draw.range(0, most));
  return lengths;
}

void draw_lengths(Draw& draw, Case& value) {
  if (static_cast<size_t>(value.shape.B) > kMaxMembers) return;
  const int64_t which = draw.range(0, 2);
  if (which != 0)
    value.q_len = draw_lengths(draw, value.shape.B, value.shape.Tq);
  if (which != 1)
    value.kv_len = draw_lengths(draw, value.shape.B, value.shape.Tk);
}

// One to four members, some of them empty, and now and then rows behind them.
void draw_members(Draw& draw, Case& value) {
  Shape& s = value.shape;
  s.B = 1;
  const int64_t members = draw.range(1, 4);
  const bool same = draw.chance(40) && s.Tq == s.Tk;
  const auto draw_starts = [&](int64_t extent) {
    const int64_t end = draw.chance(80) ? extent : draw.range(0, extent);
    std::vector<int64_t> starts = {0};
    for (int64_t m = 1; m < members; ++m) starts.push_back(draw.range(0, end));
    starts.push_back(end);
    std::sort(starts.begin(), starts.end());
    return starts;
  };
  value.cu_q = draw_starts(s.Tq);
  value.cu_k = same ? value.cu_q : draw_starts(s.Tk);
}

void draw_scores(Draw& draw, uint64_t option, Case& value) {
  constexpr std::array<float, 4> kCaps = {0.5f, 2.0f, 15.0f, 50.0f};
  constexpr std::array<Recipe, 4> kPerHead = {{{RecipeKind::kNormal, 0},
                                               {RecipeKind::kLattice, 0},
                                               {RecipeKind::kLargeN, 2},
                                               {RecipeKind::kScaledN, 3}}};
  if (option == QKVET_OPTION_SOFTCAP) value.softcap = draw.of(kCaps);
  if (option == QKVET_OPTION_SINK) value.sink = draw.of(kPerHead);
  if (option == QKVET_OPTION_ALIBI) value.slopes = draw.of(kPerHead);
}

// Of two members at least, unless lists say how many there are.
void draw_member_slopes(Draw& draw, Case& value) {
  if (!value.slopes) draw_scores(draw, QKVET_OPTION_ALIBI, value);
  value.member_slopes = true;
  if (value.cu_q.empty() && value.q_len.empty() && value.kv_len.empty())
    value.shape.B = std::max<int64_t>(value.shape.B, 2);
}

// Of one key, of some, of nearly all and of more than there are.
void draw_key_lists(Draw& draw, Case& value) {
  const int64_t Tk = std::max<int64_t>(value.shape.Tk, 1);
  const int64_t entries = draw.chance(15)   ? 1
                          : draw.chance(15) ? Tk + draw.range(1, 3)
                                            : draw.range(1, Tk);
  value.listed = {entries, draw.chance(50)};
}

// Of few keys, so that there are several, one of them not full; or one of all.
void draw_list_blocks(Draw& draw, Case& value) {
  constexpr std::array<int64_t, 8> kBlocks = {2, 2, 3, 4, 4, 5, 8, 16};
  if (value.listed.entries == 0) draw_key_lists(draw, value);
  KeyLists& lists = value.listed;
  lists.block = draw.of(kBlocks);
  lists.entries = (lists.entries + lists.block - 1) / lists.block;
}

// Small segments, so that several meet in a tile; now and then one alone.
void draw_segments(Draw& draw, Case& value) {
  value.fields.segments = true;
  value.fields.tokens =
      draw.of(std::array<int64_t, 9>{0, 1, 2, 3, 4, 5, 8, 16, 64});
  value.fields.wide_segments = draw.chance(50);
}

// In a causal text, and half of them within a window: else they say nothing.
void draw_ranges(Draw& draw, Case& value) {
  value.fields.ranges = draw.range(1, 4);
  value.fields.wide_ranges = draw.chance(50);
  if (!value.window && draw.chance(50)) draw_window(draw, value);
}

// From one position to beyond the last key, of powers of two most often.
void draw_chunk(Draw& draw, Case& value) {
  constexpr std::array<int64_t, 8> kChunks = {1, 2, 3, 4, 5, 8, 16, 32};
  value.chunk = draw.chance(80)
                    ? draw.of(kChunks)
                    : draw.range(1, std::max<int64_t>(value.shape.Tk, 1) + 1);
}

void draw_tree(Draw& draw, Case& value) {
  value.fields.tree = true;
  value.fields.children = draw.of(std::array<int64_t, 6>{0, 0, 0, 1, 2, 3});
}

// As the tables come out of a cache, far along in a text, or anywhere.
void draw_rope(Draw& draw, Case& value) {
  value.shape.d += value.shape.d % 2;
  value.rope = draw_rotation(draw);
}

void draw_empty(Draw& draw, Case& value) {
  Shape& s = value.shape;
  int64_t* const extents[] = {&s.Tk, &s.Tk, &s.Tq, &s.B};
  *extents[draw.range(0, 3)] = 0;
}

// The sizes of real kernels, and those at which borders show soonest.
void draw_pages(Draw& draw, Case& value) {
  constexpr std::array<int64_t, 10> kSizes = {1, 2, 2, 3, 4, 4, 5, 8, 16, 32};
  constexpr std::array<PageOrder, 4> kOrders = {
      PageOrder::kPermuted, PageOrder::kPermuted, PageOrder::kInOrder,
      PageOrder::kReverse};
  value.paging = {draw.of(kSizes), draw.of(kOrders),
                  draw.chance(50) ? Unowned::kOthers : Unowned::kNan};
  if (value.kv_len.empty() && draw.chance(60) &&
      static_cast<size_t>(value.shape.B) <= kMaxMembers)
    value.kv_len = draw_lengths(draw, value.shape.B, value.shape.Tk);
}

// Where the pages already are, or in some.
void draw_groups(Draw& draw, Case& value) {
  if (value.paging.size == 0) draw_pages(draw, value);
  in_channel_groups(value);
}

// Steps of decoding, one query each, around a member whose prompt is read; half
// the time, where there are rows for it.
void draw_packed_pages(Draw& draw, Case& value) {
  draw_members(draw, value);
  draw_pages(draw, value);
  value.kv_len.clear();
  std::vector<int64_t>& starts = value.cu_q;
  const auto members = static_cast<int64_t>(starts.size()) - 1;
  if (starts.back() < members || draw.chance(50)) return;
  const int64_t prompt = draw.range(0, members - 1);
  for (int64_t m = 1; m < members; ++m)
    starts[static_cast<size_t>(m)] =
        m <= prompt ? m : starts.back() - (members - m);
}

// As many as there are queries (a step of decoding), or any.
void draw_append(Draw& draw, Case& value) {
  const Shape& s = value.shape;
  value.append = draw.chance(40) ? s.Tq : draw.range(1, 5);
  value.append = std::min(value.append, s.Tk);
  for (int64_t& length : value.kv_len) length = std::max(length, value.append);
}

// Three to eight calls in a process; now and then hundreds of small ones among
// them, more than a byte counts.
void draw_calls(Draw& draw, Case& value) {
  using enum CallStepKind;
  constexpr std::array<CallStepKind, 16> kKinds = {
      kAsIs, kAsIs, kAsIs, kOther, kOther,     kOther,   kNone, kNone,
      kWith, kWith, kMore, kMore,  kElsewhere, kContext, kFew,  kFew};
  constexpr int64_t kByte = 256;
  CallSequence calls = {{kAsIs}};
  for (int64_t more = draw.range(2, 7); more > 0; --more)
    calls.push_back({draw.of(kKinds)});
  if (draw.chance(10)) {
    calls.push_back({kFew, kByte + draw.range(0, 8)});
    calls.push_back({kAsIs});
  }
  value.calls = joined(calls);
}

// Strides of an offset of more than 32 bits are the rarest: they show but one
// family of mistakes.
Layout draw_strides(Draw& draw) {
  const int64_t percent = draw.range(0, 99);
  return percent < 12   ? Layout::kFar
         : percent < 50 ? Layout::kApart
                        : Layout::kGaps;
}

}  // namespace

void fit_far(Draw& draw, Case& value) {
  Shape& s = value.shape;
  // Lists have a number for each member already.
  if (value.layout != Layout::kFar || gives_lengths(value) || s.B < 1) return;
  if (s.Hkv > 0 && draw.chance(50)) {
    s.B = 1;
    s.H = 2 * s.group();
    s.Hkv = 2;
  } else {
    s.B = draw.range(2, 3);
  }
}

void draw_option(Draw& draw, uint64_t option, Case& value) {
  switch (option) {
    case QKVET_OPTION_WINDOW:
      return draw_window(draw, value);
    case QKVET_OPTION_MASK:
      return draw_mask(draw, value);
    case QKVET_OPTION_LENGTHS:
      return draw_lengths(draw, value);
    case QKVET_OPTION_PACKED:
      return draw_members(draw, value);
    case QKVET_OPTION_BIAS:
      return draw_bias(draw, value);
    case kOptionLayout:
      value.layout = static_cast<Layout>(
          draw.range(1, static_cast<int64_t>(Layout::kGaps)));
      if (value.layout == Layout::kGaps) value.layout = draw_strides(draw);
      return fit_far(draw, value);
    case kOptionShare:
      value.share = static_cast<uint8_t>(draw.range(1, kShareB | kShareH));
      return;
    case QKVET_OPTION_ROPE:
      return draw_rope(draw, value);
    case QKVET_OPTION_EMPTY_EXTENTS:
      return draw_empty(draw, value);
    case QKVET_OPTION_PAGED:
      return draw_pages(draw, value);
    case QKVET_OPTION_PAGED_CSR:
      draw_pages(draw, value);
      value.paging.table = PageTable::kCsr;
      return;
    case QKVET_OPTION_PACKED_PAGES:
      return draw_packed_pages(draw, value);
    case QKVET_OPTION_PAGED_CHANNEL_GROUPS:
      return draw_groups(draw, value);
    case QKVET_OPTION_INT32_LENGTHS:
      value.int32_lengths = true;
      return;
    case QKVET_OPTION_VALUES_IN_KEYS:
      value.values_in_keys = true;
      return;
    case QKVET_OPTION_ALIBI_PER_MEMBER:
      return draw_member_slopes(draw, value);
    case QKVET_OPTION_KEY_LISTS:
      return draw_key_lists(draw, value);
    case QKVET_OPTION_KEY_LIST_LENGTHS:
      if (value.listed.entries == 0) draw_key_lists(draw, value);
      value.listed.lengths = true;
      return;
    case QKVET_OPTION_KEY_LIST_BLOCKS:
      return draw_list_blocks(draw, value);
    case QKVET_OPTION_SEGMENTS:
      return draw_segments(draw, value);
    case QKVET_OPTION_FULL_RANGES:
      return draw_ranges(draw, value);
    case QKVET_OPTION_CHUNK:
      return draw_chunk(draw, value);
    case QKVET_OPTION_TREE_MASK:
      return draw_tree(draw, value);
    case QKVET_OPTION_APPEND:
      return draw_append(draw, value);
    case kOptionCalls:
      return draw_calls(draw, value);
    case QKVET_OPTION_DROPOUT:
      value.dropout = draw.of(std::array<float, 4>{0.1F, 0.5F, 0.9F, 0});
      return;
    default:
      return draw_scores(draw, option, value);
  }
}

namespace {

// How lists are given that a case has: packed pages in either form of table,
// and half of all lists in int32. Nothing is drawn where no kernel has a
// choice.
void draw_list_forms(Draw& draw, uint64_t allows, Case& value) {
  if (value.int32_lengths && !gives_lengths(value))
    for (const uint64_t lists :
         {QKVET_OPTION_LENGTHS, QKVET_OPTION_PACKED, QKVET_OPTION_PAGED})
      if ((allows & lists) != 0) {
        draw_option(draw, lists, value);
        break;
      }
  if (!value.cu_q.empty() && value.paging.size > 0 &&
      (allows & QKVET_OPTION_PAGED_CSR) != 0 && draw.chance(50))
    value.paging.table = PageTable::kCsr;
  keep_table_allowed(allows, value);
  if ((allows & QKVET_OPTION_INT32_LENGTHS) != 0 && gives_lengths(value) &&
      draw.chance(50))
    value.int32_lengths = true;
}

}  // namespace

namespace {

uint64_t draw_bit(Draw& draw, const std::vector<uint64_t>& bits) {
  return bits[static_cast<size_t>(
      draw.range(0, static_cast<int64_t>(bits.size()) - 1))];
}

}  // namespace

Rope draw_rotation(Draw& draw) {
  constexpr std::array<int64_t, 4> kFirst = {1, 7, 100, 1000};
  Rope rope;
  rope.style = draw.chance(50) ? RopeStyle::kHalf : RopeStyle::kInterleaved;
  rope.random_positions = draw.chance(40);
  if (!rope.random_positions && draw.chance(40)) rope.first = draw.of(kFirst);
  return rope;
}

void draw_options(Draw& draw, const Law& law, const Scope& scope, Case& value) {
  const uint64_t declared = allowed_by(scope);
  const std::vector<uint64_t> about =
      single_options(about_in(law.domain) & declared);
  const uint64_t allowed = allowed_in(law.domain) & declared;
  const std::vector<uint64_t> others = single_options(
      allowed &
      ~(QKVET_OPTION_ALIBI_PER_MEMBER | QKVET_OPTION_KEY_LIST_LENGTHS |
        QKVET_OPTION_KEY_LIST_BLOCKS | QKVET_OPTION_PAGED_CHANNEL_GROUPS));
  // Most cases have one option or none, for it is pairs that fail at most.
  const int64_t percent = draw.range(0, 99);
  int64_t extra = percent < 40 ? 0 : percent < 70 ? 1 : percent < 92 ? 2 : 3;
  if (!about.empty()) {
    draw_option(draw, draw_bit(draw, about), value);
    extra /= 2;
  }
  for (; extra > 0 && !others.empty(); --extra)
    draw_option(draw, draw_bit(draw, others), value);
  finish_options(draw, law, scope, value);
}

void finish_options(Draw& draw, const Law& law, const Scope& scope,
                    Case& value) {
  const uint64_t allowed = allowed_in(law.domain) & allowed_by(scope);
  if (scope.pages_only && value.paging.size == 0) draw_pages(draw, value);
  if (scope.in_keys_only) value.values_in_keys = true;
  if (value.paging.size > 0 &&
      (allowed & QKVET_OPTION_PAGED_CHANNEL_GROUPS) != 0 && draw.chance(40))
    in_channel_groups(value);
  draw_list_forms(draw, allowed, value);
  if (value.slopes && (allowed & QKVET_OPTION_ALIBI_PER_MEMBER) != 0 &&
      draw.chance(50))
    value.member_slopes = true;
  if (value.listed.entries > 0 &&
      (allowed & QKVET_OPTION_KEY_LIST_LENGTHS) != 0 && draw.chance(50))
    value.listed.lengths = true;
  if (value.listed.entries > 0 && value.listed.block == 1 &&
      (allowed & QKVET_OPTION_KEY_LIST_BLOCKS) != 0 && draw.chance(25))
    draw_list_blocks(draw, value);
  // Packed members have their lengths, and a batch has none.
  if (!value.cu_q.empty()) value.q_len.clear(), value.kv_len.clear();
}

}  // namespace qkvet::properties
