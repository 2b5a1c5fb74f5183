// SPDX-License-Identifier: Apache-2.0
// Faults of tiles: their ends, hidden ones, and what is carried from one to the
// next.
#include <vector>

#include "impl/faulty/kernels.h"
#include "impl/skeletons/tile.h"

namespace qkvet::impl {

// The tail of the vector loop is missing.
struct TailTileLost : OptionHooks {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    const int64_t seen = call.visible(i);
    return j < seen - (seen >= half_tile() ? seen % half_tile() : 0);
  }
};
QKVET_FAULT(tail_tile_lost) = {
    .kernel = option_fault<TailTileLost>,
    .mechanism =
        "keys are taken two at a time, and one that is left over is lost",
    .symptom = "rows with an odd number of keys miss their last one",
    .cause = "a vector loop without the loop for the rest",
    .fix = "a scalar loop, or a masked vector, for the tail",
    .source = "textbook",
    .trigger = "a row that sees an odd number of keys, three or more",
    .killed_by = {"every_key_counts_once", "lse_counts_equal_keys",
                  "duplicated_keys_share_their_weight",
                  "split_and_merge_by_lse", "permuted_keys_change_nothing",
                  "agrees_with_oracle"},
    .when = "rows(seen > 2 && seen % 2 == 1)",
    .tiled = true,
};

// The step over keys was doubled, and the loop within it was not.
struct HalfOfEachStepSeen : OptionHooks {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    const bool is_left_out = call.queries > 1 && j % (2 * tile()) >= tile();
    return !is_left_out && OptionHooks::in_reach(call, i, j);
  }
};
QKVET_FAULT(half_of_each_step_seen) = {
    .kernel = option_fault<HalfOfEachStepSeen>,
    .mechanism =
        "of several queries, keys are passed in steps of eight, of which the "
        "first four are scored",
    .symptom =
        "right for up to four keys, and in decoding; else half of the keys "
        "are missing",
    .cause =
        "the width of a tile of scores written out beside the step that was "
        "changed",
    .fix = "one constant for the step and for what is done in it",
    .source = "microsoft/onnxruntime#28520",
    .trigger = "two queries, and a row that sees five keys",
    .killed_by = {"every_key_counts_once", "lse_counts_equal_keys",
                  "every_pair_is_seen_as_asked",
                  "duplicated_keys_share_their_weight", "agrees_with_oracle"},
    .when = "Tq > 1 && rows(seen > 4)",
    .tiled = true,
};

// The number of a row is taken for the answer whether it is there.
struct RowNumberTakenForCheck : PlainHooks {
  static qkvet_status compute(const ForwardCall& call, qkvet_text* why) {
    const qkvet_status status = HooksKernel<PlainHooks>::compute(call, why);
    if (status != QKVET_OK || call.queries <= half_tile()) {
      return status;
    }
    // Row 0 is loaded as zeros.
    ForwardCall zeros = call;
    zeros.scale = 0;
    std::vector<float> scratch(static_cast<size_t>(call.keys));
    for (int64_t b = 0; b < call.batch; ++b) {
      for (int64_t h = 0; h < call.heads; ++h) {
        HooksKernel<PlainHooks>::row(zeros, b, h, 0, scratch.data());
      }
    }
    return status;
  }
};
QKVET_FAULT(row_number_taken_for_check) = {
    .kernel = forward_fault<forward_in_f32<RowNumberTakenForCheck::compute>>,
    .mechanism =
        "a row is loaded where its number is not 0, and not where it is below "
        "the number of rows: row 0 is zeros",
    .symptom =
        "the first row is the mean of its values where more than two are asked",
    .cause = "a bounds check that has lost its comparison",
    .fix = "compare the number of the row with that of rows",
    .source = "ggml-org/llama.cpp#7904",
    .trigger =
        "three rows, of which the first sees two keys, or one key where lse is "
        "asked for",
    .killed_by = {"scale_is_one_over_sqrt_d", "query_heads_read_their_kv_head",
                  "agrees_with_oracle"},
    .when = "Tq > 2 && (Tk > 1 || (lse && Tk > 0))",
    .tiled = true,
};

