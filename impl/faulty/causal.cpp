// SPDX-License-Identifier: Apache-2.0
// Faults of the causal rule: which keys a row sees, and where its diagonal
// lies; and of the masks in a few numbers that go with it: segments, ranges,
// chunks, trees.
#include <algorithm>
#include <limits>

#include "impl/faulty/kernels.h"
#include "impl/skeletons/tile.h"

namespace qkvet::impl {

// Another rule, for rows that see a key by the right one. A row that loses all
// its keys is divided by 0.
template <class Fault>
struct OtherRule : OptionHooks {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    return call.visible(i) > 0 && Fault::visible(call, i, j);
  }
  static float empty_row(const ForwardCall& call, RowAt at, int64_t) {
    return call.visible(at.i) > 0 ? std::numeric_limits<float>::quiet_NaN() : 0;
  }
};

struct NoMask : OtherRule<NoMask> {
  static bool visible(const ForwardCall&, int64_t, int64_t) { return true; }
};
QKVET_FAULT(no_mask, kPlainFault<NoMask>) = {
    .when = "causal && rows(seen > 0 && hidden > 0)",
    .cause = "a causal call sees every key: the mask is built and never added "
             "to the scores",
    .fix =
        "set the scores of keys past the diagonal to -inf before the softmax",
    .source = "jax-ml/jax#19237, lightseekorg/tokenspeed#469, QwenLM/Qwen#933",
    .killed_by = {"future_weights_are_zero", "future_changes_nothing"},
};

struct UpperTriangle : OtherRule<UpperTriangle> {
  static bool visible(const ForwardCall& call, int64_t i, int64_t j) {
    return !call.causal || j >= i + call.diagonal;
  }
};
QKVET_FAULT(upper_triangle, kPlainFault<UpperTriangle>) = {
    .when = "causal && (Tq > 1 || Tk > 1)",
    .cause = "a causal row sees its own key and the later ones instead of the "
             "earlier ones: triu where tril was meant",
    .fix =
        "keep the lower triangle with its diagonal: key j if j <= i + Tk - Tq",
    .source = "marin-community/levanter#102",
    .killed_by = {"future_weights_are_zero", "future_changes_nothing"},
};

struct DiagonalMasked : OtherRule<DiagonalMasked> {
  static bool visible(const ForwardCall& call, int64_t i, int64_t j) {
    return call.causal ? j < i + call.diagonal : j < call.keys;
  }
};
QKVET_FAULT(diagonal_masked, kPlainFault<DiagonalMasked>) = {
    .when = "causal && rows(seen > 0)",
    .cause = "a causal row does not see the key on its diagonal: j < i where j "
             "<= i was meant",
    .fix = "keep the diagonal: key j is visible if j <= i + Tk - Tq",
    .source = "pbloem/former#6",
    .killed_by = {"weights_sum_to_one", "lse_counts_equal_keys"},
};

struct OneAhead : OtherRule<OneAhead> {
  static bool visible(const ForwardCall& call, int64_t i, int64_t j) {
    return j < call.keys && (!call.causal || j <= i + call.diagonal + 1);
  }
};
QKVET_FAULT(one_ahead, kPlainFault<OneAhead>) = {
    .when = "causal && rows(seen > 0 && hidden > 0)",
    .cause = "a causal row sees one key too many: triu(diagonal=2) where "
             "diagonal=1 was meant",
    .fix = "hide every key with j > i + Tk - Tq",
    .killed_by = {"future_weights_are_zero", "future_changes_nothing"},
};

struct OffsetIgnored : OtherRule<OffsetIgnored> {
  static bool visible(const ForwardCall& call, int64_t i, int64_t j) {
    return j < call.keys && (!call.causal || j <= i);
  }
};
QKVET_FAULT(offset_ignored, kPlainFault<OffsetIgnored>) = {
    .when = "bottom_right && Tq != Tk",
    .cause = "the diagonal starts at the top left where the caller asks for "
             "the bottom right: the Tk - Tq earlier keys are left out",
    .fix = "hide every key with j > i + Tk - Tq",
    .source = "Dao-AILab/flash-attention#282, NVIDIA/cutlass#2336",
    .killed_by = {"chunks_equal_whole", "agrees_with_oracle"},
};

