// SPDX-License-Identifier: Apache-2.0
// Faults of rows that see nothing, and of calls without keys.
#include <csignal>
#include <cstdint>

#include "impl/faulty/kernels.h"
#include "impl/skeletons/tile.h"

namespace qkvet::impl {

struct EmptyRowClaimedZero : OptionHooks {
  static float empty_row(const ForwardCall&, RowAt, int64_t) {
    return std::numeric_limits<float>::quiet_NaN();
  }
};
QKVET_FAULT(empty_row_claimed_zero,
            kOptionFault<EmptyRowClaimedZero,
                         QKVET_OPTION_MASK | QKVET_OPTION_EMPTY_EXTENTS>) = {
    .when = "rows(seen == 0)",
    .cause = "a row without a key is NaN, and declared to be 0: 0 / 0, or the "
             "difference of two infinities",
    .fix = "write 0 where the sum is 0, or declare NaN",
    .source = "pytorch/pytorch#103749, ml-explore/mlx#2608, "
              "uxlfoundation/oneDNN#3113",
    .killed_by = {"rows_without_a_key_follow_the_dialect",
                  "empty_extents_are_legal"},
};

struct EmptyRowIsMean : OptionHooks {
  static float empty_row(const ForwardCall& call, RowAt at, int64_t c) {
    const RowAt kv = kv_head(call, at);
    float sum = 0;
    for (int64_t j = 0; j < call.keys; ++j)
      sum += call.v.at(kv.b, kv.h, j)[c * call.v.step[3]];
    return sum / static_cast<float>(call.keys);
  }
};
QKVET_FAULT(empty_row_is_mean,
            kOptionFault<EmptyRowIsMean, QKVET_OPTION_MASK>) = {
    .when = "rows(seen == 0)",
    .cause = "a row without a key is the mean of all values, and declared to "
             "be 0: hidden scores equal their finite maximum",
    .fix = "hide with -infinity and test for rows that see nothing, or declare "
           "the mean",
    .source = "pytorch/pytorch#110213, pytorch/pytorch#109517",
    .killed_by = {"rows_without_a_key_follow_the_dialect",
                  "agrees_with_oracle"},
};

struct EmptyLseClaimedMinusInf : OptionHooks {
  static float empty_lse() { return 0; }
};
QKVET_FAULT(empty_lse_claimed_minus_inf,
            kOptionFault<EmptyLseClaimedMinusInf, QKVET_OPTION_MASK>) = {
    .when = "lse && rows(seen == 0)",
    .cause = "lse of a row without a key is 0, its initial value, and declared "
             "to be -infinity",
    .fix = "write -infinity",
    .source = "textbook, cf. Dao-AILab/flash-attention#978",
    .killed_by = {"rows_without_a_key_follow_the_dialect",
                  "agrees_with_oracle"},
};

struct EmptyLsePlusInf : OptionHooks {
  static float empty_lse() { return -kNone; }
};
QKVET_FAULT(empty_lse_plus_inf,
            kOptionFault<EmptyLsePlusInf, QKVET_OPTION_MASK>) = {
    .when = "lse && rows(seen == 0)",
    .cause = "lse of a row without a key is +infinity, which suits backward, "
             "and declared to be -infinity",
    .fix = "return -infinity, and turn it round where the backward pass needs "
           "that",
    .source = "Dao-AILab/flash-attention#978",
    .killed_by = {"rows_without_a_key_follow_the_dialect",
                  "agrees_with_oracle"},
};

struct RowsBeforeFirstKeyNotWritten : OptionHooks {
  static void member(const ForwardCall& whole, int64_t, ForwardCall* member) {
    if (!whole.causal || member->diagonal >= 0) return;
    const int64_t skipped = -member->diagonal;
    member->q.data = member->q.at(0, 0, skipped);
    member->o.data = member->o.at(0, 0, skipped);
    if (member->lse.data != nullptr)
      member->lse.data = member->lse.at(0, 0, skipped);
    member->queries -= skipped;
    member->diagonal = 0;
  }
};
QKVET_FAULT(rows_before_first_key_not_written,
            kOptionFault<RowsBeforeFirstKeyNotWritten>) = {
    .when = "bottom_right && Tq > Tk",
    .cause = "rows before the first key are not written: their number of keys "
             "is negative, which skips the stores",
    .fix = "write 0 and -infinity to every row that sees nothing",
    .source = "flashinfer-ai/flashinfer#1533",
    .killed_by = {"reads_only_its_inputs"},
};

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
QKVET_FAULT(no_keys_nothing_written,
            kForwardFault<NoKeysNothingWritten::forward,
                          &kF32With<QKVET_OPTION_EMPTY_EXTENTS>>) = {
    .when = "Tk == 0 && B > 0 && Tq > 0",
    .cause = "without keys o and lse stay as they were: a count of 0 returns "
             "before the outputs are cleared",
    .fix = "o = 0 and lse = -inf are the result, so write them",
    .source = "textbook, cf. Dao-AILab/flash-attention#2470",
    .killed_by = {"reads_only_its_inputs"},
};

struct DividedByNumberOfTiles : OptionHooks {
  static void member(const ForwardCall& whole, int64_t, ForwardCall*) {
    const int64_t tiles = (whole.keys + tile() - 1) / tile();
    shares() = quotient(whole.queries, tiles);
  }
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
QKVET_FAULT(
    divided_by_number_of_tiles,
    kOptionFault<DividedByNumberOfTiles, QKVET_OPTION_EMPTY_EXTENTS>) = {
    .when = "Tk == 0",
    .cause = "rows are shared out by dividing by the number of tiles of keys, "
             "which may be 0",
    .fix = "return before the first division if an extent is 0",
    .source = "pytorch/pytorch#191325, Dao-AILab/flash-attention#2470, "
              "Dao-AILab/flash-attention#2515",
    .killed_by = {"empty_extents_are_legal"},
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
QKVET_FAULT(biases_of_minus_infinity,
            kOptionFault<BiasesOfMinusInfinity,
                         QKVET_OPTION_BIAS | QKVET_OPTION_MASK>) = {
    .when = "bias",
    .cause =
        "a bias of -infinity is added like any other: if all biases of a row "
        "are, the maximum is -infinity and the weights are exp(-inf + inf)",
    .fix = "treat a row whose maximum is -infinity as one without a key",
    .source = "textbook, cf. pytorch/pytorch#103749",
    .killed_by = {"rows_without_a_key_follow_the_dialect"},
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
QKVET_FAULT(backward_biases_of_minus_infinity,
            kBackwardFault<BackwardBiasesOfMinusInfinity,
                           QKVET_OPTION_BIAS | QKVET_OPTION_MASK>) = {
    .when = "bias",
    .cause = "the weights of a row are exp(score - lse), also if its biases, "
             "and with them its lse, are -infinity",
    .fix = "leave out rows whose lse is -infinity",
    .source = "textbook, cf. pytorch/pytorch#103749",
    .killed_by = {"gradient_masks_equal_biases"},
};

}  // namespace qkvet::impl
