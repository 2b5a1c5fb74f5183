// SPDX-License-Identifier: Apache-2.0
// Faults of gradients: forward is right. First what the formula lacks, then
// heads, then rows, tiles and orders.
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>

#include "impl/faulty/kernels.h"
#include "impl/skeletons/tile.h"

namespace qkvet::impl {

// The gradient of the softmax lacks its row correction.
struct BackwardDeltaMissing : PlainBackward {
  static float from_weight(float p, float dp, float /*delta*/) {
    return p * dp;
  }
};
QKVET_FAULT(backward_delta_missing) = {
    .kernel = backward_fault<BackwardDeltaMissing>,
    .mechanism = "ds = p dp, without what all weights of a row share",
    .symptom =
        "dq and dk are wrong, dv is right; a number added to all scores of a "
        "row changes the loss",
    .cause = "the Jacobian of the softmax is taken for a diagonal matrix",
    .fix = "subtract the sum of do o from dp, row by row",
    .source = "textbook",
    .trigger = "rows whose sum of do o is not 0",
    .killed_by = {"backward_is_the_adjoint", "backward_agrees_with_oracle"},
    .when = "",
};

// dk is not multiplied by the scale.
struct BackwardKeyScaleMissing : PlainBackward {
  static float key_scale(const ForwardCall&) { return 1; }
};
QKVET_FAULT(backward_key_scale_missing) = {
    .kernel = backward_fault<BackwardKeyScaleMissing>,
    .mechanism = "dq is multiplied by the scale and dk is not",
    .symptom =
        "dk is too large by sqrt(d), which optimisers that normalise gradients "
        "hide",
    .cause =
        "one kernel folds the scale into q in front of the product, the other "
        "does not",
    .fix = "multiply dq and dk by the scale, each once",
    .source = "textbook, cf. Dao-AILab/flash-attention#2651",
    .trigger = "the scale is not 1",
    .killed_by = {"backward_is_the_adjoint", "backward_agrees_with_oracle"},
    .when = "!scale.is_one",
};

// The derivative of the softcap is left out.
struct BackwardSoftcapSlopeMissing : PlainBackward {
  static float slope(const ForwardCall&, float) { return 1; }
};
QKVET_FAULT(backward_softcap_slope_missing) = {
    .kernel = backward_fault<BackwardSoftcapSlopeMissing, QKVET_OPTION_SOFTCAP>,
    .mechanism =
        "dq and dk are those of scores without a softcap, at weights with one",
    .symptom =
        "right where scores are small; large scores get gradients that should "
        "vanish",
    .cause = "forward caps the scores, and backward knows of weights alone",
    .fix = "multiply ds by 1 - tanh^2",
    .source = "textbook",
    .trigger = "a softcap",
    .killed_by = {"backward_is_the_adjoint", "backward_agrees_with_oracle"},
    .when = "softcap",
};

// The gradient of a sink has the wrong sign.
struct BackwardSinkSign : PlainBackward {
  static float sink(float sink, float lse, float delta) {
    return -PlainBackward::sink(sink, lse, delta);
  }
};
QKVET_FAULT(backward_sink_sign) = {
    .kernel = backward_fault<BackwardSinkSign, QKVET_OPTION_SINK>,
    .mechanism =
        "d_sink is the sum of p_sink delta, and is to be the negative of it",
    .symptom =
        "sinks are learned away from where they help; dq, dk and dv are right",
    .cause = "a sink has no value, so that its dp is 0 and only -delta is left",
    .fix = "ds = p (dp - delta) with dp = 0",
    .source = "textbook",
    .trigger = "a sink",
    .killed_by = {"backward_is_the_adjoint", "backward_agrees_with_oracle"},
    .when = "sink",
};

// lse is natural and is taken for a logarithm of base 2.
struct BackwardLseTakenForBase2 : PlainBackward {
  static float weight(const ForwardCall&, int64_t, float score, float lse) {
    constexpr float kLog2E = 1.44269504f;
    return std::exp2(score * kLog2E - lse);
  }
};
QKVET_FAULT(backward_lse_taken_for_base_2) = {
    .kernel = backward_fault<BackwardLseTakenForBase2>,
    .mechanism =
        "p = exp2(score log2(e) - lse) with an lse that forward() gave to base "
        "e",
    .symptom =
        "every row has weights that do not sum to one; right where lse is 0",
    .cause = "one of two kernels changed its base",
    .fix = "take both to one base",
    .source = "textbook, cf. iree-org/iree#16679",
    .trigger = "rows whose lse is not 0",
    .killed_by = {"backward_is_the_adjoint", "backward_agrees_with_oracle"},
    .when = "",
};

// The weights of a single query are a quotient of exponentials.
struct BackwardLseExponentiatedAlone : PlainBackward {
  static float weight(const ForwardCall& call, int64_t i, float score,
                      float lse) {
    return call.queries == 1 ? std::exp(score) * std::exp(-lse)
                             : PlainBackward::weight(call, i, score, lse);
  }
};
QKVET_FAULT(backward_lse_exponentiated_alone) = {
    .kernel = backward_fault<BackwardLseExponentiatedAlone,
                             QKVET_OPTION_WINDOW | QKVET_OPTION_BIAS |
                                 QKVET_OPTION_ALIBI>,
    .mechanism =
        "for a single query p = exp(score) exp(-lse) in place of exp(score - "
        "lse)",
    .symptom =
        "all gradients of a decoding step are NaN where scores are far below "
        "0; forward is right",
    .cause = "the path for one query folds exp(-lse) into a factor of the row",
    .fix = "subtract in front of exp",
    .source = "NVIDIA/cudnn-frontend#1072, cf. pytorch/pytorch#196678",
    .trigger = "one query, and an lse beyond the range of exp",
    .killed_by = {"backward_agrees_with_oracle"},
    .when = "Tq == 1",
};

// Small gradients of scores are zero.
struct BackwardSmallGradientsFlushed : PlainBackward {
  static float from_weight(float p, float dp, float delta) {
    constexpr float kLeastNormalHalf = 0x1p-14f;
    const float ds = PlainBackward::from_weight(p, dp, delta);
    return std::abs(ds) < kLeastNormalHalf ? 0 : ds;
  }
};
QKVET_FAULT(backward_small_gradients_flushed) = {
    .kernel = backward_fault<BackwardSmallGradientsFlushed>,
    .mechanism = "ds below 2^-14 becomes 0",
    .symptom =
        "dq and dk vanish where the loss is not scaled up; dv is right, and so "
        "are they for dO of size 1",
    .cause =
        "ds is handed to the next product in half precision, whose subnormal "
        "numbers the unit flushes",
    .fix = "keep ds in f32 or bf16, or scale each row in front of the product",
    .source =
        "Micikevicius et al., Mixed Precision Training (2018), section 3.2",
    .trigger =
        "gradients of scores below 2^-14; those of a single key are 0 anyway",
    .killed_by = {"backward_is_linear_in_d_o", "backward_agrees_with_oracle"},
    .when = "Tk > 1",
};

// The causal rule is left out of the backward pass.
struct BackwardFutureKeysGetGradient : PlainBackward {
  static bool sees(const ForwardCall& call, int64_t, int64_t, int64_t,
                   int64_t j) {
    return j < call.keys;
  }
};
QKVET_FAULT(backward_future_keys_get_gradient) = {
    .kernel = backward_fault<BackwardFutureKeysGetGradient>,
    .mechanism =
        "weights are computed once more from lse, for all keys and not for "
        "those that a row sees",
    .symptom =
        "keys get gradients from rows in front of them; the loss falls and the "
        "model looks ahead",
    .cause = "the mask is applied in forward alone",
    .fix = "hide the same pairs in both passes",
    .source = "textbook",
    .trigger = "a causal row that does not see all keys",
    .killed_by = {"future_gradients_are_zero", "backward_agrees_with_oracle"},
    .when = "causal && rows(hidden > 0)",
};

// The mask is left out of the backward pass.
struct BackwardMaskForgotten : PlainBackward {
  static bool sees(const ForwardCall& call, int64_t, int64_t, int64_t i,
                   int64_t j) {
    const Run run = call.in_reach(i);
    return run.begin <= j && j < run.end;
  }
};
QKVET_FAULT(backward_mask_forgotten) = {
    .kernel = backward_fault<BackwardMaskForgotten, QKVET_OPTION_MASK>,
    .mechanism =
        "weights are computed once more from lse, and hidden pairs are not "
        "hidden again",
    .symptom = "keys that nobody sees get gradients",
    .cause = "the mask is not among what is kept for the backward pass",
    .fix = "hide the same pairs in both passes",
    .source = "textbook",
    .trigger = "a pair that a mask hides",
    .killed_by = {"backward_agrees_with_oracle"},
    .when = "mask && rows(hidden > 0)",
};

// ---- Lists of keys ----------------------------------------------------------
namespace {

constexpr uint64_t kListed = kListOptions | QKVET_OPTION_MASK;

// What a list does not say.
bool shown(const ForwardCall& call, int64_t b, int64_t h, int64_t i,
           int64_t j) {
  const Run run = call.in_reach(i);
  return run.begin <= j && j < run.end && call.options.shows(b, h, i, j);
}

}  // namespace

// The lists are left out of the backward pass.
struct BackwardListsForgotten : PlainBackward {
  static bool sees(const ForwardCall& call, int64_t b, int64_t h, int64_t i,
                   int64_t j) {
    return shown(call, b, h, i, j);
  }
};
QKVET_FAULT(backward_lists_forgotten) = {
    .kernel = backward_fault<BackwardListsForgotten, kListed>,
    .mechanism =
        "forward() is sparse, and the gradient is that of dense attention with "
        "the lse of the listed keys",
    .symptom =
        "keys that were never chosen get gradients, of weights that may be "
        "above 1",
    .cause =
        "the dense backward pass is used as it stands, and its lse fits no row",
    .fix = "walk the same keys in both passes",
    .source = "textbook (sparse training)",
    .trigger = "lists, and a key that is not listed",
    .killed_by = {"unlisted_keys_get_no_gradient", "gradient_lists_equal_masks",
                  "backward_agrees_with_oracle"},
    .when = "lists && rows(hidden > 0)",
};

// What stands behind topk_length gets its gradient.
struct BackwardRestOfLists : PlainBackward {
  static bool sees(const ForwardCall& call, int64_t b, int64_t h, int64_t i,
                   int64_t j) {
    KeyLists whole = call.options.lists;
    whole.counts = {};
    return shown(call, b, h, i, j) &&
           (!whole.present() || whole.has(b, h, i, j));
  }
};
QKVET_FAULT(backward_rest_of_lists_gets_gradient) = {
    .kernel = backward_fault<BackwardRestOfLists, kListed>,
    .mechanism =
        "forward() reads the first topk_length entries of a list, backward() "
        "all of them",
    .symptom =
        "right where every row has its full number of keys; short rows give to "
        "keys that stand behind the end of their list",
    .cause = "the lengths are not among what is kept for the backward pass",
    .fix = "end a list where forward() does",
    .source = "textbook (sparse training)",
    .trigger = "a list whose length is below its extent",
    .killed_by = {"gradient_lists_equal_masks", "backward_agrees_with_oracle"},
    .when = "lists.lengths && rows(hidden > 0)",
};

// Rows come two at a time, and the list is that of the first.
struct BackwardListOfFirstRow : PlainBackward {
  static bool sees(const ForwardCall& call, int64_t b, int64_t h, int64_t i,
                   int64_t j) {
    const KeyLists& lists = call.options.lists;
    return shown(call, b, h, i, j) &&
           (!lists.present() || lists.has(b, h, i - i % 2, j));
  }
};
QKVET_FAULT(backward_list_of_first_row) = {
    .kernel = backward_fault<BackwardListOfFirstRow, kListed>,
    .mechanism =
        "the rows of a tile of 2 add to the keys that the first of them has in "
        "its list",
    .symptom = "right for one row; others give to keys that they did not see",
    .cause = "keys are gathered once for a tile of rows",
    .fix = "gather the keys of all rows of a tile, and hide from each its own",
    .source = "textbook (sparse training)",
    .trigger = "lists, and two rows",
    .killed_by = {"gradient_lists_equal_masks", "backward_agrees_with_oracle"},
    .when = "lists && Tq > 1",
};

// The loop over a list ends one entry early.
struct BackwardLastOfListDropped : PlainBackward {
  static bool sees(const ForwardCall& call, int64_t b, int64_t h, int64_t i,
                   int64_t j) {
    const KeyLists& lists = call.options.lists;
    if (!shown(call, b, h, i, j)) return false;
    if (!lists.present()) return true;
    const int64_t last = lists.count(b, i) - 1;
    return lists.has(b, h, i, j) &&
           lists.entry(b, h, i, last) != (lists.j + j) / lists.block;
  }
};
QKVET_FAULT(backward_list_last_entry_dropped) = {
    .kernel = backward_fault<BackwardLastOfListDropped, kListed>,
    .mechanism =
        "forward() sees every entry of a list, and backward() ends before the "
        "last that counts",
    .symptom =
        "nothing to see where lists are sorted by score: what the last key "
        "gets is small",
    .cause = "a bound of a loop that is one too low",
    .fix = "all entries up to topk_length count, in both passes",
    .source = "textbook (bounds of loops)",
    .trigger = "a key as the last entry that counts",
    .killed_by = {"listed_order_changes_no_gradient",
                  "gradient_of_full_lists_is_dense",
                  "gradient_lists_equal_masks", "backward_agrees_with_oracle"},
    .when = "lists",
};

// dv of a query head goes to the key/value head h mod Hkv.
struct BackwardValuesOfOtherHead : PlainBackward {
  static int64_t value_head(const ForwardCall& call, int64_t h) {
    return h % call.kv_heads;
  }
};
QKVET_FAULT(backward_values_of_other_head) = {
    .kernel = backward_fault<BackwardValuesOfOtherHead>,
    .mechanism =
        "dv is summed over every Hkv-th query head in place of neighbours",
    .symptom = "dq and dk are right and dv belongs to other heads",
    .cause = "repeated heads are summed as if they had been tiled",
    .fix = "sum dv over the query heads of a group: h / group",
    .source = "textbook",
    .trigger = "grouped heads and two or more key/value heads",
    .killed_by = {"backward_heads_are_separate",
                  "permuted_heads_permute_gradients",
                  "backward_agrees_with_oracle"},
    .when = "1 < Hkv && Hkv < H",
};

// Gradients of grouped heads are found by the number of groups where it should
// be their size.
struct BackwardGroupIndexSquare : PlainBackward {
  // The slot of query head h among those that are summed, group by group.
  static int64_t key_head(const ForwardCall& call, int64_t h) {
    const int64_t group = call.group();
    const int64_t slot = h / group * call.kv_heads + h % group;
    return slot % call.heads / group;
  }
  static int64_t value_head(const ForwardCall& call, int64_t h) {
    return key_head(call, h);
  }
};
QKVET_FAULT(backward_group_index_square) = {
    .kernel = backward_fault<BackwardGroupIndexSquare>,
    .mechanism =
        "dk and dv of query head (kv, g) go to slot kv Hkv + g in place of kv "
        "group + g",
    .symptom =
        "gradients of one key/value head reach another; right with one head, "
        "and with as many groups as heads in each",
    .cause = "forward counts key/value heads where backward counts shares",
    .fix = "index by the size of a group in both passes",
    .source = "XunhaoLai/native-sparse-attention-triton#27",
    .trigger =
        "two or more key/value heads, not as many as query heads in each group",
    .killed_by = {"backward_heads_are_separate",
                  "permuted_heads_permute_gradients",
                  "backward_agrees_with_oracle"},
    .when = "Hkv > 1 && Hkv * Hkv != H",
};

// Only the last query head of a group is kept.
struct BackwardGroupKeepsLastHead {
  // In place of what the heads in front of it have added.
  static qkvet_status add(const BackwardPiece& piece, qkvet_context* context,
                          qkvet_text* why) {
    const ForwardCall& call = *piece.call;
    if (piece.first == 0) {
      set_all(piece.d_k, call.keys * call.width, 0);
      set_all(piece.d_v, call.keys * call.value_width, 0);
    }
    return BackwardRows<PlainBackward>::piece(piece, context, why);
  }
};
QKVET_FAULT(backward_group_keeps_last_head) = {
    .kernel = backward_fault<PlainBackward, 0, BackwardGroupKeepsLastHead::add>,
    .mechanism =
        "every query head writes dk and dv of its key/value head, and none "
        "adds to them",
    .symptom = "dk and dv are those of the last query head of a group",
    .cause =
        "code for one key/value head a query head, with an index that now "
        "repeats",
    .fix = "sum over the query heads of a group",
    .source = "textbook",
    .trigger = "grouped heads",
    .killed_by = {"backward_is_the_adjoint", "backward_agrees_with_oracle"},
    .when = "Hkv < H",
};

// The key behind the last whole tile of 2 is not walked.
struct BackwardLastKeysMissing : PlainBackward {
  static bool sees(const ForwardCall& call, int64_t b, int64_t h, int64_t i,
                   int64_t j) {
    return j < call.keys / half_tile() * half_tile() &&
           PlainBackward::sees(call, b, h, i, j);
  }
};
QKVET_FAULT(backward_last_keys_missing) = {
    .kernel = backward_fault<BackwardLastKeysMissing>,
    .mechanism =
        "one block of threads for every whole tile of 2 keys, and none for the "
        "rest",
    .symptom =
        "dk and dv of the last keys are 0, and dq lacks what they give; right "
        "for even numbers of keys",
    .cause = "the number of tiles is rounded down where forward() rounds it up",
    .fix = "as many tiles as hold all keys: (Tk + tile - 1) / tile",
    .source = "textbook",
    .trigger = "an odd number of keys",
    .killed_by = {"permuted_keys_permute_gradients", "backward_is_the_adjoint",
                  "backward_agrees_with_oracle"},
    .when = "Tk % 2 == 1",
    .tiled = true,
};

// One of two products takes the tiles of the other.
struct BackwardTileOfOtherProduct : PlainBackward {
  static int64_t value_columns(const ForwardCall& call) {
    const int64_t columns = (call.width + tile() - 1) / tile() * tile();
    return columns < call.value_width ? columns : call.value_width;
  }
};
QKVET_FAULT(backward_tile_of_other_product) = {
    .kernel = backward_fault<BackwardTileOfOtherProduct>,
    .mechanism = "dv is computed in as many tiles of 4 channels as dk has",
    .symptom =
        "the last channels of dv are 0; right wherever both heads have the "
        "same width",
    .cause = "two products share one description of tiles, made for the first",
    .fix = "describe the tiles of each product by its own extents",
    .source = "Dao-AILab/flash-attention#2035",
    .trigger = "dv of more tiles of 4 channels than d",
    .killed_by = {"backward_is_the_adjoint", "backward_agrees_with_oracle"},
    .when = "(d + 3) / 4 * 4 < dv",
    .tiled = true,
};

// Rows behind the length count with weight 0 times what lies there.
struct BackwardPaddingRowsReachKeys : PlainBackward {
  static int64_t rows(const ForwardCall& call, int64_t room) {
    const int64_t whole = (call.queries + tile() - 1) / tile() * tile();
    return whole < room ? whole : room;
  }
  static float weight(const ForwardCall& call, int64_t i, float score,
                      float lse) {
    const float p = PlainBackward::weight(call, i, score, lse);
    return i < call.queries ? p : 0 * p;
  }
};
QKVET_FAULT(backward_padding_rows_reach_keys) = {
    .kernel = backward_fault<BackwardPaddingRowsReachKeys,
                             QKVET_OPTION_LENGTHS | QKVET_OPTION_PACKED>,
    .mechanism =
        "the last tile of 4 rows is walked whole; weights of rows behind the "
        "length are multiplied by 0, and lse and delta are what lies there",
    .symptom =
        "dk and dv are NaN, if what forward() left behind the length was NaN; "
        "clean memory hides it",
    .cause = "0 times a number is taken for 0, and the memory for initialised",
    .fix = "do not walk rows that do not count, or select behind exp",
    .source = "tile-ai/tilelang#2461",
    .trigger = "a member whose rows are no multiple of 4, and rows behind it",
    .killed_by = {"backward_agrees_with_oracle"},
    .when = "q_len || packed",
    .tiled = true,
};

// Keys of a member without queries get what was in memory.
struct BackwardNoQueriesNan : PlainBackward {
  static float no_queries() { return std::numeric_limits<float>::quiet_NaN(); }
};
QKVET_FAULT(backward_no_queries_nan) = {
    .kernel = backward_fault<BackwardNoQueriesNan, QKVET_OPTION_EMPTY_EXTENTS |
                                                       QKVET_OPTION_LENGTHS |
                                                       QKVET_OPTION_PACKED>,
    .mechanism =
        "dk and dv of a member without queries are written from sums that "
        "nothing began",
    .symptom = "dk and dv are NaN and were to be 0",
    .cause =
        "the loop over queries clears the sums in its first step, and there is "
        "none",
    .fix = "clear the sums in front of the loop",
    .source = "Dao-AILab/flash-attention#2421",
    .trigger = "a member with keys and without queries",
    .killed_by = {"backward_agrees_with_oracle"},
    .when = "members(queries == 0 && keys > 0)",
};

// A row that was set to 0 has a gradient of NaN.
struct BackwardEmptyRowNan : PlainBackward {
  static float empty_row() { return std::numeric_limits<float>::quiet_NaN(); }
};
QKVET_FAULT(backward_empty_row_nan) = {
    .kernel = backward_fault<BackwardEmptyRowNan>,
    .mechanism =
        "the softmax of a row that sees no key is NaN and replaced by 0, its "
        "gradient is not",
    .symptom = "o is fine and dq of such rows is NaN",
    .cause =
        "NaN is repaired behind the softmax, and the gradient goes through it",
    .fix = "leave rows that see no key out of both passes",
    .source = "Xilinx/brevitas#1591",
    .trigger = "a row that sees no key",
    .killed_by = {"backward_agrees_with_oracle"},
    .when = "rows(seen == 0)",
};

// Rows are added in another order each time, also where the same bits are asked
// for.
struct BackwardOrderNotKept : PlainBackward {
  // Who comes first is as good as by chance.
  inline static std::atomic<uint32_t> arrivals = 0;

