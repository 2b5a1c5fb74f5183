// SPDX-License-Identifier: Apache-2.0
// Faults of keys in parts that are merged.
#include <algorithm>
#include <cmath>
#include <limits>

#include "impl/faulty/kernels.h"
#include "impl/skeletons/option_rows.h"

namespace qkvet::impl {

// Every part counts the sink.
struct EveryPartCountsSink : SplitHooks {
  static float sinks(int64_t parts) { return static_cast<float>(parts); }
};
QKVET_FAULT(every_part_counts_sink) = {
    .kernel = split_fault<EveryPartCountsSink, QKVET_OPTION_SINK>,
    .mechanism =
        "each part adds the sink to its own denominator, and the merge adds "
        "the parts",
    .symptom =
        "one part is right; the more the keys are split, the more the sink "
        "takes",
    .cause = "the code that finishes a row finishes each of its parts",
    .fix = "let one part count it, or the merge",
    .source = "ROCm/rocm-libraries#12227",
    .trigger = "a sink, and keys in two parts",
    .killed_by = {"sink_joins_the_denominator", "agrees_with_oracle"},
    .when = "sink && rows(seen > 1)",
};

// Two parts without a key merge to NaN.
struct PartsWithoutKeyMakeNan : SplitHooks {
  static float reference(float max) { return max; }
};
QKVET_FAULT(parts_without_key_make_nan) = {
    .kernel = split_fault<PartsWithoutKeyMakeNan, QKVET_OPTION_MASK>,
    .mechanism =
        "the larger of two lse, both -infinity, is subtracted from both",
    .symptom = "NaN in rows that see nothing, which are declared to be 0",
    .cause = "the merge expects one of two parts to have a key",
    .fix = "subtract 0 where both are -infinity",
    .source = "flashinfer-ai/flashinfer#4051, vllm-project/vllm#39148",
    .trigger = "a row that the mask hides altogether",
    .killed_by = {"rows_without_a_key_follow_the_dialect",
                  "agrees_with_oracle"},
    .when = "rows(seen == 0)",
};

// Parts store no lse unless the caller wants one.
struct PartsWithoutLse : SplitHooks {
  static void stored(const ForwardCall& call, SplitPart* part) {
    if (call.lse.data == nullptr && part->seen > 0) {
      part->lse = 0;
    }
  }
};
QKVET_FAULT(parts_without_lse) = {
    .kernel = split_fault<PartsWithoutLse>,
    .mechanism =
        "the lse of the parts is stored only if the caller asks for that of "
        "the row",
    .symptom =
        "with lse all is right; without it parts are merged by what the "
        "scratch holds",
    .cause = "one flag for two outputs",
    .fix = "always store what the merge reads",
    .source = "flashinfer-ai/flashinfer#50",
    .trigger = "lse is not asked for, and a row sees two keys",
    .killed_by = {"every_key_counts_once", "scale_is_one_over_sqrt_d"},
    .when = "!lse && rows(seen > 1)",
};

// Parts are weighed by their number of keys.
struct PartsWeighedByLength : SplitHooks {
  static void stored(const ForwardCall&, SplitPart* part) {
    part->lse = std::log(static_cast<float>(part->seen));
  }
};
QKVET_FAULT(parts_weighed_by_length) = {
    .kernel = split_fault<PartsWeighedByLength>,
    .mechanism =
        "parts of the keys are merged by how many keys they have, not by their "
        "lse",
    .symptom =
        "right where all scores are alike; else a part of little weight counts "
        "as much as the others",
    .cause = "the mean of softmaxes taken for the softmax of all",
    .fix = "weigh each part by exp(lse of the part - lse)",
    .source = "textbook",
    .trigger = "two keys with different scores, or lse of a row with one",
    .killed_by = {"split_and_merge_by_lse", "scale_is_one_over_sqrt_d",
                  "agrees_with_oracle"},
    .when = "rows(seen > 1) || (lse && rows(seen == 1))",
};

// A part without a key is merged out of old scratch.
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

