// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/call_pairs.h"
#include "properties/calls/gradient_calls.h"

namespace qkvet::properties {
namespace of_backward_threads_change_nothing {

constexpr int kThreads[] = {1, 2, 3};

Case constrain(Case value) { return value; }

Plan plan(const Case&, const KernelInfo& kernel) {
  Plan plan;
  plan.unsupported = nondeterministic_reason(kernel);
  for (const int threads : kThreads) {
    PlannedCall call = backward_call(/*truth=*/true);
    call.threads = threads;
    plan.calls.push_back(call);
  }
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  for (size_t n = 1; n < input.calls.size(); ++n) {
    CallPair pair;
    pair.second = n;
    pair.first_name = "with one thread";
    pair.second_name = n == 1 ? "with two threads" : "with three threads";
    pair.looks = "the work is divided so that parts are lost or raced for";
    compare_as_claimed(input, pair, QKVET_FLAG_THREADS_INVARIANT, judgement);
  }
  return judgement;
}

}  // namespace of_backward_threads_change_nothing

extern constinit const Law backward_threads_change_nothing{
    "backward_threads_change_nothing",
    "Threads change nothing: one, two or three give the same gradients.",
    "backward(threads = n) = backward(threads = 1)",
    "a deterministic kernel",
    "How work is divided is no part of the formula.",
    "Bit for bit where the kernel declares threads_invariant; else each "
    "side within its own bound.",
    "(c) it reaches sums over rows that threads share: dk and dv, or dq",
    70,
    Domain{.subject = Subject::kBackward, .allows = kAllowGradients},
    of_backward_threads_change_nothing::constrain,
    of_backward_threads_change_nothing::plan,
    of_backward_threads_change_nothing::judge};

}  // namespace qkvet::properties
