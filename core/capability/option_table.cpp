// SPDX-License-Identifier: Apache-2.0
#include "core/capability/option_table.h"

#include <algorithm>
#include <array>

#include "core/case/paging.h"

namespace qkvet {
namespace {

using Call = const KernelCall&;

bool has_empty_extent(Call call) {
  const Shape& s = call.shape;
  if (std::min({s.B, s.H, s.Hkv, s.d, s.dv}) == 0) return true;
  if (is_layer(call.operation)) return std::min(s.Tq, s.D) == 0;
  return takes_options(call.operation) && std::min(s.Tq, s.Tk) == 0;
}

// In a packed batch each member has extents of its own.
bool has_cross_lengths(Call call) {
  if (!takes_options(call.operation)) return false;
  if (call.shape.Tq != call.shape.Tk) return true;
  const auto length = [&](const std::byte* ends, int64_t m) {
    return length_at(call, ends, m + 1) - length_at(call, ends, m);
  };
  for (int64_t m = 0; m < call.members; ++m)
    if (length(call.cu_q, m) != (is_served(call)
                                     ? held_tokens(call, m) + call.new_tokens
                                     : length(call.cu_k, m)))
      return true;
  return false;
}

bool has_lengths(Call call) {
  return call.q_len != nullptr || (call.kv_len != nullptr && !is_served(call));
}

bool has_int32_lengths(Call call) {
  return call.int32_lengths &&
         (call.q_len != nullptr || call.kv_len != nullptr ||
          call.cu_q != nullptr || call.cu_k != nullptr);
}

bool turns_a_part(Call call) {
  return call.rope != RopeStyle::kNone && call.rope_channels < call.shape.d;
}

constexpr auto kTable = std::to_array<OptionRow>({
    {QKVET_OPTION_CAUSAL_TOP_LEFT, "causal_top_left",
     "causal from the top left", "", "causal from the top left",
     [](Call c) { return c.causal == Causal::kTopLeft; }},
    {QKVET_OPTION_CAUSAL_BOTTOM_RIGHT, "causal_bottom_right",
     "causal from the bottom right", "", "causal from the bottom right",
     [](Call c) { return c.causal == Causal::kBottomRight; }},
    {QKVET_OPTION_SCALE, "scale", "a given scale", "", "a given scale",
     [](Call c) { return c.scale.has_value(); }},
    {QKVET_OPTION_DEFAULT_SCALE, "default_scale", "the default scale", "",
     "the default scale", [](Call c) { return !c.scale.has_value(); }},
    {QKVET_OPTION_LSE, "lse", "lse", "", "lse",
     [](Call c) { return c.want_lse; }},
    {QKVET_OPTION_WEIGHTS, "weights", "weights", "", "weights",
     [](Call c) { return c.want_weights; }},
    {QKVET_OPTION_GROUPED_HEADS, "grouped_heads", "grouped heads", "Hkv < H",
     "grouped heads", [](Call c) { return c.shape.Hkv < c.shape.H; }},
    {QKVET_OPTION_VALUE_WIDTH, "value_width", "a value width", "dv != d",
     "value width", [](Call c) { return c.shape.dv != c.shape.d; }},
    {QKVET_OPTION_CROSS_LENGTHS, "cross_lengths", "cross lengths", "Tq != Tk",
     "cross lengths", has_cross_lengths},
    {QKVET_OPTION_EMPTY_EXTENTS, "empty_extents", "empty extents", "",
     "empty extents", has_empty_extent},
    {QKVET_OPTION_WINDOW, "window", "a window", "", "windows",
     [](Call c) { return c.window.has_value(); }},
    {QKVET_OPTION_MASK, "mask", "a mask", "", "masks",
     [](Call c) { return c.mask != nullptr; }},
    {QKVET_OPTION_BIAS, "bias", "a bias", "", "biases",
     [](Call c) { return c.bias != nullptr; }},
#define QKVET_OPTION_NUMBER(name, NAME, one, ...) \
  {QKVET_OPTION_##NAME,                           \
   #name,                                         \
   one,                                           \
   "",                                            \
   #name,                                         \
   [](Call c) { return c.name != 0; }},
#include "core/call/option_numbers.def"
    {QKVET_OPTION_SINK, "sink", "a sink", "", "sinks",
     [](Call c) { return c.sink != nullptr; }},
    {QKVET_OPTION_ALIBI, "alibi", "ALiBi", "", "ALiBi",
     [](Call c) { return c.slopes != nullptr; }},
    {QKVET_OPTION_ROPE, "rope", "a rotation", "RoPE", "RoPE",
     [](Call c) { return c.rope != RopeStyle::kNone; }},
    {QKVET_OPTION_DROPOUT, "dropout", "dropout", "", "dropout",
     [](Call c) { return c.dropout.has_value(); }},
    {QKVET_OPTION_LENGTHS, "lengths", "lengths", "q_len, kv_len", "lengths",
     has_lengths},
    {QKVET_OPTION_PACKED, "packed", "a packed batch", "", "packed batches",
     [](Call c) { return c.members > 0 && c.page_size == 0; }},
    {QKVET_OPTION_PAGED, "paged", "pages", "block_table", "pages",
     [](Call c) { return c.page_size > 0 && c.page_indptr == nullptr; }},
    {QKVET_OPTION_APPEND, "append", "new tokens", "k_new, v_new", "new tokens",
     [](Call c) { return c.new_tokens > 0; }},
    // No case has them: what is declared is not judged.
    {QKVET_OPTION_QUANT_SCALES, "quant_scales", "scales of quantised storage",
     "", "scales of quantised storage", [](Call) { return false; }},
    {QKVET_OPTION_DROPOUT_MASK, "dropout_mask", "a dropout_mask", "",
     "dropout masks", [](Call c) { return c.want_dropout_mask; }},
    {QKVET_OPTION_PACKED_PAGES, "packed_pages", "a packed batch over pages",
     "cu_seqlens_q, block_table", "packed batches over pages",
     [](Call c) { return c.members > 0 && c.page_size > 0; }},
    {QKVET_OPTION_PAGED_CSR, "paged_csr", "a list of pages",
     "page_indptr, page_indices, last_page_len", "lists of pages",
     [](Call c) { return c.page_indptr != nullptr; }},
    {QKVET_OPTION_INT32_LENGTHS, "int32_lengths", "int32 lengths",
     "q_len, kv_len, cu_seqlens_*", "int32 lengths", has_int32_lengths},
    {QKVET_OPTION_ALIBI_PER_MEMBER, "alibi_per_member",
     "ALiBi slopes of each member", "slopes [B, H]",
     "ALiBi slopes of each member",
     [](Call c) { return c.slopes != nullptr && c.member_slopes; }},
    {QKVET_OPTION_KEY_LISTS, "key_lists", "lists of keys", "key_indices",
     "lists of keys", [](Call c) { return c.key_indices != nullptr; }},
    {QKVET_OPTION_KEY_LIST_LENGTHS, "key_list_lengths",
     "lengths of lists of keys", "topk_length", "lengths of lists of keys",
     [](Call c) { return c.topk_length != nullptr; }},
    {QKVET_OPTION_KEY_LIST_BLOCKS, "key_list_blocks", "lists of blocks of keys",
     "key_block_size", "lists of blocks of keys",
     [](Call c) { return c.listed.block > 1; }},
    {QKVET_OPTION_PAGED_CHANNEL_GROUPS, "paged_channel_groups",
     "pages of keys in groups of channels", "channel_group",
     "pages of keys in groups of channels",
     [](Call c) { return c.channel_group > 0; }},
    {QKVET_OPTION_VALUES_IN_KEYS, "values_in_keys", "values in the keys",
     "v is a view of k", "values in keys",
     [](Call c) { return c.values_in_keys; }},
    {QKVET_OPTION_SEGMENTS, "segments", "segments", "segments_q, segments_k",
     "segments", [](Call c) { return c.segments_q != nullptr; }},
    {QKVET_OPTION_FULL_RANGES, "full_ranges", "ranges seen both ways",
     "full_ranges", "ranges seen both ways",
     [](Call c) { return c.full_ranges != nullptr; }},
    {QKVET_OPTION_CHUNK, "chunk", "chunks", "chunk", "chunks",
     [](Call c) { return c.chunk != 0; }},
    {QKVET_OPTION_TREE_MASK, "tree_mask", "a tree of drafts", "tree_mask",
     "trees of drafts", [](Call c) { return c.tree_mask != nullptr; }},
    {QKVET_OPTION_ROPE_PART, "rope_part", "a rotation of some channels",
     "rope_cos [positions, r/2], r < d", "rotations of some channels",
     turns_a_part},
});

constexpr auto kRows = [] {
  auto rows = kTable;
  std::ranges::sort(rows, {}, &OptionRow::option);
  return rows;
}();

constexpr bool has_every_bit() {
  for (size_t i = 0; i < kRows.size(); ++i)
    if (kRows[i].option != uint64_t{1} << i) return false;
  return true;
}
static_assert(has_every_bit());

}  // namespace

std::span<const OptionRow> option_rows() { return kRows; }

std::string named(const OptionRow& row) {
  const std::string one(row.one);
  return row.means.empty() ? one : one + " (" + std::string(row.means) + ")";
}

uint64_t options_in(const KernelCall& call) {
  uint64_t options = 0;
  for (const OptionRow& row : kRows)
    if (row.in(call)) options |= row.option;
  return options;
}

}  // namespace qkvet