 private:
  static constexpr int64_t kMostParts = 2;
};
QKVET_FAULT(part_of_old_scratch) = {
    .kernel = split_fault<PartOfOldScratch>,
    .mechanism =
        "a part to which no key falls leaves its lse as an earlier call wrote "
        "it, and is merged",
    .symptom = "outputs of short sequences are too small after a longer one",
    .cause = "parts without work return before they write",
    .fix = "let them write -infinity, or merge only as many parts as have keys",
    .source = "vllm-project/vllm#47188, sgl-project/sglang#2479",
    .trigger = "one key, for two parts, and an earlier call with more",
    .killed_by = {"prefill_equals_decode"},
    .when = "Tk == 1",
};

// Weights are flushed to 0 before a merge would have lifted them.
struct FlushedBeforeMerge : SplitHooks {
  // A weight relative to a number that no score exceeds: |q| |k| scale, for the
  // longest k. It differs from the weight relative to the maximum by a factor
  // that cancels, and that is all it does until a product is subnormal.
  static void weighed(const ForwardCall& call, RowAt at, const SplitPart& part,
                      float max, float* weights) {
    const float above = largest_score(call, at) - max;
    const float smallest =
        std::log(std::numeric_limits<float>::min()) + std::fmax(above, 0.0f);
    for (int64_t j = part.begin; j < part.end; ++j) {
      weights[j] = std::log(weights[j]) < smallest ? 0 : weights[j];
    }
  }

 private:
  static float length(const float* row, int64_t step, int64_t width) {
    float sum = 0;
    for (int64_t c = 0; c < width; ++c) {
      sum += row[c * step] * row[c * step];
    }
    return std::sqrt(sum);
  }
  static float largest_score(const ForwardCall& call, RowAt at) {
    const RowAt kv = kv_head(call, at);
    float longest = 0;
    for (int64_t j = 0; j < call.keys; ++j) {
      longest = std::fmax(longest, length(call.k.at(kv.b, kv.h, j),
                                          call.k.step[3], call.width));
    }
    const float* const q = call.q.at(at.b, at.h, at.i);
    return length(q, call.q.step[3], call.width) * longest *
           std::fabs(call.scale);
  }
};
QKVET_FAULT(flushed_before_merge) = {
    .kernel = split_fault<FlushedBeforeMerge>,
    .mechanism =
        "the parts of a row have one reference, the product of the lengths of "
        "q and k, so that they can be added up as they are",
    .symptom =
        "right for scores of moderate size; 0 / 0 where q and the longest key "
        "are long and at a right angle",
    .cause =
        "weights below 2^-126 are flushed to 0, and the division that would "
        "have lifted them comes last",
    .fix = "take the maximum of each part as its reference, and merge by lse",
    .source = "textbook, cf. iree-org/iree#22041",
    .trigger = "scores that are 87 below the product of the lengths",
    .killed_by = {"weights_sum_to_one", "agrees_with_oracle"},
    .when = "rows(seen > 0)",
};

constexpr qkvet_capabilities kClaimsSameBits = [] {
  qkvet_capabilities c = kF32With<0>;
  c.flags |= QKVET_FLAG_BATCH_INVARIANT;
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
QKVET_FAULT(odd_batch_splits_keys) = {
    .kernel = forward_fault<OptionsKernel<OptionHooks, RowsByBatch>::forward,
                            &kClaimsSameBits, &kSplitHooksPrecision>,
    .mechanism =
        "members are computed two at a time, and the last one of an odd batch "
        "with its keys in two parts",
    .symptom =
        "the bits of a request depend on how many others are in its batch, "
        "though the kernel says that they do not",
    .cause =
        "the size of a launch picks the algorithm, and algorithms add up in "
        "different orders",
    .fix =
        "let only the shape of a member decide how it is computed, or do not "
        "claim the same bits",
    .source = "pegainfer-project/pegainfer#613",
    .trigger = "an odd number of members, three or more, and two keys",
    .killed_by = {"permuted_members_permute_output"},
    .when = "B > 2 && B % 2 == 1 && Tk > 1",
};

}  // namespace qkvet::impl
