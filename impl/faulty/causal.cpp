// SPDX-License-Identifier: Apache-2.0
// Faults of the causal rule: which keys a row sees, and where its diagonal
// lies; and of the masks in a few numbers that go with it: segments, ranges,
// chunks, trees.
#include <algorithm>

#include "impl/faulty/kernels.h"
#include "impl/skeletons/tile.h"

namespace qkvet::impl {

// The causal flag is read and nothing is masked.
struct NoMask : PlainHooks {
  static bool visible(const ForwardCall&, int64_t, int64_t) { return true; }
};
QKVET_FAULT(no_mask) = {
    .kernel = plain_fault<NoMask>,
    .mechanism = "a causal call sees every key",
    .symptom = "the training loss is wonderful and generation is nonsense",
    .cause = "the causal mask is built and never added to the scores",
    .fix =
        "set the scores of keys behind the diagonal to -inf before the softmax",
    .source = "textbook",
    .trigger = "causal, and a row with at least one visible and one hidden key",
    .killed_by = {"future_weights_are_zero", "future_changes_nothing",
                  "every_key_counts_once", "lse_counts_equal_keys",
                  "prefill_equals_decode", "agrees_with_oracle"},
    .when = "causal && rows(seen > 0 && hidden > 0)",
};

// The mask keeps the upper triangle, with its diagonal.
struct UpperTriangle : PlainHooks {
  static bool visible(const ForwardCall& call, int64_t i, int64_t j) {
    return !call.causal || j >= i + call.diagonal;
  }
};
QKVET_FAULT(upper_triangle) = {
    .kernel = plain_fault<UpperTriangle>,
    .mechanism =
        "a causal row sees its own key and the later ones, not the earlier "
        "ones",
    .symptom = "the model learns to look ahead and never back",
    .cause = "triu where tril was meant, or a mask of the wrong sense",
    .fix =
        "keep the lower triangle with its diagonal: key j if j <= i + Tk - Tq",
    .source = "textbook",
    .trigger =
        "causal, and a row with a visible key before its diagonal or a hidden "
        "one behind it",
    .killed_by = {"future_weights_are_zero", "future_changes_nothing",
                  "every_key_counts_once", "lse_counts_equal_keys",
                  "prefill_equals_decode", "agrees_with_oracle"},
    .when = "causal && (Tq > 1 || Tk > 1)",
};

// The mask is strict, so that a row does not see itself.
struct DiagonalMasked : PlainHooks {
  static bool visible(const ForwardCall& call, int64_t i, int64_t j) {
    return call.causal ? j < i + call.diagonal : j < call.keys;
  }
};
QKVET_FAULT(diagonal_masked) = {
    .kernel = plain_fault<DiagonalMasked>,
    .mechanism = "a causal row does not see the key on its diagonal",
    .symptom = "NaN in the first row, weak outputs in the others",
    .cause = "j < i where j <= i was meant",
    .fix = "keep the diagonal: key j is visible if j <= i + Tk - Tq",
    .source = "textbook",
    .trigger =
        "causal, and a row whose diagonal key exists; with nothing before it, "
        "the row is NaN",
    .killed_by = {"weights_sum_to_one", "lse_counts_equal_keys",
                  "rows_stay_in_hull", "agrees_with_oracle"},
    .when = "causal && rows(seen > 0)",
};

// The diagonal of the mask lies one key too far right.
struct OneAhead : PlainHooks {
  static bool visible(const ForwardCall& call, int64_t i, int64_t j) {
    return j < call.keys && (!call.causal || j <= i + call.diagonal + 1);
  }
};
QKVET_FAULT(one_ahead) = {
    .kernel = plain_fault<OneAhead>,
    .mechanism = "a causal row sees one key too many",
    .symptom =
        "the loss falls too fast: each position reads the token that it has to "
        "predict",
    .cause = "triu(diagonal=2) where diagonal=1 was meant",
    .fix = "hide every key with j > i + Tk - Tq",
    .source = "textbook",
    .trigger = "causal, and a row with at least one visible and one hidden key",
    .killed_by = {"future_weights_are_zero", "future_changes_nothing",
                  "prefill_equals_decode", "chunks_equal_whole",
                  "every_key_counts_once", "lse_counts_equal_keys",
                  "agrees_with_oracle"},
    .when = "causal && rows(seen > 0 && hidden > 0)",
};

// A chunk is masked as if it began the sequence.
struct OffsetIgnored : PlainHooks {
  static bool visible(const ForwardCall& call, int64_t i, int64_t j) {
    return j < call.keys && (!call.causal || j <= i);
  }
};
QKVET_FAULT(offset_ignored) = {
    .kernel = plain_fault<OffsetIgnored>,
    .mechanism =
        "counts the diagonal from the top left where the caller asks for the "
        "bottom right",
    .symptom =
        "a prompt in one piece is right; the second chunk on a warm cache sees "
        "too few keys",
    .cause = "the mask of the chunk leaves out the Tk - Tq keys before it",
    .fix = "hide every key with j > i + Tk - Tq",
    .source = "textbook",
    .trigger = "causal from the bottom right, and Tk > Tq",
    .killed_by = {"chunks_equal_whole", "agrees_with_oracle"},
    .when = "bottom_right && Tq != Tk",
};

// The last query always stands at the last key.
struct DiagonalAlwaysBottomRight : OptionHooks {
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    if (whole.top_left) {
      member->diagonal = member->keys - member->queries;
    }
  }
};
QKVET_FAULT(diagonal_always_bottom_right) = {
    .kernel = option_fault<DiagonalAlwaysBottomRight>,
    .mechanism =
        "the last query stands at the last key where the first one was asked "
        "to stand at the first",
    .symptom =
        "right for square calls; with more keys than rows every row sees later "
        "ones, with fewer it misses some",
    .cause = "one of two alignments is written, and both flags lead to it",
    .fix = "keep the alignment until the mask is made, or refuse the other one",
    .source = "microsoft/onnxruntime#29020, ml-explore/mlx#2835",
    .trigger = "causal from the top left, and Tq other than Tk",
    .killed_by = {"every_pair_is_seen_as_asked", "every_key_counts_once",
                  "agrees_with_oracle"},
    .when = "top_left && Tq != Tk",
};