// Zeros behind the last key count as keys.
struct TailTileUnmasked : OptionHooks {
  static float denominator(float sum, float max, int64_t seen) {
    const auto padding = static_cast<float>((tile() - seen % tile()) % tile());
    return sum + padding * std::exp(-max);
  }
};
QKVET_FAULT(tail_tile_unmasked) = {
    .kernel = option_fault<TailTileUnmasked>,
    .mechanism =
        "keys are padded with zeros to full tiles of four, and the padding "
        "enters the denominator",
    .symptom =
        "outputs too small where the number of keys is no multiple of the tile",
    .cause = "zero-filled lanes whose score, 0, is not replaced by -infinity",
    .fix = "set the scores of the padding to -infinity before exp",
    .source = "ggml-org/whisper.cpp#3941",
    .trigger = "a row that sees a number of keys that is no multiple of four",
    .killed_by = {"weights_sum_to_one", "every_key_counts_once",
                  "lse_counts_equal_keys", "shifted_keys_change_nothing",
                  "duplicated_keys_share_their_weight", "rows_stay_in_hull",
                  "agrees_with_oracle"},
    .when = "rows(seen % 4 != 0)",
    .tiled = true,
};

// The tail of the loop over rows is missing.
struct TailRowNotWritten : OptionHooks {
  static void share(int64_t, ForwardCall* call) {
    call->queries -=
        call->queries >= half_tile() ? call->queries % half_tile() : 0;
  }
};
QKVET_FAULT(tail_row_not_written) = {
    .kernel = option_fault<TailRowNotWritten>,
    .mechanism =
        "rows are taken two at a time, and one that is left over is not "
        "written",
    .symptom = "the last row is what the memory held before",
    .cause = "a loop over pairs of rows without the loop for the rest",
    .fix = "write every row",
    .source = "textbook",
    .trigger = "an odd number of rows, three or more",
    .killed_by = {"reads_only_its_inputs"},
    .when = "Tq > 2 && Tq % 2 == 1",
    .tiled = true,
};

// Channels behind the last full vector are lost.
struct TailChannelsLost : PlainHooks {
  static float key(const KeyHead& k, int64_t j, int64_t c) {
    const int64_t rest = k.width >= half_tile() ? k.width % half_tile() : 0;
    return c < k.width - rest ? k.at(j, c) : 0;
  }
};
QKVET_FAULT(tail_channels_lost) = {
    .kernel = plain_fault<TailChannelsLost>,
    .mechanism =
        "channels are taken two at a time, and one that is left over is lost",
    .symptom = "right for even widths; else scores miss their last product",
    .cause = "a loop over vectors without the loop for the rest",
    .fix = "a scalar loop, or a masked load, for the last channels",
    .source = "mlc-ai/mlc-llm#1889, openvinotoolkit/openvino#24627",
    .trigger = "an odd d, three or more",
    .killed_by = {"agrees_with_oracle"},
    .when = "d > 2 && d % 2 == 1",
    .tiled = true,
};

// Keys at the edges of tiles count twice.
struct KeyCountedTwice : OptionHooks {
  static float weight(const ForwardCall&, int64_t j, float weight) {
    return j > 0 && j % half_tile() == 0 ? 2 * weight : weight;
  }
};
QKVET_FAULT(key_counted_twice) = {
    .kernel = option_fault<KeyCountedTwice>,
    .mechanism =
        "tiles of two keys overlap: the first key of each but the first counts "
        "twice",
    .symptom = "a bias towards some positions that looks like noise",
    .cause = "an inclusive end of one tile that is the begin of the next",
    .fix = "half-open ranges of keys",
    .source = "textbook",
    .trigger = "a row that sees three keys or more",
    .killed_by = {"every_key_counts_once", "lse_counts_equal_keys",
                  "permuted_keys_change_nothing",
                  "duplicated_keys_share_their_weight",
                  "split_and_merge_by_lse", "agrees_with_oracle"},
    .when = "rows(seen > 2)",
    .tiled = true,
};