  static int64_t nth_row(int64_t n, int64_t rows) {
    if (n == 0) {
      ++arrivals;
    }
    constexpr uint32_t kMultiplier = 2654435761u;
    const uint32_t order = (arrivals * kMultiplier >> 16) % 3;
    return order == 0 ? n : order == 1 ? rows - 1 - n : (n + 1) % rows;
  }
};
QKVET_FAULT(backward_order_not_kept) = {
    .kernel = backward_fault<BackwardOrderNotKept>,
    .mechanism =
        "dk and dv are summed in the order in which rows arrive, and the flag "
        "for the same bits is not handed on",
    .symptom =
        "last bits of dk and dv differ between two runs of the same call",
    .cause = "the flag ends in the function that takes it",
    .fix = "hand the flag on, and sum in one order where it is set",
    .source = "Dao-AILab/flash-attention#746",
    .trigger = "three or more rows that add to one key",
    .killed_by = {"backward_same_call_same_bits"},
    .when = "Tq > 1 && Tq * H > 2 * Hkv",
};

// Rows of a gradient are written in whole lanes.
struct BackwardWritesWholeLanes : PlainBackward {
  static int64_t columns(int64_t width) {
    return (width + tile() - 1) / tile() * tile();
  }
};
QKVET_FAULT(backward_writes_whole_lanes) = {
    .kernel = backward_fault<BackwardWritesWholeLanes>,
    .mechanism =
        "each row is written 4 channels at a time, be they there or not",
    .symptom =
        "the next row repairs it, and behind the last one memory of somebody "
        "else is overwritten",
    .cause =
        "a library is told the width of its lanes in place of that of the "
        "matrix",
    .fix = "mask the last store, or write the rest channel by channel",
    .source = "pytorch/pytorch#156022",
    .trigger = "d or dv that is no multiple of 4",
    .killed_by = {"backward_reads_only_its_inputs"},
    .when = "d % 4 != 0 || dv % 4 != 0",
    .tiled = true,
};

// Rows of dv are stored in pieces as wide as those of dk.
struct BackwardStoreWidthOfOtherHead : PlainBackward {
  // The last piece is moved to the end of the row, and what it holds is not.
  static int64_t value_source(const ForwardCall& call, int64_t c) {
    const int64_t dv = call.value_width;
    const int64_t piece = call.width % 4 == 0 ? 4 : call.width % 2 == 0 ? 2 : 1;
    const int64_t rest = dv % piece, first = dv - piece;
    return dv > piece && first <= c && c < first + rest ? c + piece - rest : c;
  }
};
QKVET_FAULT(backward_store_width_of_other_head) = {
    .kernel = backward_fault<BackwardStoreWidthOfOtherHead>,
    .mechanism =
        "dv is stored in pieces of 4 or 2 channels, the most that divide d; "
        "the last one is moved to end with the row, and holds what belongs "
        "behind its begin",
    .symptom =
        "a few of the last channels of dv are those of others; right where the "
        "pieces divide dv",
    .cause = "the width of a store is chosen once, from the heads of q and k",
    .fix = "choose it for each tensor by its own width",
    .source = "Dao-AILab/flash-attention#2552",
    .trigger = "an even d, and a dv that its pieces do not divide",
    .killed_by = {"backward_is_the_adjoint", "backward_agrees_with_oracle"},
    .when =
        "(d % 4 == 0 && dv > 4 && dv % 4 != 0) || (d % 4 == 2 && dv > 2 && dv "
        "% 2 != 0)",
};

// ---- What earlier calls left ------------------------------------------------

// The gradient over lists of blocks is compiled once.
struct BackwardBlocksOfFirstCall : PlainBackward {
  static bool sees(const ForwardCall& call, int64_t b, int64_t h, int64_t i,
                   int64_t j) {
    if (!call.options.lists.present()) {
      return PlainBackward::sees(call, b, h, i, j);
    }
    thread_local std::map<std::array<int64_t, 3>, int64_t> compiled;
    ForwardCall known = call;
    int64_t& block = known.options.lists.block;
    block =
        compiled
            .try_emplace({call.heads, call.width, call.causal ? 1 : 0}, block)
            .first->second;
    return PlainBackward::sees(known, b, h, i, j);
  }
};
QKVET_FAULT(backward_blocks_of_first_call) = {
    .kernel = backward_fault<BackwardBlocksOfFirstCall, kListed>,
    .mechanism =
        "the gradient over lists of blocks has the size of block of the first "
        "call of the process with the same heads, width and causal rule",
    .symptom =
        "right for one model; a second one with larger blocks loses gradients "
        "of the keys at the end of each",
    .cause = "a compiled kernel whose key leaves an argument out",
    .fix = "put the size of a block into the key",
    .source = "Dao-AILab/flash-attention#2645",
    .trigger = "two calls with blocks of two sizes",
    .killed_by = {"backward_calls_before_change_nothing"},
    .when = "",
};

// ---- Outputs that may be absent
// ----------------------------------------------

namespace {

// The variant without d_bias is that of calls without a bias.
qkvet_status bias_lost_without_d_bias(const qkvet_kernel* self,
                                      qkvet_context* context,
                                      const qkvet_backward_args* args,
                                      const qkvet_exec* exec, qkvet_text* why) {
  qkvet_backward_args known = {};
  qkvet_forward_args call = {};
  qkvet_status status = read_struct(args, &known, why);
  if (status == QKVET_OK) {
    status = read_struct(known.forward, &call, why);
  }
  if (status != QKVET_OK) {
    return status;
  }
  if (known.d_bias.data == nullptr) {
    call.bias = {};
    known.forward = &call;
  }
  return kBackwardTable<PlainBackward>.backward(self, context, &known, exec,
                                                why);
}
inline constexpr qkvet_backward_table kBiasLostWithoutItsGradient =
    backward_table(bias_lost_without_d_bias);
constexpr qkvet_kernel bias_lost_fault(const char* name,
                                       const char* description, Place place) {
  return with_backward(
      option_fault<OptionHooks, QKVET_OPTION_BIAS>(name, description, place),
      &kBiasLostWithoutItsGradient);
}

}  // namespace

QKVET_FAULT(backward_bias_lost_without_d_bias) = {
    .kernel = bias_lost_fault,
    .mechanism = "backward() without d_bias leaves the bias out of the scores",
    .symptom = "right where the bias is trained, wrong where it is a constant",
    .cause =
        "one template argument says both that there is a bias and that "
        "its gradient is wanted",
    .fix = "two arguments: a bias, and its gradient",
    .source = "textbook",
    .trigger = "a bias, and no d_bias",
    .killed_by = {"backward_is_the_adjoint", "backward_agrees_with_oracle"},
    .when = "bias",
};

}  // namespace qkvet::impl
