// SPDX-License-Identifier: Apache-2.0
// Options for which pairs are visible, and how scores become weights.
#include <algorithm>

#include "properties/cases/drawn_options.h"

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

// The masks of serving: small ranges, so that several are in one tile, and
// trees of any shape, with two and with three children. All heads see one text.
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
  // Numbers that serve as a mask, and large ones: of the logits' storage, of a
  // usual mask, of f16, and the largest of each type.
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

Recipe draw_per_head(Draw& draw) {
  constexpr std::array<Recipe, 4> kPerHead = {{{RecipeKind::kNormal, 0},
                                               {RecipeKind::kLattice, 0},
                                               {RecipeKind::kLargeN, 2},
                                               {RecipeKind::kScaledN, 3}}};
  return draw.of(kPerHead);
}

// At least two members, unless lists set their number.
void draw_member_slopes(Draw& draw, Case& value) {
  if (!value.slopes) value.slopes = draw_per_head(draw);
  value.member_slopes = true;
  if (value.cu_q.empty() && value.q_len.empty() && value.kv_len.empty())
    value.shape.B = std::max<int64_t>(value.shape.B, 2);
}

// Lists with one key, some, nearly all, and more than there are.
void draw_key_lists(Draw& draw, Case& value) {
  const int64_t Tk = std::max<int64_t>(value.shape.Tk, 1);
  const int64_t entries = draw.chance(15)   ? 1
                          : draw.chance(15) ? Tk + draw.range(1, 3)
                                            : draw.range(1, Tk);
  value.listed = {entries, draw.chance(50)};
}

void draw_list_lengths(Draw& draw, Case& value) {
  if (value.listed.entries == 0) draw_key_lists(draw, value);
  value.listed.lengths = true;
}

// Small blocks, so that there are several, one of them partly filled; or one
// block with all keys.
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

// In a causal text, and half of them within a window: otherwise they have no
// effect.
void draw_ranges(Draw& draw, Case& value) {
  value.fields.ranges = draw.range(1, 4);
  value.fields.wide_ranges = draw.chance(50);
  if (!value.window && draw.chance(50)) draw_window(draw, value);
}

// From one position to beyond the last key; most often a power of two.
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

// Tables as a cache provides them, far along in a text, or anywhere.
void draw_rope(Draw& draw, Case& value) {
  value.shape.d += value.shape.d % 2;
  value.rope = draw_rotation(draw);
}

void draw_turned_part(Draw& draw, Case& value) {
  if (value.rope.style == RopeStyle::kNone) value.rope = draw_rotation(draw);
  draw_rope_part(draw, value);
}

bool has_lists(const Case& c) { return c.listed.entries > 0; }

// One block, whole or partial, and two.
void add_list_blocks(const AddSetting& add) {
  for (int64_t n = 1; n <= 2; ++n)
    add([=](Case& c) {
      c.listed = {n, false, c.listed.lengths, false, /*block=*/2};
    });
}

// Two of three channels.
void add_turned_parts(const AddSetting& add) {
  for (const RopeStyle style : {RopeStyle::kHalf, RopeStyle::kInterleaved})
    add([style](Case& c) {
      if (c.shape.dv == c.shape.d) c.shape.dv = std::max<int64_t>(c.shape.d, 3);
      c.shape.d = std::max<int64_t>(c.shape.d, 3);
      c.rope = {style, false, 0, 2};
    });
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

void draw_rope_part(Draw& draw, Case& value) {
  value.shape.d = std::max<int64_t>(value.shape.d, 3);
  value.rope.channels = 2 * draw.range(1, (value.shape.d - 1) / 2);
}

std::vector<DrawnOption> options_of_scores() {
  return {
      {QKVET_OPTION_WINDOW, draw_window,
       "window=-1.{0,1,2} window={0,1,2}.{-1,0,1,2}"},
      {QKVET_OPTION_MASK, draw_mask,
       "mask={random,band0,band1,only0,only1,only2,but0,but1,but2,emptyrow0,"
       "emptyrow1,emptyrow2,padding0,padding1,padding2,padding3}"
       "{,.qk,.k,.q,.h,.bk} "
       "mask={prefix1,prefix2,ranges2,docs2,chunk1,chunk2,tree,tree2}{,.qk}"},
      {QKVET_OPTION_BIAS, draw_bias, "bias=lattice{,.qk,.k,.q,.h,.bk}"},
      {QKVET_OPTION_ALIBI,
       [](Draw& draw, Case& c) { c.slopes = draw_per_head(draw); },
       "alibi=lattice"},
      {QKVET_OPTION_ALIBI_PER_MEMBER, draw_member_slopes, "alibi=lattice.bh",
       nullptr, [](const Case& c) { return c.slopes.has_value(); }, 50, false,
       [](Draw&, Case& c) { c.member_slopes = true; }},
      {QKVET_OPTION_KEY_LISTS, draw_key_lists, "keys={1,2,3}{,.h}"},
      {QKVET_OPTION_KEY_LIST_LENGTHS, draw_list_lengths, "keys={1,2,3}.{n,hn}",
       nullptr, has_lists, 50, false},
      {QKVET_OPTION_KEY_LIST_BLOCKS, draw_list_blocks, "", add_list_blocks,
       [](const Case& c) { return has_lists(c) && c.listed.block == 1; }, 25,
       false},
      {QKVET_OPTION_SEGMENTS, draw_segments, "segments={0,1.i64,2}"},
      {QKVET_OPTION_FULL_RANGES, draw_ranges, "ranges={1.i64,2}"},
      {QKVET_OPTION_CHUNK, draw_chunk, "chunk={1,2}"},
      {QKVET_OPTION_TREE_MASK, draw_tree, "tree={1,2}"},
#define QKVET_OPTION_NUMBER(name, NAME, one, in_backward, small, ...) \
  {QKVET_OPTION_##NAME,                                               \
   [](Draw& draw, Case& c) {                                          \
     c.name = draw.of(std::to_array<float>({__VA_ARGS__}));           \
   },                                                                 \
   #name "=" #small},
#include "core/call/option_numbers.def"
      {QKVET_OPTION_SINK,
       [](Draw& draw, Case& c) { c.sink = draw_per_head(draw); },
       "sink=lattice"},
      // Two channels are one pair in either style.
      {QKVET_OPTION_ROPE, draw_rope, "rope=half{,.random}"},
      {QKVET_OPTION_ROPE_PART, draw_turned_part, "", add_turned_parts,
       [](const Case& c) { return c.rope.style != RopeStyle::kNone; }, 50,
       false, draw_rope_part},
      {QKVET_OPTION_DROPOUT,
       [](Draw& draw, Case& c) {
         c.dropout = draw.of(std::array<float, 4>{0.1F, 0.5F, 0.9F, 0});
       }},
  };
}

}  // namespace qkvet::properties
