// SPDX-License-Identifier: Apache-2.0
#include "properties/failure.h"

#include "properties/other_dialect.h"
#include "properties/shrink.h"

namespace qkvet {
namespace {

// How often a failing case is repeated before it is believed to be steady.
constexpr int kRepeats = 10;

}  // namespace

Failure shrunk_failure(const Candidate& candidate,
                       const KernelUnderTest& kernel, Executor& executor,
                       TimeUse& time, const Scope& scope) {
  const auto check = [&](const Law& law, const Case& value) {
    return check_case(law, value, kernel.judged, kernel.index, executor,
                      /*with_twin=*/false, time);
  };
  Failure failure;
  failure.law = candidate.planned;
  failure.number = candidate.number;
  failure.found = candidate.value;
  failure.seconds = candidate.seconds;
  failure.smallest = candidate.value;
  failure.judgement = candidate.judgement;
  // A hang costs seconds: it is believed at once.
  failure.repeats =
      candidate.judgement.kind == FailureKind::kHang ? 0 : kRepeats;
  const Law* law = candidate.planned;
  for (int i = 0; i < failure.repeats; ++i) {
    const Judgement again = check(*law, candidate.value);
    failure.repeats_failed += again.verdict == Verdict::kFailed;
  }
  if (failure.repeats_failed == failure.repeats) {
    // What another law stumbled on is shrunk under the law that owns it.
    if (!candidate.keeps_law)
      law = &replayed_law(*law, candidate.value, candidate.judgement,
                          kernel.judged, kernel.index, executor, time);
    Shrunk smallest =
        shrink(*law, candidate.value, candidate.judgement, kernel.judged,
               kernel.index, executor, time, scope);
    failure.smallest = std::move(smallest.value);
    failure.judgement = std::move(smallest.judgement);
    failure.shrink_steps = smallest.steps;
    failure.shrink_tries = smallest.tries;
    failure.law = law;
    failure.story = fault_of(*law, failure.smallest, failure.judgement,
                             kernel.judged, kernel.index, executor, time);
  }
  // What died, or is unsteady, is no matter of convention.
  if (failure.judgement.kind == FailureKind::kLaw &&
      failure.repeats_failed == failure.repeats)
    failure.dialect = other_dialect(candidate.value, kernel.judged,
                                    kernel.index, executor, time);
  failure.digest = input_digest(make_inputs(failure.smallest));
  return failure;
}

}  // namespace qkvet
