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

struct BackwardDeltaMissing : PlainBackward {
  static float from_weight(float p, float dp, float /*delta*/) {
    return p * dp;
  }
};
QKVET_FAULT(backward_delta_missing, kBackwardFault<BackwardDeltaMissing>) = {
    .cause = "ds = p dp, without the term that all weights of a row share: the "
             "Jacobian of the softmax is not diagonal",
    .fix = "subtract the sum of do o from dp, row by row",
    .killed_by = {"backward_is_the_adjoint", "backward_agrees_with_oracle"},
};

struct BackwardKeyScaleMissing : PlainBackward {
  static float key_scale(const ForwardCall&) { return 1; }
};
QKVET_FAULT(backward_key_scale_missing,
            kBackwardFault<BackwardKeyScaleMissing>) = {
    .when = "!scale.is_one",
    .cause = "dq is multiplied by the scale and dk is not: the scale is folded "
             "into q in one kernel alone",
    .fix = "multiply dq and dk by the scale, each once",
    .source = "textbook, cf. Dao-AILab/flash-attention#2651",
    .killed_by = {"backward_is_the_adjoint", "backward_agrees_with_oracle"},
};

struct BackwardSoftcapSlopeMissing : PlainBackward {
  static float slope(const ForwardCall&, float) { return 1; }
};
QKVET_FAULT(
    backward_softcap_slope_missing,
    kBackwardFault<BackwardSoftcapSlopeMissing, QKVET_OPTION_SOFTCAP>) = {
    .when = "softcap",
    .cause = "dq and dk are those of scores without a softcap, at weights with "
             "one: backward has the weights alone",
    .fix = "multiply ds by 1 - tanh^2",
    .killed_by = {"backward_is_the_adjoint", "backward_agrees_with_oracle"},
};

struct BackwardSinkSign : PlainBackward {
  static float sink(float sink, float lse, float delta) {
    return -PlainBackward::sink(sink, lse, delta);
  }
};
QKVET_FAULT(backward_sink_sign,
            kBackwardFault<BackwardSinkSign, QKVET_OPTION_SINK>) = {
    .when = "sink",
    .cause = "d_sink is the sum of p_sink delta instead of its negative",
    .fix = "ds = p (dp - delta) with dp = 0",
    .killed_by = {"backward_is_the_adjoint", "backward_agrees_with_oracle"},
};

struct BackwardLseTakenForBase2 : PlainBackward {
  static float weight(const ForwardCall&, int64_t, float score, float lse) {
    constexpr float kLog2E = 1.44269504f;
    return std::exp2(score * kLog2E - lse);
  }
};
QKVET_FAULT(backward_lse_taken_for_base_2,
            kBackwardFault<BackwardLseTakenForBase2>) = {
    .cause = "p = exp2(score log2(e) - lse) with an lse that forward() "
             "returned to base e: one kernel changed its base",
    .fix = "take both to one base",
    .source = "textbook, cf. iree-org/iree#16679",
    .killed_by = {"backward_is_the_adjoint", "backward_agrees_with_oracle"},
};

struct BackwardLseExponentiatedAlone : PlainBackward {
  static float weight(const ForwardCall& call, int64_t i, float score,
                      float lse) {
    return call.queries == 1 ? std::exp(score) * std::exp(-lse)
                             : PlainBackward::weight(call, i, score, lse);
  }
};
QKVET_FAULT(backward_lse_exponentiated_alone,
            kBackwardFault<BackwardLseExponentiatedAlone,
                           QKVET_OPTION_WINDOW | QKVET_OPTION_BIAS |
                               QKVET_OPTION_ALIBI>) = {
    .when = "Tq == 1",
    .cause = "for a single query p = exp(score) exp(-lse), which overflows, "
             "instead of exp(score - lse)",
    .fix = "subtract before exp",
    .source = "NVIDIA/cudnn-frontend#1072, cf. pytorch/pytorch#196678",
    .killed_by = {"backward_agrees_with_oracle"},
};

struct BackwardSmallGradientsFlushed : PlainBackward {
  static float from_weight(float p, float dp, float delta) {
    constexpr float kLeastNormalHalf = 0x1p-14f;
    const float ds = PlainBackward::from_weight(p, dp, delta);
    return std::abs(ds) < kLeastNormalHalf ? 0 : ds;
  }
};
QKVET_FAULT(backward_small_gradients_flushed,
            kBackwardFault<BackwardSmallGradientsFlushed>) = {
    .when = "Tk > 1",
    .cause = "ds below 2^-14 becomes 0: the next product takes half precision "
             "and flushes subnormal numbers",
    .fix = "keep ds in f32 or bf16, or scale each row before the product",
    .source =
        "Micikevicius et al., Mixed Precision Training (2018), section 3.2",
    .killed_by = {"backward_is_linear_in_d_o", "backward_agrees_with_oracle"},
};