struct DiagonalAlwaysBottomRight : OptionHooks {
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    if (whole.top_left) member->diagonal = member->keys - member->queries;
  }
};
QKVET_FAULT(diagonal_always_bottom_right,
            kOptionFault<DiagonalAlwaysBottomRight>) = {
    .when = "top_left && Tq != Tk",
    .cause = "the last query is aligned with the last key where the first one "
             "belongs to the first: both flags lead to one alignment",
    .fix = "keep the alignment until the mask is made, or refuse the other one",
    .source = "microsoft/onnxruntime#29020, ml-explore/mlx#2835",
    .killed_by = {"every_pair_is_seen_as_asked", "every_key_counts_once"},
};

struct CausalOncePerTwoRows : OptionHooks {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    const Run run = call.in_reach(call.causal ? i - i % half_tile() : i);
    return run.begin <= j && j < run.end;
  }
};
QKVET_FAULT(causal_once_per_two_rows, kOptionFault<CausalOncePerTwoRows>) = {
    .when = "causal && rows(row % 2 == 1 && seen > 0)",
    .cause = "two rows share the diagonal of the first one: the limit of a "
             "tile of rows is computed once",
    .fix = "one limit a row, or a mask within the tiles that the diagonal cuts",
    .killed_by = {"every_pair_is_seen_as_asked", "every_key_counts_once"},
    .tiled = true,
};

struct CausalGroupTakesLastRow : OptionHooks {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    const int64_t last =
        std::min(i - i % half_tile() + half_tile(), call.queries) - 1;
    return j < call.visible(call.causal ? last : i);
  }
};
QKVET_FAULT(causal_group_takes_last_row,
            kOptionFault<CausalGroupTakesLastRow>) = {
    .when = "causal && rows(row % 2 == 0 && row + 1 < queries && hidden > 0)",
    .cause = "two rows share the diagonal of the second one: the mask of one "
             "row is used for its whole group",
    .fix = "decide for each row, or use the first row to skip the mask",
    .source = "pytorch/pytorch#195910",
    .killed_by = {"future_changes_nothing", "future_weights_are_zero"},
    .tiled = true,
};

struct CausalLostWithOtherValueWidth : OptionHooks {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    return call.width != call.value_width || OptionHooks::in_reach(call, i, j);
  }
};
QKVET_FAULT(causal_lost_with_other_value_width,
            kOptionFault<CausalLostWithOtherValueWidth>) = {
    .when = "causal && d != dv && rows(hidden > 0)",
    .cause = "the path for dv other than d ignores the causal rule: it is "
             "older than the masks",
    .fix = "apply every option on every path, or refuse it",
    .source = "keras-team/keras#23038",
    .killed_by = {"future_weights_are_zero", "future_changes_nothing"},
};

struct CausalLostWhenTilesDivide : OptionHooks {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    return call.keys % half_tile() == 0 || OptionHooks::in_reach(call, i, j);
  }
};
QKVET_FAULT(causal_lost_when_tiles_divide,
            kOptionFault<CausalLostWhenTilesDivide>) = {
    .when = "causal && Tk % 2 == 0 && rows(hidden > 0)",
    .cause = "only a partial last tile is masked: one predicate guards the end "
             "of the keys and the diagonal",
    .fix = "mask by the diagonal whether there is a rest or not",
    .source = "bledden/triton-msl#7",
    .killed_by = {"future_weights_are_zero", "future_changes_nothing"},
    .tiled = true,
};

// ---- Masks in a few numbers
// --------------------------------------------------

// Whom row `row` of member `of` shows key `key`, as Wrong has it.
struct RightFields {
  static bool segment(const ForwardCall&, const FieldMasks& f, int64_t of,
                      int64_t row, int64_t key) {
    return f.in_segment(of, row, key);
  }
  static bool chunk(const FieldMasks& f, int64_t position, int64_t key) {
    return f.in_chunk(position, key);
  }
  static bool range(const FieldMasks& f, int64_t of, int64_t row, int64_t key) {
    return f.in_range(of, row + f.diagonal, key);
  }
  static bool branch(const FieldMasks& f, int64_t of, int64_t row,
                     int64_t key) {
    return f.on_branch(of, row, key);
  }
};

