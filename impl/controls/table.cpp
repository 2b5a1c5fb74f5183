// SPDX-License-Identifier: Apache-2.0
// The table of correct arithmetics: a row is a control. Unset fields have the
// plainest value; the declaration of its author follows from the row
// (declared.h).
#include "impl/controls/control.h"

namespace qkvet::impl {

// ---- Orders of sums --------------------------------------------------------

QKVET_ARITHMETIC(naive, "sequential sums, maximum first, divided at the end")
// Exposes a judge that assumes ascending sums.
QKVET_ARITHMETIC(reversed, "all sums from the last term to the first",
                 .dot = Order::kDescending, .value = Order::kDescending)
QKVET_ARITHMETIC(pairwise, "sums by recursive halves, reciprocal times value",
                 .dot = Order::kHalves, .value = Order::kHalves,
                 .reciprocal = true)
QKVET_ARITHMETIC(lanes8, "q.k in eight lanes and a tree", .lanes = 8)
QKVET_ARITHMETIC(lanes8_fma, "eight fused lanes, reciprocal times value",
                 .lanes = 8, .fma = true, .reciprocal = true,
                 .alibi = Alibi::kDifference)
QKVET_ARITHMETIC(random_order, "all sums in a pseudo-random order",
                 .dot = Order::kShuffled, .value = Order::kShuffled)
QKVET_ARITHMETIC(halves_of_places, "halves that count hidden keys, too",
                 .dot = Order::kHalves, .value = Order::kHalves,
                 .sink = Sink::kAdded, .alibi = Alibi::kShift,
                 .bias = Bias::kFirst, .hidden = Hidden::kPlaced)

// ---- Tiles of an online softmax --------------------------------------------

// Tiles of fewer than 16 keys are looser than an undeclared kernel may be.
QKVET_ARITHMETIC(online1, "online softmax, a key at a time", .tile = 1,
                 .reciprocal = true, .bias = Bias::kFirst,
                 .hidden = Hidden::kPlaced)
QKVET_ARITHMETIC(online3, "online softmax, tiles of 3 keys", .tile = 3)
QKVET_ARITHMETIC(online4, "online softmax, tiles of 4 keys, four lanes",
                 .lanes = 4, .tile = 4, .tile_sum = true, .sink = Sink::kAdded,
                 .alibi = Alibi::kShift, .bias = Bias::kTogether,
                 .tanh = Tanh::kByExp)
QKVET_ARITHMETIC(online16, "online softmax, tiles of 16 keys", .tile = 16)
QKVET_ARITHMETIC(online16_fma, "online softmax, tiles of 16 keys, fused lanes",
                 .lanes = 8, .fma = true, .tile = 16, .tile_sum = true,
                 .sink = Sink::kLast)
QKVET_ARITHMETIC(online64, "online softmax, tiles of 64 keys", .tile = 64)
QKVET_ARITHMETIC(right_to_left, "online softmax from the last key to the first",
                 .value = Order::kDescending, .tile = 16)
// FlashAttention 4 saves most rescalings this way.
QKVET_ARITHMETIC(lazy_rescale, "online softmax, rescaled only when 2^8 behind",
                 .tile = 16, .lag = kLag)

// Scores of a tile are hidden only after its vote.
QKVET_ARITHMETIC(vote_before_mask, "rescaled when any score asks, be it hidden",
                 .tile = 16, .lag = kLag, .hidden = Hidden::kCleared,
                 .votes_before_mask = true)

// ---- Exponentials ----------------------------------------------------------

QKVET_ARITHMETIC(exp2_tile32, "exp2 of (s - m) * log2(e), tiles of 32 keys",
                 .exp = Exp::kBase2, .tile = 32)
// Kernels with a bias also multiply it by log2(e).
QKVET_ARITHMETIC(exp2_bias_first, "exp2, the scores begin with the bias",
                 .exp = Exp::kBase2, .tile = 64, .bias = Bias::kFirst)
QKVET_ARITHMETIC(exp2_tile8, "exp2 of (s - m) * log2(e), tiles of 8 keys",
                 .exp = Exp::kBase2, .tile = 8, .tile_sum = true,
                 .sink = Sink::kAdded, .alibi = Alibi::kDifference,
                 .bias = Bias::kTogether, .hidden = Hidden::kPlaced)
// As in GPU kernels.
QKVET_ARITHMETIC(folded_exp2,
                 "exp2 with the scale folded into its multiply-add",
                 .exp = Exp::kFolded,
                 .without = QKVET_OPTION_SOFTCAP | QKVET_OPTION_SINK |
                            QKVET_OPTION_ALIBI)
QKVET_ARITHMETIC(folded_tile4, "folded exp2, tiles of 4 keys, fused lanes",
                 .lanes = 8, .fma = true, .exp = Exp::kFolded, .tile = 4,
                 .tile_sum = true, .alibi = Alibi::kShift)
QKVET_ARITHMETIC(lazy_folded_tile2, "folded exp2, rescaled when 2^8 behind",
                 .exp = Exp::kFolded, .tile = 2, .lag = kLag,
                 .sink = Sink::kLast)
QKVET_ARITHMETIC(prescaled_q, "scale and log2(e) on q before the dot product",
                 .exp = Exp::kPrescaled)
QKVET_ARITHMETIC(prescaled_tile8, "scale and log2(e) on q, tiles of 8 keys",
                 .lanes = 8, .exp = Exp::kPrescaled, .tile = 8,
                 .tile_sum = true, .sink = Sink::kLast, .tanh = Tanh::kByExp,
                 .hidden = Hidden::kPlaced)
// As in PyTorch and the ONNX function.
QKVET_ARITHMETIC(root_scale, "the root of the scale on q and on k",
                 .root_scale = true)
QKVET_ARITHMETIC(poly_exp, "exp by a polynomial of degree 5",
                 .exp = Exp::kPolynomial)
QKVET_ARITHMETIC(flush_to_zero, "subnormal numbers flushed to zero",
                 .ftz = true, .f32_only = true)
QKVET_ARITHMETIC(ftz_tile4, "tiles of 4 keys, subnormal numbers flushed",
                 .tile = 4, .ftz = true, .sink = Sink::kAdded,
                 .bias = Bias::kFirst, .hidden = Hidden::kPlaced)

// Fast exponentials of CPU libraries are about as good; exp(0) is not 1.
QKVET_ARITHMETIC(coarse_exp, "exp by a polynomial of degree 3",
                 .exp = Exp::kCoarse)
QKVET_ARITHMETIC(coarse_exp_tile4, "the same in tiles of 4 keys",
                 .exp = Exp::kCoarse, .tile = 4, .sink = Sink::kLast)

// ---- Logarithms and tanh ---------------------------------------------------

// ln 1 is not 0, which a row of one key shows.
QKVET_ARITHMETIC(coarse_log, "logarithms by a polynomial of degree 3",
                 .log = Log::kCoarse)
// The logarithm here also weighs the parts.
QKVET_ARITHMETIC(coarse_log_split3_lse, "the same in parts merged by lse",
                 .parts = 3, .merge = Merge::kLse, .log = Log::kCoarse)
// The same error near 0 as far from it.
QKVET_ARITHMETIC(coarse_tanh, "tanh of an exponential of 14 bits",
                 .tanh = Tanh::kByCoarseExp)
QKVET_ARITHMETIC(f16_tanh, "tanh stored in f16", .tanh = Tanh::kInF16)

// ---- Products of half operands in f32 --------------------------------------

// As in oneDNN and OpenVINO for f32 where bf16 is allowed.
QKVET_ARITHMETIC(bf16_operands, "q, k, P and v rounded to bf16, sums in f32",
                 .p = P::kStorage, .operands = Storage::kBf16, .f32_only = true)
QKVET_ARITHMETIC(bf16_operands_scaled, "scaled q, k, divided P and v in bf16",
                 .scaled_q = true, .norm_first = true, .p = P::kNormalised,
                 .operands = Storage::kBf16, .f32_only = true)
QKVET_ARITHMETIC(f16_operands_tile16, "the same of f16, in tiles of 16 keys",
                 .scaled_q = true, .tile = 16, .p = P::kStorage,
                 .operands = Storage::kF16, .sink = Sink::kAdded,
                 .f32_only = true)

// ---- Scores in half --------------------------------------------------------

// Stored after the dot product, after the scale, and after each addition.
QKVET_ARITHMETIC(bf16_scores, "scores stored in bf16, softmax in f32",
                 .scores = Storage::kBf16)
// As in MLX and ONNX Runtime. q is scaled first, because q.k itself may
// overflow f16.
QKVET_ARITHMETIC(f16_scores, "scores and divided P in f16, scale on q",
                 .scaled_q = true, .norm_first = true, .p = P::kNormalised,
                 .p_type = Storage::kF16, .scores = Storage::kF16,
                 .sink = Sink::kLast)

// ---- A softmax in half ---------------------------------------------------

// As in NumPy with f16: every result is stored, sums are added in f32.
QKVET_ARITHMETIC(f16_softmax, "each result of the softmax in f16",
                 .norm_first = true, .scores = Storage::kF16,
                 .sinks = Storage::kF16, .softmax = Storage::kF16,
                 .sink = Sink::kLast)
QKVET_ARITHMETIC(bf16_softmax, "each result of the softmax in bf16",
                 .scores = Storage::kBf16, .sinks = Storage::kBf16,
                 .softmax = Storage::kBf16)
QKVET_ARITHMETIC(f16_softmax_tile8, "the same of f16, in tiles of 8 keys",
                 .tile = 8, .scores = Storage::kF16, .sinks = Storage::kF16,
                 .softmax = Storage::kF16)

// ---- Sums in half ----------------------------------------------------------

// As in ggml: P v beside a cache in f16 is added key by key, fused.
QKVET_ARITHMETIC(f16_value_sums, "P v kept in f16, online, a key at a time",
                 .fma = true, .tile = 1, .value_sums = Storage::kF16,
                 .sink = Sink::kAdded, .hidden = Hidden::kPlaced)
// As in half units of CPUs. q is scaled first, because sums of q.k itself may
// overflow f16.
QKVET_ARITHMETIC(f16_sums, "q.k and P v kept in f16, softmax in f32",
                 .scaled_q = true, .dot_sums = Storage::kF16,
                 .value_sums = Storage::kF16)
QKVET_ARITHMETIC(bf16_sums_tile4, "the same of bf16, in tiles of 4 keys",
                 .tile = 4, .dot_sums = Storage::kBf16,
                 .value_sums = Storage::kBf16, .sink = Sink::kLast)
QKVET_ARITHMETIC(f16_value_sums_mlo,
                 "P v kept in f16, from the last key, parts",
                 .value = Order::kDescending, .parts = 3, .merge = Merge::kMlo,
                 .value_sums = Storage::kF16)
// As in an array library of f16 without another type for sums.
QKVET_ARITHMETIC(f16_throughout, "each product, sum and result in f16",
                 .scaled_q = true, .norm_first = true, .scores = Storage::kF16,
                 .sinks = Storage::kF16, .softmax = Storage::kF16,
                 .dot_sums = Storage::kF16, .value_sums = Storage::kF16,
                 .totals = Storage::kF16, .sink = Sink::kLast)

// ---- Parts and the division ------------------------------------------------

// As in Flash-Decoding. Rows of one key leave the second part empty, most short
// rows leave some of seven.
QKVET_ARITHMETIC(split2_lse, "keys in 2 parts, merged by log-sum-exp",
                 .parts = 2, .merge = Merge::kLse)
QKVET_ARITHMETIC(split4_lse, "keys in 4 parts, descending, merged by lse",
                 .value = Order::kDescending, .parts = 4, .merge = Merge::kLse,
                 .alibi = Alibi::kShift, .bias = Bias::kTogether,
                 .hidden = Hidden::kPlaced)
QKVET_ARITHMETIC(split7_lse, "keys in 7 parts, merged by log-sum-exp",
                 .parts = 7, .merge = Merge::kLse)
QKVET_ARITHMETIC(split3_mlo, "keys in 3 parts, merged as (max, sum, o)",
                 .parts = 3, .merge = Merge::kMlo)
QKVET_ARITHMETIC(split4_mlo, "keys in 4 parts, descending, merged the same",
                 .value = Order::kDescending, .parts = 4, .merge = Merge::kMlo,
                 .sink = Sink::kAdded, .alibi = Alibi::kDifference)
QKVET_ARITHMETIC(norm_first, "weights are divided, and then meet the values",
                 .norm_first = true, .sink = Sink::kLast,
                 .alibi = Alibi::kDifference, .bias = Bias::kTogether,
                 .hidden = Hidden::kPlaced)

// ---- Options ---------------------------------------------------------------

QKVET_ARITHMETIC(bias_before_scale, "(q.k + bias / scale) * scale",
                 .bias = Bias::kFirstInDouble)
QKVET_ARITHMETIC(softcap_by_exp, "tanh as 1 - 2 / (exp(2 x) + 1)",
                 .tanh = Tanh::kByExpFromHalf)
QKVET_ARITHMETIC(alibi_by_position,
                 "ALiBi as a term of the key and one of the row",
                 .alibi = Alibi::kByPosition)
QKVET_ARITHMETIC(sink_last, "the sink joins after the last key",
                 .sink = Sink::kLast)
// NaN in k of a hidden key disappears, in v it does not.
QKVET_ARITHMETIC(mask_minus_inf, "scores of hidden keys are -infinity",
                 .hidden = Hidden::kReplaced)
QKVET_ARITHMETIC(select_after_exp,
                 "weights of hidden keys are cleared after exp",
                 .hidden = Hidden::kCleared)

// ---- Dialects: naive, but for one value ------------------------------------

// The value of 0 / 0.
QKVET_ARITHMETIC(dialect_empty_row_nan, "o of a row without keys is NaN",
                 .empty_row = QKVET_EMPTY_ROW_NAN)
QKVET_ARITHMETIC(dialect_empty_row_mean,
                 "o of a row without keys is the mean of v",
                 .empty_row = QKVET_EMPTY_ROW_MEAN)
// As in FlashAttention 2.
QKVET_ARITHMETIC(dialect_empty_lse_plus_inf,
                 "lse of a row without keys is +infinity",
                 .empty_row_lse = QKVET_EMPTY_LSE_PLUS_INF)
// The value of -infinity minus itself.
QKVET_ARITHMETIC(dialect_empty_lse_nan, "lse of a row without keys is NaN",
                 .empty_row_lse = QKVET_EMPTY_LSE_NAN)
QKVET_ARITHMETIC(dialect_lse_base2, "lse in base 2", .lse_base2 = true)
// ALiBi is not declared: it is open whether it counts as a bias here.
QKVET_ARITHMETIC(dialect_softcap_after_bias, "softcap of the biased score",
                 .softcap_last = true, .without = QKVET_OPTION_ALIBI)
QKVET_ARITHMETIC(dialect_sink_not_in_lse, "the sink does not count in lse",
                 .sink = Sink::kLast, .sink_in_lse = false)
// As a fast path of the causal rule beside a softmax over no keys.
QKVET_ARITHMETIC(dialect_empty_row_by_mask,
                 "a row without keys is NaN by a mask, else 0",
                 .empty_by_way = true)
// Reading them is not allowed: every call leaves other values.
QKVET_ARITHMETIC(dialect_empty_row_garbage, "a row without keys holds anything",
                 .empty_row = QKVET_EMPTY_ROW_UNSPECIFIED,
                 .empty_row_lse = QKVET_EMPTY_LSE_UNSPECIFIED)
QKVET_ARITHMETIC(dialect_nan_may_vanish, "a score of NaN weighs nothing",
                 .nan_weighs_nothing = true)

// The same without declarations: probes find the dialect.
QKVET_ARITHMETIC(says_nothing_of_softcap, "softcap of the biased score",
                 .softcap_last = true, .says_nothing = true,
                 .without = QKVET_OPTION_ALIBI)
QKVET_ARITHMETIC(says_nothing_of_sink, "the sink does not count in lse",
                 .sink = Sink::kLast, .sink_in_lse = false,
                 .says_nothing = true)
QKVET_ARITHMETIC(says_nothing_of_empty_rows,
                 "a row without keys is NaN by a mask, else 0",
                 .empty_by_way = true, .says_nothing = true)
// 0 / 0 without a sink, and with one just the plain loop.
QKVET_ARITHMETIC(sink_fills_empty_rows,
                 "the softmax of a row without keys is its sink",
                 .empty_row = QKVET_EMPTY_ROW_NAN, .sink_alone = true,
                 .says_nothing = true)
// Non-finite values in k or v of hidden keys reach the output, as NaN +
// -infinity and as 0 * infinity.
QKVET_ARITHMETIC(dialect_masked_nonfinite,
                 "hidden keys have a bias of -infinity",
                 .hidden = Hidden::kBiased)

// ---- Masks in a few numbers ------------------------------------------------

// The other dialect of ranges within a window.
QKVET_ARITHMETIC(ranges_in_window,
                 "a window cuts ranges that are seen both ways",
                 .ranges_in_window = true, .without = QKVET_OPTION_WEIGHTS,
                 .more = kFieldOptions, .f32_only = true)
// Most tiles contain pieces of several segments, chunks and branches, and many
// contain no visible key.
QKVET_ARITHMETIC(fields_by_fives,
                 "segments, ranges, chunks and trees in tiles of 5 keys",
                 .tile = 5, .hidden = Hidden::kPlaced,
                 .without = QKVET_OPTION_WEIGHTS, .more = kFieldOptions,
                 .f32_only = true)

// ---- Half storage ----------------------------------------------------------

// Only the output is rounded to it.
QKVET_ARITHMETIC(half_online64, "half storage, P in f32, tiles of 64 keys",
                 .tile = 64, .half_only = true)
// FlashAttention as in GPU kernels.
QKVET_ARITHMETIC(flash_p_rounded, "P rounded to the storage type, folded exp2",
                 .exp = Exp::kFolded, .tile = 64, .p = P::kStorage)
QKVET_ARITHMETIC(half_two_pass, "P rounded to the storage type, eight lanes",
                 .lanes = 8, .p = P::kStorage, .sink = Sink::kLast,
                 .alibi = Alibi::kShift, .hidden = Hidden::kPlaced)
QKVET_ARITHMETIC(half_tile4, "P rounded, tiles of 4 keys, fused", .fma = true,
                 .tile = 4, .tile_sum = true, .p = P::kStorage,
                 .sink = Sink::kLast, .alibi = Alibi::kDifference)
QKVET_ARITHMETIC(half_folded_tile16, "P rounded, folded exp2, fused lanes",
                 .lanes = 8, .fma = true, .exp = Exp::kFolded, .tile = 16,
                 .tile_sum = true, .p = P::kStorage, .alibi = Alibi::kShift,
                 .hidden = Hidden::kPlaced)
QKVET_ARITHMETIC(half_descending, "P rounded, all sums from the last term",
                 .dot = Order::kDescending, .value = Order::kDescending,
                 .p = P::kStorage, .sink = Sink::kAdded,
                 .alibi = Alibi::kDifference)
QKVET_ARITHMETIC(half_lazy_folded, "P rounded, rescaled when 2^8 behind",
                 .exp = Exp::kFolded, .tile = 2, .tile_sum = true, .lag = kLag,
                 .p = P::kStorage, .sink = Sink::kLast,
                 .hidden = Hidden::kPlaced)
QKVET_ARITHMETIC(half_split4_lse, "P rounded, 4 parts merged by lse",
                 .value = Order::kDescending, .parts = 4, .merge = Merge::kLse,
                 .p = P::kStorage, .bias = Bias::kTogether)
QKVET_ARITHMETIC(bf16_lse_and_sinks, "lse and sinks rounded to bf16",
                 .p = P::kStorage, .lse = Storage::kBf16,
                 .sinks = Storage::kBf16)
// The denominator adds the same rounded weights as P v.
QKVET_ARITHMETIC(bf16_sum_rounded,
                 "P rounded to bf16, denominator from rounded P",
                 .p = P::kSummed)
QKVET_ARITHMETIC(f16_sum_rounded,
                 "P rounded to f16, denominator from rounded P",
                 .p = P::kSummed, .p_type = Storage::kF16)
QKVET_ARITHMETIC(bf16_summed_tile2, "the same of bf16 in tiles of 2 keys",
                 .tile = 2, .tile_sum = true, .p = P::kSummed,
                 .sink = Sink::kAdded, .alibi = Alibi::kShift,
                 .tanh = Tanh::kByExp, .hidden = Hidden::kPlaced)
QKVET_ARITHMETIC(f16_summed_tile2, "the same of f16 in tiles of 2 keys",
                 .tile = 2, .tile_sum = true, .p = P::kSummed,
                 .p_type = Storage::kF16, .sink = Sink::kLast,
                 .bias = Bias::kFirst, .hidden = Hidden::kPlaced)
QKVET_ARITHMETIC(bf16_summed_prescaled, "the same of bf16, scale on q",
                 .lanes = 8, .exp = Exp::kPrescaled, .reciprocal = true,
                 .p = P::kSummed, .hidden = Hidden::kPlaced)
QKVET_ARITHMETIC(f16_summed_prescaled, "the same of f16, scale on q",
                 .lanes = 8, .exp = Exp::kPrescaled, .reciprocal = true,
                 .p = P::kSummed, .p_type = Storage::kF16, .sink = Sink::kAdded)
QKVET_ARITHMETIC(bf16_p_normalised, "P normalised, then rounded to bf16",
                 .norm_first = true, .p = P::kNormalised)
QKVET_ARITHMETIC(f16_p_normalised, "P normalised, then rounded to f16",
                 .norm_first = true, .p = P::kNormalised,
                 .p_type = Storage::kF16)

// ---- Devices ---------------------------------------------------------------

// Blocks with the sums of compute capability 8.0 and 9.0, functions some ulps
// off.
QKVET_ARITHMETIC(fast_functions, "functions of a device, tiles of 16 keys",
                 .fma = true, .exp = Exp::kFolded, .tile = 16, .tile_sum = true,
                 .ftz = true, .p = P::kStorage, .fast = true,
                 .hidden = Hidden::kPlaced)
QKVET_ARITHMETIC(blocks8, "sums in blocks of 8, P in f32", .exp = Exp::kFolded,
                 .block = 8, .extra_bits = 1, .fast = true, .half_only = true)
QKVET_ARITHMETIC(blocks16, "sums in blocks of 16, P in f32",
                 .exp = Exp::kFolded, .block = 16, .extra_bits = 2,
                 .fast = true, .sink = Sink::kLast, .hidden = Hidden::kPlaced,
                 .half_only = true)
QKVET_ARITHMETIC(blocks8_tile16, "blocks of 8, P rounded, tiles of 16 keys",
                 .exp = Exp::kFolded, .tile = 16, .ftz = true, .p = P::kStorage,
                 .block = 8, .extra_bits = 1, .fast = true, .sink = Sink::kLast,
                 .alibi = Alibi::kDifference, .tanh = Tanh::kByExp)
QKVET_ARITHMETIC(blocks16_tile32, "blocks of 16, P rounded, tiles of 32 keys",
                 .exp = Exp::kFolded, .tile = 32, .ftz = true, .p = P::kStorage,
                 .block = 16, .extra_bits = 2, .fast = true,
                 .sink = Sink::kAdded, .alibi = Alibi::kShift,
                 .tanh = Tanh::kByExp, .hidden = Hidden::kPlaced)
// With the rounding of CDNA 3's matrix cores (MMA-Sim, arXiv 2511.10909).
QKVET_ARITHMETIC(blocks8_down, "blocks of 8, cut towards minus infinity",
                 .exp = Exp::kFolded, .block = 8, .extra_bits = 1,
                 .cuts_down = true, .fast = true, .half_only = true)
QKVET_ARITHMETIC(blocks8_reciprocal, "blocks of 8, reciprocal times value",
                 .exp = Exp::kFolded, .tile = 16, .reciprocal = true,
                 .ftz = true, .p = P::kStorage, .block = 8, .extra_bits = 1,
                 .fast = true)

}  // namespace qkvet::impl
