// SPDX-License-Identifier: Apache-2.0
// Faults of tiles: their ends, hidden ones, and what is carried from one to the
// next.
#include <vector>

#include "impl/faulty/kernels.h"
#include "impl/skeletons/tile.h"

namespace qkvet::impl {

struct TailTileLost : OptionHooks {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    const int64_t seen = call.visible(i);
    return j < seen - (seen >= half_tile() ? seen % half_tile() : 0);
  }
};
QKVET_FAULT(tail_tile_lost, kOptionFault<TailTileLost>) = {
    .when = "rows(seen > 2 && seen % 2 == 1)",
    .cause = "keys are taken two at a time, and one that is left over is lost: "
             "the loop for the rest is missing",
    .fix = "a scalar loop, or a masked vector, for the tail",
    .killed_by = {"every_key_counts_once", "lse_counts_equal_keys"},
    .tiled = true,
};

struct HalfOfEachStepSeen : OptionHooks {
  static bool in_reach(const ForwardCall& call, int64_t i, int64_t j) {
    const bool is_left_out = call.queries > 1 && j % (2 * tile()) >= tile();
    return !is_left_out && OptionHooks::in_reach(call, i, j);
  }
};
QKVET_FAULT(half_of_each_step_seen, kOptionFault<HalfOfEachStepSeen>) = {
    .when = "Tq > 1 && rows(seen > 4)",
    .cause = "with several queries, keys are taken in steps of eight, and only "
             "the first four of each are scored",
    .fix = "use one constant for the step and for its tile of scores",
    .source = "microsoft/onnxruntime#28520",
    .killed_by = {"every_key_counts_once", "lse_counts_equal_keys"},
    .tiled = true,
};

struct RowNumberTakenForCheck : OptionHooks {
  static qkvet_status compute(const ForwardCall& call, qkvet_text* why) {
    QKVET_TRY(OptionsKernel<OptionHooks>::compute_whole(call, why));
    if (call.queries <= half_tile()) return QKVET_OK;
    // Row 0 is loaded as zeros.
    ForwardCall zeros = call;
    zeros.scale = 0;
    std::vector<float> scratch(static_cast<size_t>(call.keys));
    OptionRows<OptionHooks>::Memory memory = {scratch.data(), 0};
    for (int64_t b = 0; b < call.batch; ++b)
      for (int64_t h = 0; h < call.heads; ++h)
        OptionRows<OptionHooks>::row(zeros, {b, h, 0}, &memory);
    return QKVET_OK;
  }
};
QKVET_FAULT(row_number_taken_for_check,
            kForwardFault<forward_in_f32<RowNumberTakenForCheck::compute>>) = {
    .when = "Tq > 2 && (Tk > 1 || (lse && Tk > 0))",
    .cause = "a row is loaded if its number is not 0 instead of below the "
             "number of rows: row 0 is zeros",
    .fix = "compare the number of the row with that of rows",
    .source = "ggml-org/llama.cpp#7904",
    .killed_by = {"scale_is_one_over_sqrt_d", "query_heads_read_their_kv_head"},
    .tiled = true,
};

struct TailTileUnmasked : OptionHooks {
  static float denominator(float sum, float max, int64_t seen) {
    const auto padding = static_cast<float>((tile() - seen % tile()) % tile());
    return sum + padding * std::exp(-max);
  }
};
QKVET_FAULT(tail_tile_unmasked, kOptionFault<TailTileUnmasked>) = {
    .when = "rows(seen % 4 != 0)",
    .cause = "keys are padded with zeros to full tiles of four, and the "
             "padding enters the denominator",
    .fix = "set the scores of the padding to -infinity before exp",
    .source = "ggml-org/whisper.cpp#3941",
    .killed_by = {"weights_sum_to_one", "every_key_counts_once"},
    .tiled = true,
};

struct TailRowNotWritten : OptionHooks {
  static void share(int64_t, ForwardCall* call) {
    call->queries -=
        call->queries >= half_tile() ? call->queries % half_tile() : 0;
  }
};
QKVET_FAULT(tail_row_not_written, kOptionFault<TailRowNotWritten>) = {
    .when = "Tq > 2 && Tq % 2 == 1",
    .cause = "rows are taken two at a time, and one that is left over is not "
             "written: the loop for the rest is missing",
    .fix = "write every row",
    .killed_by = {"reads_only_its_inputs"},
    .tiled = true,
};