struct BackwardFutureKeysGetGradient : PlainBackward {
  static bool sees(const ForwardCall& call, int64_t, int64_t, int64_t,
                   int64_t j) {
    return j < call.keys;
  }
};
QKVET_FAULT(backward_future_keys_get_gradient,
            kBackwardFault<BackwardFutureKeysGetGradient>) = {
    .when = "causal && rows(hidden > 0)",
    .cause = "weights are recomputed from lse for all keys instead of the "
             "visible ones: only forward applies the mask",
    .fix = "hide the same pairs in both passes",
    .killed_by = {"future_gradients_are_zero", "backward_agrees_with_oracle"},
};

struct BackwardMaskForgotten : PlainBackward {
  static bool sees(const ForwardCall& call, int64_t, int64_t, int64_t i,
                   int64_t j) {
    const Run run = call.in_reach(i);
    return run.begin <= j && j < run.end;
  }
};
QKVET_FAULT(backward_mask_forgotten,
            kBackwardFault<BackwardMaskForgotten, QKVET_OPTION_MASK>) = {
    .when = "mask && rows(hidden > 0)",
    .cause = "weights are recomputed from lse, and hidden pairs are not hidden "
             "again: the mask is not kept for backward",
    .fix = "hide the same pairs in both passes",
    .killed_by = {"backward_agrees_with_oracle"},
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

struct BackwardListsForgotten : PlainBackward {
  static bool sees(const ForwardCall& call, int64_t b, int64_t h, int64_t i,
                   int64_t j) {
    return shown(call, b, h, i, j);
  }
};
QKVET_FAULT(backward_lists_forgotten,
            kBackwardFault<BackwardListsForgotten, kListed>) = {
    .when = "lists && rows(hidden > 0)",
    .cause = "forward() is sparse, and the gradient is that of dense attention "
             "with the lse of the listed keys",
    .fix = "walk the same keys in both passes",
    .killed_by = {"unlisted_keys_get_no_gradient",
                  "gradient_lists_equal_masks"},
};

struct BackwardRestOfLists : PlainBackward {
  static bool sees(const ForwardCall& call, int64_t b, int64_t h, int64_t i,
                   int64_t j) {
    KeyLists whole = call.options.lists;
    whole.counts = {};
    return shown(call, b, h, i, j) &&
           (!whole.present() || whole.has(b, h, i, j));
  }
};
QKVET_FAULT(backward_rest_of_lists_gets_gradient,
            kBackwardFault<BackwardRestOfLists, kListed>) = {
    .when = "lists.lengths && rows(hidden > 0)",
    .cause = "forward() reads the first topk_length entries of a list, "
             "backward() all of them: the lengths are not kept",
    .fix = "end a list where forward() does",
    .killed_by = {"gradient_lists_equal_masks", "backward_agrees_with_oracle"},
};

struct BackwardListOfFirstRow : PlainBackward {
  static bool sees(const ForwardCall& call, int64_t b, int64_t h, int64_t i,
                   int64_t j) {
    const KeyLists& lists = call.options.lists;
    return shown(call, b, h, i, j) &&
           (!lists.present() || lists.has(b, h, i - i % 2, j));
  }
};
QKVET_FAULT(backward_list_of_first_row,
            kBackwardFault<BackwardListOfFirstRow, kListed>) = {
    .when = "lists && Tq > 1",
    .cause = "the rows of a tile of 2 add to the keys of the first row's list: "
             "keys are gathered once for a tile",
    .fix = "gather the keys of all rows of a tile, and hide from each its own",
    .killed_by = {"gradient_lists_equal_masks", "backward_agrees_with_oracle"},
};

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
QKVET_FAULT(backward_list_last_entry_dropped,
            kBackwardFault<BackwardLastOfListDropped, kListed>) = {
    .when = "lists",
    .cause = "forward() sees every entry of a list, and backward() ends before "
             "the last that counts",
    .fix = "all entries up to topk_length count, in both passes",
    .killed_by = {"listed_order_changes_no_gradient",
                  "gradient_of_full_lists_is_dense"},
};

struct BackwardValuesOfOtherHead : PlainBackward {
  static int64_t value_head(const ForwardCall& call, int64_t h) {
    return h % call.kv_heads;
  }
};
QKVET_FAULT(backward_values_of_other_head,
            kBackwardFault<BackwardValuesOfOtherHead>) = {
    .when = "1 < Hkv && Hkv < H",
    .cause = "dv is summed over every Hkv-th query head instead of neighbours: "
             "repeated heads are taken for tiled ones",
    .fix = "sum dv over the query heads of a group: h / group",
    .killed_by = {"backward_heads_are_separate",
                  "permuted_heads_permute_gradients"},
};

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
QKVET_FAULT(backward_group_index_square,
            kBackwardFault<BackwardGroupIndexSquare>) = {
    .when = "Hkv > 1 && Hkv * Hkv != H",
    .cause = "dk and dv of query head (kv, g) go to slot kv Hkv + g instead of "
             "kv group + g",
    .fix = "index by the size of a group in both passes",
    .source = "XunhaoLai/native-sparse-attention-triton#27",
    .killed_by = {"backward_heads_are_separate",
                  "permuted_heads_permute_gradients"},
};

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
QKVET_FAULT(
    backward_group_keeps_last_head,
    kBackwardFault<PlainBackward, 0, BackwardGroupKeepsLastHead::add>) = {
    .when = "Hkv < H",
    .cause = "query heads overwrite dk and dv of their key/value head instead "
             "of adding to them",
    .fix = "sum over the query heads of a group",
    .killed_by = {"backward_is_the_adjoint", "backward_agrees_with_oracle"},
};

struct BackwardLastKeysMissing : PlainBackward {
  static bool sees(const ForwardCall& call, int64_t b, int64_t h, int64_t i,
                   int64_t j) {
    return j < call.keys / half_tile() * half_tile() &&
           PlainBackward::sees(call, b, h, i, j);
  }
};
QKVET_FAULT(backward_last_keys_missing,
            kBackwardFault<BackwardLastKeysMissing>) = {
    .when = "Tk % 2 == 1",
    .cause = "there is one block of threads for every whole tile of 2 keys, "
             "and none for the rest: the number is rounded down",
    .fix = "as many tiles as hold all keys: (Tk + tile - 1) / tile",
    .killed_by = {"permuted_keys_permute_gradients", "backward_is_the_adjoint"},
    .tiled = true,
};

struct BackwardTileOfOtherProduct : PlainBackward {
  static int64_t value_columns(const ForwardCall& call) {
    const int64_t columns = (call.width + tile() - 1) / tile() * tile();
    return columns < call.value_width ? columns : call.value_width;
  }
};
QKVET_FAULT(backward_tile_of_other_product,
            kBackwardFault<BackwardTileOfOtherProduct>) = {
    .when = "(d + 3) / 4 * 4 < dv",
    .cause = "dv is computed in as many tiles of 4 channels as dk has: both "
             "products share one description",
    .fix = "describe the tiles of each product by its own extents",
    .source = "Dao-AILab/flash-attention#2035",
    .killed_by = {"backward_is_the_adjoint", "backward_agrees_with_oracle"},
    .tiled = true,
};

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
QKVET_FAULT(backward_padding_rows_reach_keys,
            kBackwardFault<BackwardPaddingRowsReachKeys,
                           QKVET_OPTION_LENGTHS | QKVET_OPTION_PACKED>) = {
    .when = "q_len || packed",
    .cause = "the last tile of 4 rows is walked whole: rows past the length "
             "have weight 0, which NaN in their memory survives",
    .fix = "skip rows past the length, or select after exp",
    .source = "tile-ai/tilelang#2461",
    .killed_by = {"backward_agrees_with_oracle"},
    .tiled = true,
};

struct BackwardNoQueriesNan : PlainBackward {
  static float no_queries() { return std::numeric_limits<float>::quiet_NaN(); }
};
QKVET_FAULT(backward_no_queries_nan,
            kBackwardFault<BackwardNoQueriesNan, QKVET_OPTION_EMPTY_EXTENTS |
                                                     QKVET_OPTION_LENGTHS |
                                                     QKVET_OPTION_PACKED>) = {
    .when = "members(queries == 0 && keys > 0)",
    .cause = "dk and dv of a batch element without queries are written from "
             "sums that the loop over queries never cleared",
    .fix = "clear the sums before the loop",
    .source = "Dao-AILab/flash-attention#2421",
    .killed_by = {"backward_agrees_with_oracle"},
};

struct BackwardEmptyRowNan : PlainBackward {
  static float empty_row() { return std::numeric_limits<float>::quiet_NaN(); }
};
QKVET_FAULT(backward_empty_row_nan, kBackwardFault<BackwardEmptyRowNan>) = {
    .when = "rows(seen == 0)",
    .cause = "the softmax of a row without a key is NaN and replaced by 0, its "
             "gradient is not",
    .fix = "leave rows that see no key out of both passes",
    .source = "Xilinx/brevitas#1591",
    .killed_by = {"backward_agrees_with_oracle"},
};

struct BackwardOrderNotKept : PlainBackward {
  // Who comes first is as good as by chance.
  inline static std::atomic<uint32_t> arrivals = 0;

  static int64_t nth_row(int64_t n, int64_t rows) {
    if (n == 0) ++arrivals;
    constexpr uint32_t kMultiplier = 2654435761u;
    const uint32_t order = (arrivals * kMultiplier >> 16) % 3;
    return order == 0 ? n : order == 1 ? rows - 1 - n : (n + 1) % rows;
  }
};
QKVET_FAULT(backward_order_not_kept, kBackwardFault<BackwardOrderNotKept>) = {
    .when = "Tq > 1 && Tq * H > 2 * Hkv",
    .cause = "dk and dv are summed in the order in which rows arrive: the flag "
             "for the same bits is not passed on",
    .fix = "pass the flag on, and sum in one order where it is set",
    .source = "Dao-AILab/flash-attention#746",
    .killed_by = {"backward_same_call_same_bits"},
};

struct BackwardWritesWholeLanes : PlainBackward {
  static int64_t columns(int64_t width) {
    return (width + tile() - 1) / tile() * tile();
  }
};
QKVET_FAULT(backward_writes_whole_lanes,
            kBackwardFault<BackwardWritesWholeLanes>) = {
    .when = "d % 4 != 0 || dv % 4 != 0",
    .cause = "each row is written 4 channels at a time, also past its end: the "
             "store is given the width of its lanes",
    .fix = "mask the last store, or write the rest channel by channel",
    .source = "pytorch/pytorch#156022",
    .killed_by = {"backward_reads_only_its_inputs"},
    .tiled = true,
};

struct BackwardStoreWidthOfOtherHead : PlainBackward {
  // The last piece is moved to the end of the row, and what it holds is not.
  static int64_t value_source(const ForwardCall& call, int64_t c) {
    const int64_t dv = call.value_width;
    const int64_t piece = call.width % 4 == 0 ? 4 : call.width % 2 == 0 ? 2 : 1;
    const int64_t rest = dv % piece, first = dv - piece;
    return dv > piece && first <= c && c < first + rest ? c + piece - rest : c;
  }
};
QKVET_FAULT(backward_store_width_of_other_head,
            kBackwardFault<BackwardStoreWidthOfOtherHead>) = {
    .when = "(d % 4 == 0 && dv > 4 && dv % 4 != 0) || (d % 4 == 2 && dv > 2 && "
            "dv % 2 != 0)",
    .cause = "dv is stored in pieces of 4 or 2 channels, the most that divide "
             "d, and its last piece is moved back with wrong content",
    .fix = "choose it for each tensor by its own width",
    .source = "Dao-AILab/flash-attention#2552",
    .killed_by = {"backward_is_the_adjoint", "backward_agrees_with_oracle"},
};

// ---- What earlier calls left ------------------------------------------------

struct BackwardBlocksOfFirstCall : PlainBackward {
  static bool sees(const ForwardCall& call, int64_t b, int64_t h, int64_t i,
                   int64_t j) {
    if (!call.options.lists.present())
      return PlainBackward::sees(call, b, h, i, j);
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
QKVET_FAULT(backward_blocks_of_first_call,
            kBackwardFault<BackwardBlocksOfFirstCall, kListed>) = {
    .cause =
        "the gradient over lists of blocks has the block size of the first "
        "call of the process with the same heads, width and causal rule",
    .fix = "put the size of a block into the key",
    .source = "Dao-AILab/flash-attention#2645",
    .killed_by = {"backward_calls_before_change_nothing"},
};

// ---- Outputs that may be absent ---------------------------------------------

namespace {

// The variant without d_bias is that of calls without a bias.
qkvet_status bias_lost_without_d_bias(const qkvet_kernel* self,
                                      qkvet_context* context,
                                      const qkvet_backward_args* args,
                                      const qkvet_exec* exec, qkvet_text* why) {
  qkvet_backward_args known = {};
  qkvet_forward_args call = {};
  QKVET_TRY(read_struct(args, &known, why));
  QKVET_TRY(read_struct(known.forward, &call, why));
  if (known.d_bias.data == nullptr) {
    call.bias = {};
    known.forward = &call;
  }
  return kBackwardTable<PlainBackward>.backward(self, context, &known, exec,
                                                why);
}
inline constexpr qkvet_backward_table kBiasLostWithoutItsGradient =
    backward_table(bias_lost_without_d_bias);

}  // namespace

QKVET_FAULT(backward_bias_lost_without_d_bias,
            with_backward(kOptionFault<OptionHooks, QKVET_OPTION_BIAS>,
                          &kBiasLostWithoutItsGradient)) = {
    .when = "bias",
    .cause = "without d_bias the bias is left out of the scores: one template "
             "argument stands for a bias and for the wish for its gradient",
    .fix = "two arguments: a bias, and its gradient",
    .killed_by = {"backward_is_the_adjoint", "backward_agrees_with_oracle"},
};

}  // namespace qkvet::impl
