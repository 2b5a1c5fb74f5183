// SPDX-License-Identifier: Apache-2.0
// faulty/flushed_before_merge: weights are flushed to 0 before a merge would
// have lifted them.
#include <algorithm>
#include <cmath>
#include <limits>

#include "impl/faulty/split_seams.h"

namespace qkvet::impl {
namespace {

struct FlushedBeforeMerge : SplitSeams {
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

constexpr const char* kKilledBy[] = {"weights_sum_to_one", "agrees_with_oracle",
                                     nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
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
    .killed_by = kKilledBy,
    .when = "rows(seen > 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_flushed_before_merge =
    split_fault<FlushedBeforeMerge>(
        "faulty/flushed_before_merge", &kFault,
        {"impl/faulty/flushed_before_merge.cpp", __LINE__});

}  // namespace qkvet::impl
