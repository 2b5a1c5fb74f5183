// SPDX-License-Identifier: Apache-2.0
// Faults of keys in parts that are merged.
#include <algorithm>
#include <cmath>
#include <limits>

#include "impl/faulty/kernels.h"
#include "impl/skeletons/option_rows.h"
#include "impl/skeletons/tile.h"

namespace qkvet::impl {

struct EveryPartCountsSink : SplitHooks {
  static float sinks(int64_t parts) { return static_cast<float>(parts); }
};
QKVET_FAULT(every_part_counts_sink,
            kSplitFault<EveryPartCountsSink, QKVET_OPTION_SINK>) = {
    .when = "sink && rows(seen > 1)",
    .cause = "each part adds the sink to its own denominator, and the merge "
             "adds the parts",
    .fix = "let one part count it, or the merge",
    .source = "ROCm/rocm-libraries#12227",
    .killed_by = {"sink_joins_the_denominator", "agrees_with_oracle"},
};

struct PartsWithoutKeyMakeNan : SplitHooks {
  static float reference(float max) { return max; }
};
QKVET_FAULT(parts_without_key_make_nan,
            kSplitFault<PartsWithoutKeyMakeNan, QKVET_OPTION_MASK>) = {
    .when = "rows(seen == 0)",
    .cause = "the larger of two lse, both -infinity, is subtracted from both: "
             "the merge expects a part with a key",
    .fix = "subtract 0 where both are -infinity",
    .source = "flashinfer-ai/flashinfer#4051, vllm-project/vllm#39148",
    .killed_by = {"rows_without_a_key_follow_the_dialect",
                  "agrees_with_oracle"},
};

struct PartsWithoutLse : SplitHooks {
  static void stored(const ForwardCall& call, SplitPart* part) {
    if (call.lse.data == nullptr && part->seen > 0) part->lse = 0;
  }
};
QKVET_FAULT(parts_without_lse, kSplitFault<PartsWithoutLse>) = {
    .when = "!lse && rows(seen > 1)",
    .cause = "the lse of the parts is stored only if the caller asks for that "
             "of the row: one flag controls both",
    .fix = "always store what the merge reads",
    .source = "flashinfer-ai/flashinfer#50",
    .killed_by = {"every_key_counts_once", "scale_is_one_over_sqrt_d"},
};

struct PartsWeighedByLength : SplitHooks {
  static void stored(const ForwardCall&, SplitPart* part) {
    part->lse = std::log(static_cast<float>(part->seen));
  }
};
QKVET_FAULT(parts_weighed_by_length, kSplitFault<PartsWeighedByLength>) = {
    .when = "rows(seen > 1) || (lse && rows(seen == 1))",
    .cause = "parts of the keys are merged by their number of keys instead of "
             "their lse",
    .fix = "weigh each part by exp(lse of the part - lse)",
    .killed_by = {"split_and_merge_by_lse", "scale_is_one_over_sqrt_d"},
};

struct PartOfOldScratch : SplitHooks {
  static void stored(const ForwardCall&, SplitPart* part) {
    thread_local float scratch[kMostParts] = {kNone, kNone};
    float& lse = scratch[part->number % kMostParts];
    if (part->begin < part->end) {
      lse = part->lse;
    } else {
      part->lse = lse;
    }
  }
  static constexpr int64_t kMostParts = 2;
};
QKVET_FAULT(part_of_old_scratch, kSplitFault<PartOfOldScratch>) = {
    .when = "Tk == 1",
    .cause = "a part without a key returns before it writes its lse, and that "
             "of an earlier call is merged",
    .fix = "let them write -infinity, or merge only as many parts as have keys",
    .source = "vllm-project/vllm#47188, sgl-project/sglang#2479",
    .killed_by = {"prefill_equals_decode"},
};

struct FlushedBeforeMerge : SplitHooks {
  // A weight relative to a number that no score exceeds: |q| |k| scale, for the
  // longest k. It differs from the weight relative to the maximum by a factor
  // that cancels, and that is all it does until a product is subnormal.
  static void weighed(const ForwardCall& call, RowAt at, const SplitPart& part,
                      float max, float* weights) {
    const float above = largest_score(call, at) - max;
    const float smallest =
        std::log(std::numeric_limits<float>::min()) + std::fmax(above, 0.0f);
    for (int64_t j = part.begin; j < part.end; ++j)
      weights[j] = std::log(weights[j]) < smallest ? 0 : weights[j];
  }
  static float length(const float* row, int64_t step, int64_t width) {
    float sum = 0;
    for (int64_t c = 0; c < width; ++c) sum += row[c * step] * row[c * step];
    return std::sqrt(sum);
  }
  static float largest_score(const ForwardCall& call, RowAt at) {
    const RowAt kv = kv_head(call, at);
    float longest = 0;
    for (int64_t j = 0; j < call.keys; ++j)
      longest = std::fmax(longest, length(call.k.at(kv.b, kv.h, j),
                                          call.k.step[3], call.width));
    const float* const q = call.q.at(at.b, at.h, at.i);
    return length(q, call.q.step[3], call.width) * longest *
           std::fabs(call.scale);
  }
};
QKVET_FAULT(flushed_before_merge, kSplitFault<FlushedBeforeMerge>) = {
    .when = "rows(seen > 0)",
    .cause = "all parts of a row share one reference, the product of the "
             "lengths of q and k: weights below 2^-126 are flushed to 0",
    .fix = "take the maximum of each part as its reference, and merge by lse",
    .source = "textbook, cf. iree-org/iree#22041",
    .killed_by = {"weights_sum_to_one", "agrees_with_oracle"},
};

template <uint64_t kOptions>
constexpr qkvet_capabilities kClaimsSameBits = [] {
  qkvet_capabilities c = kF32With<kOptions>;
  c.flags |= QKVET_FLAG_BATCH_INVARIANT | QKVET_FLAG_BATCH_MATES_INVARIANT;
  return c;
}();

// The size of a batch picks the algorithm of its last member. Both algorithms
// are right, and differ in the last bits.
template <class Hooks>
struct RowsByBatch : OptionRows<Hooks> {
  using typename OptionRows<Hooks>::Memory;