// The diagonal is found once for two rows.
struct CausalOncePerTwoRows : OptionHooks {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    const Run run = call.in_reach(call.causal ? i - i % half_tile() : i);
    return run.begin <= j && j < run.end;
  }
};
QKVET_FAULT(causal_once_per_two_rows) = {
    .kernel = option_fault<CausalOncePerTwoRows>,
    .mechanism = "two rows share the diagonal of the first one",
    .symptom = "every second row misses its own key",
    .cause =
        "the limit of a tile of rows is computed for its first row and used "
        "for all",
    .fix = "one limit a row, or a mask within the tiles that the diagonal cuts",
    .source = "textbook (causal limits of a tile of rows)",
    .trigger = "causal, a second row, and its key inside of Tk",
    .killed_by = {"every_pair_is_seen_as_asked", "every_key_counts_once",
                  "chunks_equal_whole", "prefill_equals_decode",
                  "agrees_with_oracle"},
    .when = "causal && rows(row % 2 == 1 && seen > 0)",
    .tiled = true,
};

// Two rows share the diagonal of the second one.
struct CausalGroupTakesLastRow : OptionHooks {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    const int64_t last =
        std::min(i - i % half_tile() + half_tile(), call.queries) - 1;
    return j < call.visible(call.causal ? last : i);
  }
};
QKVET_FAULT(causal_group_takes_last_row) = {
    .kernel = option_fault<CausalGroupTakesLastRow>,
    .mechanism = "two rows share the diagonal of the second one",
    .symptom = "every other row sees one key of the future",
    .cause =
        "what is asked of one row of a group is taken for the answer of all",
    .fix =
        "ask for each row, or for the first row whether a mask is needed at "
        "all",
    .source = "pytorch/pytorch#195910",
    .trigger =
        "causal, and a row before the last of its pair that has a key ahead of "
        "it",
    .killed_by = {"future_changes_nothing", "future_weights_are_zero",
                  "every_pair_is_seen_as_asked", "prefill_equals_decode",
                  "agrees_with_oracle"},
    .when = "causal && rows(row % 2 == 0 && row + 1 < queries && hidden > 0)",
    .tiled = true,
};

