// SPDX-License-Identifier: Apache-2.0
// Faults of the causal rule: which keys a row sees, and where its diagonal
// lies.
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

}  // namespace qkvet::impl