  static void row(const ForwardCall& call, RowAt at, Memory* memory) {
    const bool left_over = call.batch % 2 == 1 && at.b == call.batch - 1;
    if (call.batch < 2 || !left_over) {
      OptionRows<Hooks>::row(call, at, memory);
      return;
    }
    SplitRows<SplitHooks>::Memory split = {memory->weights, memory->max};
    SplitRows<SplitHooks>::row(call, at, &split);
  }
};
QKVET_FAULT(odd_batch_splits_keys,
            kForwardFault<OptionsKernel<OptionHooks, RowsByBatch>::forward,
                          &kClaimsSameBits<0>, &kSplitHooksPrecision>) = {
    .when = "B > 2 && B % 2 == 1 && Tk > 1",
    .cause = "batch elements are computed in pairs, and the last of an odd "
             "batch splits its keys in two: the sums differ in order",
    .fix = "choose the algorithm by the shape of one element, or do not claim "
           "the same bits",
    .source = "pegainfer-project/pegainfer#613",
    .killed_by = {"permuted_members_permute_output"},
};

// The longest sequence of a batch picks the algorithm of all of them: both are
// right.
qkvet_status forward_by_longest(const qkvet_kernel* self,
                                qkvet_context* context,
                                const qkvet_forward_args* args,
                                const qkvet_exec* exec, qkvet_text* why) {
  ForwardCall call;
  QKVET_TRY(read_forward(self, args, &call, why));
  QKVET_TRY(check_lengths(call, why));
  int64_t longest = 0;
  const int64_t members = call.options.has_lengths() ? member_count(call) : 0;
  for (int64_t n = 0; n < members; ++n) {
    longest = std::max(longest, member_of(call, n).keys);
  }
  const auto forward = longest > tile()
                           ? OptionsKernel<SplitHooks, SplitRows>::forward
                           : OptionsKernel<OptionHooks>::forward;
  return forward(self, context, args, exec, why);
}
QKVET_FAULT(
    longest_mate_splits_keys,
    kForwardFault<forward_by_longest,
                  &kClaimsSameBits<QKVET_OPTION_LENGTHS | QKVET_OPTION_PACKED>,
                  &kSplitHooksPrecision>) = {
    .when = "(kv_len || packed) && members(keys > 1 && keys <= 4) && "
            "members(keys > 4)",
    .cause = "the longest sequence of a batch decides whether the keys of all "
             "are split in two: the sums differ in order",
    .fix = "choose tiles and splits by the keys of one sequence, or do not "
           "claim the same bits",
    .source = "vllm-project/vllm#51902, flashinfer-ai/flashinfer#2424",
    .killed_by = {"batch_mates_change_nothing"},
    .tiled = true,
};

}  // namespace qkvet::impl
