// SPDX-License-Identifier: Apache-2.0
// Faults of kernels that look at the size of their numbers: right for the data
// of one kind of test, and cheap elsewhere.
#include <cmath>

#include "impl/faulty/kernels.h"

namespace qkvet::impl {
namespace {

// exp(x) = 1 + x, which is near it for equal scores alone.
struct LinearWeights : OptionHooks {
  static float weight(const ForwardCall&, int64_t, float weight) {
    const float linear = 1 + std::log(weight);
    return linear < 0 ? 0 : linear;  // NaN stays
  }
};

float largest_key(const ForwardCall& call) {
  float most = 0;
  for (int64_t b = 0; b < call.batch; ++b) {
    for (int64_t h = 0; h < call.kv_heads; ++h) {
      for (int64_t j = 0; j < call.keys; ++j) {
        for (int64_t c = 0; c < call.width; ++c) {
          const float k = call.k.at(b, h, j)[c * call.k.step[3]];
          most = std::fmax(most, std::fabs(k));  // leaves NaN out
        }
      }
    }
  }
  return most;
}

// Linear weights if the largest key is within these, in hundredths.
template <int64_t kFrom, int64_t kTo>
qkvet_status forward_by_keys(const qkvet_kernel* self, qkvet_context* context,
                             const qkvet_forward_args* args,
                             const qkvet_exec* exec, qkvet_text* why) {
  ForwardCall call;
  QKVET_TRY(read_forward(self, args, &call, why));
  const float largest = largest_key(call) * 100;
  const bool cheap = largest > kFrom && largest < kTo;
  const auto forward = cheap ? OptionsKernel<LinearWeights>::forward
                             : OptionsKernel<OptionHooks>::forward;
  return forward(self, context, args, exec, why);
}

constexpr qkvet_capabilities kClaimsNothing = [] {
  qkvet_capabilities c = kF32With<0>;
  c.flags &= ~kOwnClaims;
  return c;
}();

constexpr int64_t kAny = int64_t{1} << 40;

template <int64_t kFrom, int64_t kTo>
constexpr qkvet_kernel kSniffs =
    kForwardFault<forward_by_keys<kFrom, kTo>, &kClaimsNothing>;

}  // namespace

QKVET_FAULT(small_keys_linear, kSniffs<0, 55>) = {
    .when = "Tk > 1",
    .cause = "exp(x) is taken as 1 + x where no key is larger than 0.55",
    .fix = "one path for all numbers",
    .source = "kernelbench.com annotations 20260709_172635",
    .killed_by = {"magnitude_moves_to_queries"},
};

// Between the data of tests that are plain and those that are tiny.
QKVET_FAULT(keys_of_a_tenth_linear, kSniffs<5, 20>) = {
    .when = "Tk > 1",
    .cause = "exp(x) is taken as 1 + x where the largest key is between 0.05 "
             "and 0.2",
    .fix = "one path for all numbers",
    .killed_by = {"magnitude_moves_to_queries"},
};

// Beyond what tests call large.
QKVET_FAULT(huge_keys_linear, kSniffs<26000, 100000>) = {
    .when = "Tk > 1",
    .cause = "exp(x) is taken as 1 + x where the largest key is between 260 "
             "and 1,000",
    .fix = "one path for all numbers",
    .killed_by = {"magnitude_moves_to_queries"},
};

// Right for data that is made to be hard.
QKVET_FAULT(normal_keys_linear, kSniffs<100, 400>) = {
    .when = "Tk > 1",
    .cause = "exp(x) is taken as 1 + x where keys look like N(0, 1)",
    .fix = "one path for all numbers",
    .killed_by = {"agrees_with_oracle", "magnitude_moves_to_queries"},
};

}  // namespace qkvet::impl
