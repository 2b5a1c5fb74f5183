// SPDX-License-Identifier: Apache-2.0
// Faults of rows that see nothing, and of calls without keys.
#include <csignal>
#include <cstdint>

#include "impl/faulty/kernels.h"
#include "impl/skeletons/tile.h"

namespace qkvet::impl {

// NaN where 0 is declared.
struct EmptyRowClaimedZero : OptionHooks {
  static float empty_row(const ForwardCall&, RowAt, int64_t) {
    return std::numeric_limits<float>::quiet_NaN();
  }
};
QKVET_FAULT(empty_row_claimed_zero) = {
    .kernel = option_fault<EmptyRowClaimedZero,
                           QKVET_OPTION_MASK | QKVET_OPTION_EMPTY_EXTENTS>,
    .mechanism = "a row without a key is NaN, and declared to be 0",
    .symptom = "NaN out of padding rows, and from there everywhere",
    .cause = "0 / 0, or the difference of two infinities",
    .fix = "write 0 where the sum is 0, or declare NaN",
    .source = "pytorch/pytorch#103749",
    .trigger = "a row that the mask hides altogether",
    .killed_by = {"rows_without_a_key_follow_the_dialect",
                  "empty_extents_are_legal", "weights_sum_to_one",
                  "every_key_counts_once", "agrees_with_oracle"},
    .when = "rows(seen == 0)",
};

// A row that sees nothing is the mean of all values.
struct EmptyRowIsMean : OptionHooks {
  static float empty_row(const ForwardCall& call, RowAt at, int64_t c) {
    const RowAt kv = kv_head(call, at);
    float sum = 0;
    for (int64_t j = 0; j < call.keys; ++j) {
      sum += call.v.at(kv.b, kv.h, j)[c * call.v.step[3]];
    }
    return sum / static_cast<float>(call.keys);
  }
};
QKVET_FAULT(empty_row_is_mean) = {
    .kernel = option_fault<EmptyRowIsMean, QKVET_OPTION_MASK>,
    .mechanism =
        "a row that sees nothing is the mean of all values, and declared to be "
        "0",
    .symptom = "padding rows carry a mixture of what they were not to see",
    .cause =
        "hidden scores are one large negative number, and their maximum is "
        "subtracted from it",
    .fix =
        "hide with -infinity and test for rows that see nothing, or declare "
        "the mean",
    .source = "pytorch/pytorch#110213, pytorch/pytorch#109517",
    .trigger = "a row that the mask hides altogether",
    .killed_by = {"rows_without_a_key_follow_the_dialect",
                  "agrees_with_oracle"},
    .when = "rows(seen == 0)",
};

// lse 0 where -infinity is declared.
struct EmptyLseClaimedMinusInf : OptionHooks {
  static float empty_lse() { return 0; }
};
QKVET_FAULT(empty_lse_claimed_minus_inf) = {
    .kernel = option_fault<EmptyLseClaimedMinusInf, QKVET_OPTION_MASK>,
    .mechanism =
        "lse of a row without a key is 0, and declared to be -infinity",
    .symptom = "a merge gives the empty part the weight of a key with score 0",
    .cause = "lse initialised to 0 and left there",
    .fix = "write -infinity",
    .source = "textbook, cf. Dao-AILab/flash-attention#978",
    .trigger = "a row that the mask hides altogether, and lse is asked for",
    .killed_by = {"rows_without_a_key_follow_the_dialect",
                  "agrees_with_oracle"},
    .when = "lse && rows(seen == 0)",
};

// lse of a row without a key is plus infinity.
struct EmptyLsePlusInf : OptionHooks {
  static float empty_lse() { return -kNone; }
};
QKVET_FAULT(empty_lse_plus_inf) = {
    .kernel = option_fault<EmptyLsePlusInf, QKVET_OPTION_MASK>,
    .mechanism =
        "lse of a row without a key is +infinity, and declared to be -infinity",
    .symptom =
        "a merge with such a part is NaN, or the part outweighs all others",
    .cause =
        "a value that suited the backward pass, where exp(score - lse) has to "
        "be 0",
    .fix =
        "-infinity for who merges; turn it round where the backward pass needs "
        "that",
    .source = "Dao-AILab/flash-attention#978",
    .trigger = "a row that the mask hides altogether, and lse is asked for",
    .killed_by = {"rows_without_a_key_follow_the_dialect",
                  "agrees_with_oracle"},
    .when = "lse && rows(seen == 0)",
};

// Rows that stand before the first key are skipped.
struct RowsBeforeFirstKeyNotWritten : OptionHooks {
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    if (!whole.causal || member->diagonal >= 0) {
      return;
    }
    const int64_t skipped = -member->diagonal;
    member->q.data = member->q.at(0, 0, skipped);
    member->o.data = member->o.at(0, 0, skipped);
    if (member->lse.data != nullptr) {
      member->lse.data = member->lse.at(0, 0, skipped);
    }
    member->queries -= skipped;
    member->diagonal = 0;
  }
};
QKVET_FAULT(rows_before_first_key_not_written) = {
    .kernel = option_fault<RowsBeforeFirstKeyNotWritten>,
    .mechanism = "rows that stand before the first key are not written",
    .symptom =
        "such rows are what the memory held before; only callers with more "
        "queries than keys have them",
    .cause =
        "the number of keys of such a row is negative, and what would write "
        "zeros is skipped with the loop",
    .fix = "write 0 and -infinity to every row that sees nothing",
    .source = "flashinfer-ai/flashinfer#1533",
    .trigger = "causal from the bottom right, and Tq > Tk",
    .killed_by = {"reads_only_its_inputs"},
    .when = "bottom_right && Tq > Tk",
};