template <class Wrong>
struct WrongFields : OptionHooks {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    ForwardCall open = call;
    open.options.fields.chunk = 0;
    return OptionHooks::in_reach(open, i, j);
  }
  static bool allows(const ForwardCall& call, RowAt at, int64_t j) {
    const FieldMasks& f = call.options.fields;
    const int64_t of = f.b + at.b, row = f.i + at.i, key = f.j + j;
    return call.options.shows(at.b, at.h, at.i, j) &&
           Wrong::segment(call, f, of, row, key) &&
           Wrong::chunk(f, row + f.diagonal, key) &&
           Wrong::range(f, of, row, key) && Wrong::branch(f, of, row, key);
  }
};

struct SegmentOfTile : RightFields {
  static bool segment(const ForwardCall&, const FieldMasks& f, int64_t of,
                      int64_t row, int64_t key) {
    return f.in_segment(of, row, key / half_tile() * half_tile());
  }
};
QKVET_FAULT(segment_of_tile,
            kOptionFault<WrongFields<SegmentOfTile>, QKVET_OPTION_SEGMENTS>) = {
    .when = "rows(border > 0)",
    .cause = "the segment of the first key of a tile is used for all its keys: "
             "the test that skips tiles also decides for single keys",
    .fix = "compare the segment of each key in tiles that hold two",
    .killed_by = {"segments_equal_sequences", "mask_fields_equal_rows_alone"},
};

struct SegmentOfRows : RightFields {
  static bool segment(const ForwardCall& call, const FieldMasks& f, int64_t of,
                      int64_t row, int64_t key) {
    if (!f.segments_q.present()) return true;
    const int64_t own = f.segments_q.get(of, row, 0);
    const int64_t at = std::min(key, call.queries - 1);
    return own >= 0 && own == f.segments_q.get(of, at, 0);
  }
};
QKVET_FAULT(segment_of_key_in_list_of_rows,
            kOptionFault<WrongFields<SegmentOfRows>, QKVET_OPTION_SEGMENTS>) = {
    .when = "segments",
    .cause = "the segment of a key is looked up in the list of the rows: "
             "segments_q is passed for both",
    .fix = "take segments_k for the keys",
    .source = "textbook, cf. vllm-project/vllm-omni#5865",
    .killed_by = {"segments_equal_sequences", "mask_fields_equal_rows_alone"},
};

struct PaddingIsASegment : RightFields {
  static bool segment(const ForwardCall&, const FieldMasks& f, int64_t of,
                      int64_t row, int64_t key) {
    return !f.segments_q.present() ||
           f.segments_q.get(of, row, 0) == f.segments_k.get(of, key, 0);
  }
};
QKVET_FAULT(
    padding_is_a_segment,
    kOptionFault<WrongFields<PaddingIsASegment>, QKVET_OPTION_SEGMENTS>) = {
    .when = "rows(padding)",
    .cause = "rows of padding see keys of padding: segment numbers are "
             "compared, and their sign is not checked",
    .fix = "a number below 0 is no segment",
    .source = "AI-Hypercomputer/maxtext#4908",
    .killed_by = {"agrees_with_oracle"},
};

struct SegmentIn32Bits : RightFields {
  static bool segment(const ForwardCall&, const FieldMasks& f, int64_t of,
                      int64_t row, int64_t key) {
    if (!f.segments_q.present()) return true;
    const auto own = static_cast<int32_t>(f.segments_q.get(of, row, 0));
    return own >= 0 &&
           own == static_cast<int32_t>(f.segments_k.get(of, key, 0));
  }
};
QKVET_FAULT(
    segment_in_32_bits,
    kOptionFault<WrongFields<SegmentIn32Bits>, QKVET_OPTION_SEGMENTS>) = {
    .when = "segments.wide && rows(alike > 0)",
    .cause = "only the lower half of 64-bit segment numbers is compared: they "
             "are read as int32",
    .fix = "read them in their own type, or refuse it",
    .killed_by = {"segments_equal_sequences",
                  "rest_of_mask_fields_changes_nothing"},
};

constexpr uint64_t kRanges = QKVET_OPTION_FULL_RANGES | QKVET_OPTION_WINDOW;

struct RangesDropWindow : RightFields {
  static bool range(const FieldMasks& f, int64_t of, int64_t row, int64_t key) {
    const int64_t position = row + f.diagonal;
    return f.ranges == 0 || f.in_past(position, key) ||
           f.share_range(of, position, key);
  }
};
QKVET_FAULT(ranges_switch_window_off,
            kOptionFault<WrongFields<RangesDropWindow>, kRanges>) = {
    .when = "ranges > 0 && window",
    .cause = "a call with ranges has no window: the mask function of the "
             "ranges replaces the one with the window",
    .fix = "compose the two",
    .source = "vllm-project/vllm#47332",
    .killed_by = {"mask_fields_equal_rows_alone",
                  "every_pair_is_seen_as_asked"},
};

