// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/call_pairs.h"

namespace qkvet::properties {
namespace of_threads_change_nothing {

constexpr int kThreads[] = {1, 2, 3};

Case constrain(Case value) { return value; }

Plan plan(const Case&, const KernelInfo& kernel) {
  Plan plan;
  plan.unsupported = nondeterministic_reason(kernel);
  PlannedCall call;
  call.want_lse = wants_lse(kernel);
  call.needs_truth = true;
  for (const int threads : kThreads) {
    call.threads = threads;
    plan.calls.push_back(call);
  }
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const bool orders = input.kernel.orders_threads;
  constexpr const char* kThreadsNames[] = {
      "with one thread", "with two threads", "with three threads"};
  constexpr const char* kOrderNames[] = {"with GPU threads in turn",
                                         "with GPU threads in reverse",
                                         "with GPU threads in random order"};
  const auto& names = orders ? kOrderNames : kThreadsNames;
  for (size_t n = 1; n < input.calls.size(); ++n) {
    CallPair pair;
    pair.second = n;
    pair.first_name = names[0];
    pair.second_name = names[n];
    pair.looks =
        orders ? "a barrier is missing (__syncthreads, __syncwarp), or threads "
                 "race otherwise"
               : "the work is divided so that parts are lost or raced for";
    compare_as_claimed(input, pair, QKVET_FLAG_THREADS_INVARIANT, judgement);
  }
  return judgement;
}

}  // namespace of_threads_change_nothing

extern constinit const Law threads_change_nothing{
    "threads_change_nothing",
    "Threads change nothing: one, two or three give the same output.",
    "forward(threads = n) = forward(threads = 1)",
    "a deterministic kernel",
    "How work is divided is no part of the formula.",
    "Bit for bit where the kernel declares threads_invariant; else each "
    "side within its own bound.",
    "(c) it reaches the borders between the shares of threads",
    150,
    Domain{.allows = kAllowAll | QKVET_OPTION_KEY_LISTS | kAllowFields},
    of_threads_change_nothing::constrain,
    of_threads_change_nothing::plan,
    of_threads_change_nothing::judge};

}  // namespace qkvet::properties