// The causal rule is lost where dv is not d.
struct CausalLostWithOtherValueWidth : OptionHooks {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    return call.width != call.value_width || OptionHooks::in_reach(call, i, j);
  }
};
QKVET_FAULT(causal_lost_with_other_value_width) = {
    .kernel = option_fault<CausalLostWithOtherValueWidth>,
    .mechanism = "the path for dv other than d knows no causal rule",
    .symptom = "right for all models but those whose values have another width",
    .cause = "a general path that was written before masks were",
    .fix = "every path takes every option, or says that it does not",
    .source = "textbook (fallback paths)",
    .trigger = "causal, and dv other than d",
    .killed_by = {"future_weights_are_zero", "future_changes_nothing",
                  "prefill_equals_decode", "agrees_with_oracle"},
    .when = "causal && d != dv && rows(hidden > 0)",
};

// The causal rule is lost where pairs of keys fit.
struct CausalLostWhenTilesDivide : OptionHooks {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    return call.keys % half_tile() == 0 || OptionHooks::in_reach(call, i, j);
  }
};
QKVET_FAULT(causal_lost_when_tiles_divide) = {
    .kernel = option_fault<CausalLostWhenTilesDivide>,
    .mechanism =
        "only the tile with a rest is masked: without a rest nothing is",
    .symptom =
        "right for odd lengths; where the last tile is full every row sees the "
        "future",
    .cause =
        "one predicate for the end of the keys and for the diagonal, dropped "
        "where the first is always true",
    .fix = "mask by the diagonal whether there is a rest or not",
    .source = "textbook (predicates of a tile)",
    .trigger = "causal, and an even Tk, the tile being 2",
    .killed_by = {"future_weights_are_zero", "future_changes_nothing",
                  "prefill_equals_decode", "chunks_equal_whole",
                  "agrees_with_oracle"},
    .when = "causal && Tk % 2 == 0 && rows(hidden > 0)",
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

// The first key of a tile stands for all of it.
struct SegmentOfTile : RightFields {
  static bool segment(const ForwardCall&, const FieldMasks& f, int64_t of,
                      int64_t row, int64_t key) {
    return f.in_segment(of, row, key / half_tile() * half_tile());
  }
};
QKVET_FAULT(segment_of_tile) = {
    .kernel = option_fault<WrongFields<SegmentOfTile>, QKVET_OPTION_SEGMENTS>,
    .mechanism =
        "the segment of the first key of a tile is that of all its "
        "keys",
    .symptom =
        "right where documents begin at multiples of the tile; else the end of "
        "one document is seen by the next",
    .cause = "the test that skips whole tiles decides for single keys, too",
    .fix = "compare the segment of each key in tiles that hold two",
    .source = "textbook (tiles that are skipped)",
    .trigger = "segments, and a tile that holds two of them",
    .killed_by = {"segments_equal_sequences", "mask_fields_equal_rows_alone",
                  "every_pair_is_seen_as_asked", "agrees_with_oracle"},
    .when = "rows(border > 0)",
};

// One list for both.
struct SegmentOfRows : RightFields {
  static bool segment(const ForwardCall& call, const FieldMasks& f, int64_t of,
                      int64_t row, int64_t key) {
    if (!f.segments_q.present()) {
      return true;
    }
    const int64_t own = f.segments_q.get(of, row, 0);
    const int64_t at = std::min(key, call.queries - 1);
    return own >= 0 && own == f.segments_q.get(of, at, 0);
  }
};
QKVET_FAULT(segment_of_key_in_list_of_rows) = {
    .kernel = option_fault<WrongFields<SegmentOfRows>, QKVET_OPTION_SEGMENTS>,
    .mechanism = "the segment of a key is looked up in the list of the rows",
    .symptom = "right in self-attention, where both lists are the same",
    .cause = "segments_q is passed for both",
    .fix = "take segments_k for the keys",
    .source = "textbook, cf. vllm-project/vllm-omni#5865",
    .trigger = "segments, and other lists for rows and keys",
    .killed_by = {"segments_equal_sequences", "mask_fields_equal_rows_alone",
                  "every_pair_is_seen_as_asked", "agrees_with_oracle"},
    .when = "segments",
};

// Padding is a document like any other.
struct PaddingIsASegment : RightFields {
  static bool segment(const ForwardCall&, const FieldMasks& f, int64_t of,
                      int64_t row, int64_t key) {
    return !f.segments_q.present() ||
           f.segments_q.get(of, row, 0) == f.segments_k.get(of, key, 0);
  }
};
QKVET_FAULT(padding_is_a_segment) = {
    .kernel =
        option_fault<WrongFields<PaddingIsASegment>, QKVET_OPTION_SEGMENTS>,
    .mechanism = "rows of padding see keys of padding",
    .symptom = "numbers in rows that are declared to be 0",
    .cause = "numbers of segments are compared, and none is asked for its sign",
    .fix = "a number below 0 is no segment",
    .source = "AI-Hypercomputer/maxtext#4908",
    .trigger = "a number below 0 of a row and of a key",
    .killed_by = {"agrees_with_oracle"},
    .when = "rows(padding)",
};

// Half of a number.
struct SegmentIn32Bits : RightFields {
  static bool segment(const ForwardCall&, const FieldMasks& f, int64_t of,
                      int64_t row, int64_t key) {
    if (!f.segments_q.present()) {
      return true;
    }
    const auto own = static_cast<int32_t>(f.segments_q.get(of, row, 0));
    return own >= 0 &&
           own == static_cast<int32_t>(f.segments_k.get(of, key, 0));
  }
};
QKVET_FAULT(segment_in_32_bits) = {
    .kernel = option_fault<WrongFields<SegmentIn32Bits>, QKVET_OPTION_SEGMENTS>,
    .mechanism = "of numbers of segments in 64 bits the lower half is compared",
    .symptom =
        "documents whose numbers are hashes, or count the whole corpus, "
        "meet now and then",
    .cause = "int64 numbers are read as int32",
    .fix = "read them in their own type, or refuse it",
    .source = "textbook (narrowed indices)",
    .trigger = "two numbers with the same lower half",
    .killed_by = {"segments_equal_sequences", "mask_fields_equal_rows_alone",
                  "rest_of_mask_fields_changes_nothing", "agrees_with_oracle"},
    .when = "segments.wide && rows(alike > 0)",
};

constexpr uint64_t kRanges = QKVET_OPTION_FULL_RANGES | QKVET_OPTION_WINDOW;

// A custom mask takes the place of all others.
struct RangesDropWindow : RightFields {
  static bool range(const FieldMasks& f, int64_t of, int64_t row, int64_t key) {
    const int64_t position = row + f.diagonal;
    return f.ranges == 0 || f.in_past(position, key) ||
           f.share_range(of, position, key);
  }
};
QKVET_FAULT(ranges_switch_window_off) = {
    .kernel = option_fault<WrongFields<RangesDropWindow>, kRanges>,
    .mechanism = "a call with ranges has no window",
    .symptom = "texts with an image see all of the past in local layers, too",
    .cause =
        "the function of the mask is replaced by that of the ranges, and "
        "the window was a part of the former",
    .fix = "compose the two",
    .source = "vllm-project/vllm#47332",
    .trigger = "ranges, and a window that hides a key",
    .killed_by = {"mask_fields_equal_rows_alone", "every_pair_is_seen_as_asked",
                  "agrees_with_oracle"},
    .when = "ranges > 0 && window",
};

// The row's number in the call.
struct RangesCountRows : RightFields {
  static bool range(const FieldMasks& f, int64_t of, int64_t row, int64_t key) {
    const int64_t position = row + f.diagonal;
    return f.ranges == 0 ||
           (f.in_past(position, key) && f.in_window_of(position, key)) ||
           f.share_range(of, row, key);
  }
};
QKVET_FAULT(ranges_count_rows_from_zero) = {
    .kernel = option_fault<WrongFields<RangesCountRows>, kRanges>,
    .mechanism = "the number of a row is compared with ranges of positions",
    .symptom =
        "a prompt in one piece is right; the second chunk of one looks "
        "for its images at the beginning of the text",
    .cause = "the index of the query within the call stands for its position",
    .fix = "add the keys in front of the first row",
    .source = "vllm-project/vllm#47332, openvinotoolkit/openvino#36708",
    .trigger = "ranges, and a row that does not stand at its own number",
    .killed_by = {"mask_fields_equal_rows_alone",
                  "every_pair_is_seen_as_asked"},
    .when = "ranges > 0 && (causal || window) && rows(diagonal != row)",
};

// So many keys back, wherever the chunk begins.
struct ChunkFromRow : RightFields {
  static bool chunk(const FieldMasks& f, int64_t position, int64_t key) {
    return f.chunk <= 0 || (position - key < f.chunk && key <= position);
  }
};
QKVET_FAULT(chunk_counted_from_row) = {
    .kernel = option_fault<WrongFields<ChunkFromRow>,
                           QKVET_OPTION_CHUNK | QKVET_OPTION_MASK>,
    .mechanism = "a chunk is a sliding window of as many keys",
    .symptom =
        "the last row of each chunk is right, and texts shorter than "
        "a chunk",
    .cause = "chunked local attention is taken for sliding attention",
    .fix = "compare key / chunk with position / chunk",
    .source = "textbook, cf. ggml-org/llama.cpp#12791",
    .trigger = "a chunk, and a row that is not the last of its own",
    .killed_by = {"mask_fields_equal_masks", "mask_fields_equal_rows_alone",
                  "every_pair_is_seen_as_asked", "agrees_with_oracle"},
    .when = "rows(chunk > 0 && (diagonal + 1) % chunk != 0)",
};

// All that lies before a draft is taken for its history.
struct TreeBelowDiagonal : RightFields {
  static bool branch(const FieldMasks& f, int64_t of, int64_t row,
                     int64_t key) {
    return key - f.drafts < row || f.on_branch(of, row, key);
  }
};
QKVET_FAULT(tree_below_diagonal_not_asked) = {
    .kernel =
        option_fault<WrongFields<TreeBelowDiagonal>, QKVET_OPTION_TREE_MASK>,
    .mechanism = "drafts in front of a row are seen without a look at the tree",
    .symptom = "a chain of drafts is right; the second branch sees the first",
    .cause = "tiles below the diagonal skip the mask, as a causal one can",
    .fix = "ask the tree for each draft",
    .source = "PaddlePaddle/FastDeploy#3514",
    .trigger = "a tree with two branches",
    .killed_by = {"tree_paths_equal_sequences", "mask_fields_equal_rows_alone",
                  "every_pair_is_seen_as_asked", "agrees_with_oracle"},
    .when = "rows(aside > 0)",
};

// The draft beside it.
struct SiblingsSeeEachOther : RightFields {
  static bool branch(const FieldMasks& f, int64_t of, int64_t row,
                     int64_t key) {
    return f.on_branch(of, row, key) || (row > 0 && key - f.drafts == row - 1);
  }
};
QKVET_FAULT(tree_siblings_see_each_other) = {
    .kernel =
        option_fault<WrongFields<SiblingsSeeEachOther>, QKVET_OPTION_TREE_MASK>,
    .mechanism = "a draft sees the one beside it, which may be its sibling",
    .symptom = "accepted tokens are worse than without a tree, and no error",
    .cause = "the diagonal of the tree is wider by one",
    .fix = "a draft sees its ancestors and itself",
    .source = "textbook, cf. vllm-project/vllm#17560",
    .trigger = "a draft that does not follow the one before it",
    .killed_by = {"tree_paths_equal_sequences", "mask_fields_equal_rows_alone",
                  "every_pair_is_seen_as_asked", "agrees_with_oracle"},
    .when = "rows(aside > 0)",
};

// A chunk is kept in 32 bits.
struct ChunkInInt : RightFields {
  static bool chunk(const FieldMasks& f, int64_t position, int64_t key) {
    FieldMasks narrow = f;
    narrow.chunk = std::max<int64_t>(static_cast<int32_t>(f.chunk), 0);
    return narrow.in_chunk(position, key);
  }
};
QKVET_FAULT(chunk_kept_in_int) = {
    .kernel = option_fault<WrongFields<ChunkInInt>,
                           QKVET_OPTION_CHUNK | QKVET_OPTION_MASK>,
    .mechanism = "the size of a chunk is cut to 32 bits",
    .symptom =
        "right for every model; one chunk for all, said by a number beyond "
        "2^32, becomes many small ones",
    .cause = "a parameter of type int for a field of 64 bits",
    .fix = "keep it in 64 bits",
    .source = "textbook (narrowing)",
    .trigger = "a chunk of 2^32 or more that leaves a small number",
    .killed_by = {"mask_fields_equal_masks", "every_pair_is_seen_as_asked"},
    .when = "chunk > 2147483647",
};

}  // namespace qkvet::impl