struct RangesCountRows : RightFields {
  static bool range(const FieldMasks& f, int64_t of, int64_t row, int64_t key) {
    const int64_t position = row + f.diagonal;
    return f.ranges == 0 ||
           (f.in_past(position, key) && f.in_window_of(position, key)) ||
           f.share_range(of, row, key);
  }
};
QKVET_FAULT(ranges_count_rows_from_zero,
            kOptionFault<WrongFields<RangesCountRows>, kRanges>) = {
    .when = "ranges > 0 && (causal || window) && rows(diagonal != row)",
    .cause =
        "the row number within the call is compared with ranges of positions",
    .fix = "add the number of keys before the first row",
    .source = "vllm-project/vllm#47332, openvinotoolkit/openvino#36708",
    .killed_by = {"mask_fields_equal_rows_alone",
                  "every_pair_is_seen_as_asked"},
};

struct ChunkFromRow : RightFields {
  static bool chunk(const FieldMasks& f, int64_t position, int64_t key) {
    return f.chunk <= 0 || (position - key < f.chunk && key <= position);
  }
};
QKVET_FAULT(chunk_counted_from_row,
            kOptionFault<WrongFields<ChunkFromRow>,
                         QKVET_OPTION_CHUNK | QKVET_OPTION_MASK>) = {
    .when = "rows(chunk > 0 && (diagonal + 1) % chunk != 0)",
    .cause = "a chunk is taken for a sliding window of as many keys",
    .fix = "compare key / chunk with position / chunk",
    .source = "textbook, cf. ggml-org/llama.cpp#12791",
    .killed_by = {"mask_fields_equal_masks", "mask_fields_equal_rows_alone"},
};

struct TreeBelowDiagonal : RightFields {
  static bool branch(const FieldMasks& f, int64_t of, int64_t row,
                     int64_t key) {
    return key - f.drafts < row || f.on_branch(of, row, key);
  }
};
QKVET_FAULT(
    tree_below_diagonal_not_asked,
    kOptionFault<WrongFields<TreeBelowDiagonal>, QKVET_OPTION_TREE_MASK>) = {
    .when = "rows(aside > 0)",
    .cause = "drafts before a row are seen without a look at the tree: tiles "
             "below the diagonal skip the mask",
    .fix = "ask the tree for each draft",
    .source = "PaddlePaddle/FastDeploy#3514",
    .killed_by = {"tree_paths_equal_sequences", "mask_fields_equal_rows_alone"},
};

struct SiblingsSeeEachOther : RightFields {
  static bool branch(const FieldMasks& f, int64_t of, int64_t row,
                     int64_t key) {
    return f.on_branch(of, row, key) || (row > 0 && key - f.drafts == row - 1);
  }
};
QKVET_FAULT(
    tree_siblings_see_each_other,
    kOptionFault<WrongFields<SiblingsSeeEachOther>, QKVET_OPTION_TREE_MASK>) = {
    .when = "rows(aside > 0)",
    .cause = "a draft sees the one beside it, which may be its sibling: the "
             "diagonal of the tree is wider by one",
    .fix = "a draft sees its ancestors and itself",
    .source = "textbook, cf. vllm-project/vllm#17560",
    .killed_by = {"tree_paths_equal_sequences", "mask_fields_equal_rows_alone"},
};

struct ChunkInInt : RightFields {
  static bool chunk(const FieldMasks& f, int64_t position, int64_t key) {
    FieldMasks narrow = f;
    narrow.chunk = std::max<int64_t>(static_cast<int32_t>(f.chunk), 0);
    return narrow.in_chunk(position, key);
  }
};
QKVET_FAULT(chunk_kept_in_int,
            kOptionFault<WrongFields<ChunkInInt>,
                         QKVET_OPTION_CHUNK | QKVET_OPTION_MASK>) = {
    .when = "chunk > 2147483647",
    .cause = "the size of a chunk is cut to 32 bits: an int parameter for a "
             "field of 64 bits",
    .fix = "keep it in 64 bits",
    .killed_by = {"mask_fields_equal_masks", "every_pair_is_seen_as_asked"},
};

}  // namespace qkvet::impl