// A call without keys returns at once.
struct NoKeysNothingWritten {
  static qkvet_status forward(const qkvet_kernel* self, qkvet_context* context,
                              const qkvet_forward_args* args,
                              const qkvet_exec* exec, qkvet_text* why) {
    ForwardCall call;
    const qkvet_status status = read_forward(self, args, &call, why);
    return status == QKVET_OK && call.keys == 0
               ? QKVET_OK
               : OptionsKernel<OptionHooks>::forward(self, context, args, exec,
                                                     why);
  }
};
QKVET_FAULT(no_keys_nothing_written) = {
    .kernel = forward_fault<NoKeysNothingWritten::forward,
                            &kF32With<QKVET_OPTION_EMPTY_EXTENTS>>,
    .mechanism =
        "without keys there seems to be nothing to do: o and lse stay as they "
        "were",
    .symptom =
        "rows of a sequence that has nothing cached yet are whatever the "
        "memory held",
    .cause =
        "work is counted in keys, and a count of 0 returns before the outputs "
        "are cleared",
    .fix = "o = 0 and lse = -inf are the result, so write them",
    .source = "textbook, cf. Dao-AILab/flash-attention#2470",
    .trigger = "Tk = 0, and a row",
    .killed_by = {"reads_only_its_inputs"},
    .when = "Tk == 0 && B > 0 && Tq > 0",
};

// Without keys there are no tiles to share.
struct DividedByNumberOfTiles : OptionHooks {
  static void member(const ForwardCall& whole, int64_t, ForwardCall*) {
    const int64_t tiles = (whole.keys + tile() - 1) / tile();
    shares() = quotient(whole.queries, tiles);
  }

 private:
  // To divide by 0 is undefined, x86 raises this signal and other machines go
  // on: raised here, so that it is the same fault on all.
  static int64_t quotient(int64_t a, int64_t b) {
    if (b == 0) {
      std::raise(SIGFPE);
      return 0;
    }
    return a / b;
  }
  static int64_t& shares() {
    thread_local int64_t count = 0;
    return count;
  }
};
QKVET_FAULT(divided_by_number_of_tiles) = {
    .kernel = option_fault<DividedByNumberOfTiles, QKVET_OPTION_EMPTY_EXTENTS>,
    .mechanism =
        "rows are shared out by dividing by the number of tiles of keys, which "
        "may be 0",
    .symptom =
        "the process dies in the first call of a sequence that has nothing "
        "cached yet",
    .cause =
        "the shares are worked out before it is seen that there is no work",
    .fix = "return before the first division if an extent is 0",
    .source =
        "pytorch/pytorch#191325, Dao-AILab/flash-attention#2470, "
        "Dao-AILab/flash-attention#2515",
    .trigger = "Tk = 0",
    .killed_by = {"empty_extents_are_legal"},
    .when = "Tk == 0",
    .tiled = true,
};

// The pair of a bias of -infinity is one like others.
inline bool allows_but_for_bias(const ForwardCall& call, int64_t b, int64_t h,
                                int64_t i, int64_t j) {
  Options others = call.options;
  others.bias = {};
  return others.allows(b, h, i, j);
}

struct BiasesOfMinusInfinity : OptionHooks {
  static bool allows(const ForwardCall& call, RowAt at, int64_t j) {
    return allows_but_for_bias(call, at.b, at.h, at.i, j);
  }
};
QKVET_FAULT(biases_of_minus_infinity) = {
    .kernel = option_fault<BiasesOfMinusInfinity,
                           QKVET_OPTION_BIAS | QKVET_OPTION_MASK>,
    .mechanism =
        "a bias of -infinity is added like any other: where all of a row are, "
        "the maximum is -infinity and the weights are exp(-inf + inf)",
    .symptom = "NaN in rows whose biases hide every key, and nowhere else",
    .cause =
        "masks are tested for rows without a key, and the additive form of a "
        "mask is not",
    .fix = "treat a row whose maximum is -infinity as one without a key",
    .source = "textbook, cf. pytorch/pytorch#103749",
    .trigger = "a row whose biases are all -infinity",
    .killed_by = {"rows_without_a_key_follow_the_dialect"},
    .when = "bias",
};

// The same in the gradient, where the lse is -infinity as well.
struct BackwardBiasesOfMinusInfinity : PlainBackward {
  static bool sees(const ForwardCall& call, int64_t b, int64_t h, int64_t i,
                   int64_t j) {
    const Run run = call.in_reach(i);
    return run.begin <= j && j < run.end &&
           allows_but_for_bias(call, b, h, i, j);
  }
};
QKVET_FAULT(backward_biases_of_minus_infinity) = {
    .kernel = backward_fault<BackwardBiasesOfMinusInfinity,
                             QKVET_OPTION_BIAS | QKVET_OPTION_MASK>,
    .mechanism =
        "the weights of a row are exp(score - lse), also where the biases and "
        "with them the lse are -infinity",
    .symptom = "one row without a key makes dk and dv of all keys NaN",
    .cause = "forward() tests for rows without a key, and backward() does not",
    .fix = "leave out rows whose lse is -infinity",
    .source = "textbook, cf. pytorch/pytorch#103749",
    .trigger = "a row whose biases are all -infinity",
    .killed_by = {"gradient_masks_equal_biases"},
    .when = "bias",
};

}  // namespace qkvet::impl