struct TailChannelsLost : OptionHooks {
  static float key(const KeyRow& k, int64_t c) {
    const int64_t width = k.call.width;
    const int64_t rest = width >= half_tile() ? width % half_tile() : 0;
    return c < width - rest ? k.at(c) : 0;
  }
};
QKVET_FAULT(tail_channels_lost, kPlainFault<TailChannelsLost>) = {
    .when = "d > 2 && d % 2 == 1",
    .cause = "channels are taken two at a time, and one that is left over is "
             "lost: the loop for the rest is missing",
    .fix = "a scalar loop, or a masked load, for the last channels",
    .source = "mlc-ai/mlc-llm#1889, openvinotoolkit/openvino#24627",
    .killed_by = {"agrees_with_oracle"},
    .tiled = true,
};

struct KeyCountedTwice : OptionHooks {
  static float weight(const ForwardCall&, int64_t j, float weight) {
    return j > 0 && j % half_tile() == 0 ? 2 * weight : weight;
  }
};
QKVET_FAULT(key_counted_twice, kOptionFault<KeyCountedTwice>) = {
    .when = "rows(seen > 2)",
    .cause = "tiles of two keys overlap: the inclusive end of one is the begin "
             "of the next, and that key counts twice",
    .fix = "half-open ranges of keys",
    .killed_by = {"every_key_counts_once",
                  "duplicated_keys_share_their_weight"},
    .tiled = true,
};

struct QueryRowHeld : OptionHooks {
  static RowAt query(const ForwardCall&, RowAt at) {
    return {at.b, at.h, at.i - at.i % 2};
  }
};
QKVET_FAULT(query_row_held, kOptionFault<QueryRowHeld>) = {
    .when = "Tq > 1",
    .cause = "rows are taken two at a time, both with the query of the first: "
             "it is loaded once before the loop",
    .fix = "load the query inside of the loop over rows",
    .killed_by = {"other_rows_change_nothing", "agrees_with_oracle"},
};

struct HiddenTileMinusItself : TiledHooks {
  static float reference(float max) { return max; }
};
QKVET_FAULT(hidden_tile_minus_itself,
            kTiledFault<HiddenTileMinusItself,
                        QKVET_OPTION_MASK | QKVET_OPTION_WINDOW>) = {
    .when = "(mask || window) && rows(seen > 0 && hidden > 1)",
    .cause =
        "in a hidden tile the maximum, -infinity, is subtracted from itself",
    .fix = "subtract 0 while the maximum is -infinity, or leave such tiles out",
    .source = "ggml-org/llama.cpp#6438, ggml-org/llama.cpp#12776, "
              "pytorch/pytorch#130014",
    .killed_by = {"every_pair_is_seen_as_asked", "agrees_with_oracle"},
};

struct HiddenTileLeavesZero : TiledHooks {
  static float hidden_maximum() { return 0; }
};
QKVET_FAULT(hidden_tile_leaves_zero,
            kTiledFault<HiddenTileLeavesZero,
                        QKVET_OPTION_MASK | QKVET_OPTION_WINDOW>) = {
    .when = "(mask || window) && rows(seen > 0 && hidden > 0)",
    .cause = "the running maximum of a hidden tile is set to 0, to subtract "
             "nothing, and stays 0",
    .fix = "replace -infinity by 0 in the subtraction alone",
    .source = "Dao-AILab/flash-attention#2082",
    .killed_by = {"agrees_with_oracle"},
};

struct AccumulatorNotRescaled : TiledHooks {
  static float rescaled(float sum, float) { return sum; }
};
QKVET_FAULT(accumulator_not_rescaled, kTiledFault<AccumulatorNotRescaled>) = {
    .when = "rows(seen > 2)",
    .cause = "when a tile raises the maximum, the denominator is rescaled and "
             "the sum of values is not",
    .fix = "multiply both by exp(old maximum - new maximum)",
    .killed_by = {"weights_sum_to_one", "permuted_keys_change_nothing"},
};

}  // namespace qkvet::impl