// One query for two rows.
struct QueryRowHeld : OptionHooks {
  static RowAt query(const ForwardCall&, RowAt at) {
    return {at.b, at.h, at.i - at.i % 2};
  }
};
QKVET_FAULT(query_row_held) = {
    .kernel = option_fault<QueryRowHeld>,
    .mechanism =
        "two rows at a time, both with the scores of the first one's query",
    .symptom = "every other row answers the question of its neighbour",
    .cause = "the query loaded once in front of a loop over two rows",
    .fix = "load the query inside of the loop over rows",
    .source = "textbook",
    .trigger = "Tq > 1 and two rows with different queries",
    .killed_by = {"other_rows_change_nothing", "agrees_with_oracle"},
    .when = "Tq > 1",
};

// Minus infinity is subtracted from itself in a hidden tile.
struct HiddenTileMinusItself : TiledHooks {
  static float reference(float max) { return max; }
};
QKVET_FAULT(hidden_tile_minus_itself) = {
    .kernel = tiled_fault<HiddenTileMinusItself,
                          QKVET_OPTION_MASK | QKVET_OPTION_WINDOW>,
    .mechanism =
        "in a hidden tile the maximum, -infinity, is subtracted from itself",
    .symptom =
        "NaN in rows whose first keys are hidden, though they see others",
    .cause =
        "the maximum of an online softmax is -infinity until a key is seen",
    .fix = "subtract 0 while the maximum is -infinity, or leave such tiles out",
    .source =
        "ggml-org/llama.cpp#6438, ggml-org/llama.cpp#12776, "
        "pytorch/pytorch#130014",
    .trigger = "a hidden tile in front of a key that is seen",
    .killed_by = {"every_pair_is_seen_as_asked", "agrees_with_oracle"},
    .when = "(mask || window) && rows(seen > 0 && hidden > 1)",
};

// A hidden first tile leaves 0 for the running maximum.
struct HiddenTileLeavesZero : TiledHooks {
  static float hidden_maximum() { return 0; }
};
QKVET_FAULT(hidden_tile_leaves_zero) = {
    .kernel = tiled_fault<HiddenTileLeavesZero,
                          QKVET_OPTION_MASK | QKVET_OPTION_WINDOW>,
    .mechanism =
        "the running maximum of a hidden tile is set to 0, to subtract "
        "nothing, and stays there",
    .symptom =
        "NaN or zeros in rows whose first keys are hidden and whose scores are "
        "far below 0",
    .cause = "what guards a difference of infinities is stored, not only used",
    .fix = "replace -infinity by 0 in the subtraction alone",
    .source = "Dao-AILab/flash-attention#2082",
    .trigger = "a hidden tile in front of keys with very negative scores",
    .killed_by = {"agrees_with_oracle"},
    .when = "(mask || window) && rows(seen > 0 && hidden > 0)",
};

// Sums of values stay as they are when the maximum grows.
struct AccumulatorNotRescaled : TiledHooks {
  static float rescaled(float sum, float) { return sum; }
};
QKVET_FAULT(accumulator_not_rescaled) = {
    .kernel = tiled_fault<AccumulatorNotRescaled>,
    .mechanism =
        "when a tile raises the maximum, the denominator is rescaled and the "
        "sum of values is not",
    .symptom =
        "right where the largest score comes first; else early values weigh "
        "too much",
    .cause = "one of two running sums is left out of the correction",
    .fix = "multiply both by exp(old maximum - new maximum)",
    .source = "textbook",
    .trigger = "a later tile with a larger score",
    .killed_by = {"weights_sum_to_one", "permuted_keys_change_nothing",
                  "agrees_with_oracle"},
    .when = "rows(seen > 2)",
};

}  // namespace qkvet::impl
