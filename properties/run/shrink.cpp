// SPDX-License-Identifier: Apache-2.0
#include "properties/run/shrink.h"

#include <set>
#include <string>

#include "properties/cases/generate.h"
#include "properties/judging/subject.h"
#include "properties/run/runner.h"

namespace qkvet::properties {
namespace {

constexpr int kMaxTries = 4000;
// A try that hangs takes at least two seconds: only the tiniest case is tried.
constexpr int kMaxHangingTries = 1;

bool fails_alike(const Judgement& a, const Judgement& b) {
  return a.verdict == Verdict::kFailed && b.verdict == Verdict::kFailed &&
         a.kind == b.kind;
}

// Whether the two numbers of a report are other ones as they are printed.
bool shows_difference(const Judgement& judgement) {
  const auto number = [](const std::string& text) {
    return text.substr(0, text.find(' '));
  };
  const auto& finding = judgement.finding;
  return !finding || number(finding->expected) != number(finding->actual);
}

}  // namespace

Judgement check_case(const Law& law, const Case& value,
                     const JudgedKernel& kernel, int index, Executor& executor,
                     bool with_twin, TimeUse& time, Reading reading) {
  CaseWork work(law, value, with_twin, time, plain_forward, reading);
  if (auto settled = work.settled(kernel)) return *settled;
  const std::vector<KernelCall> calls = work.calls_for(kernel);
  std::vector<CallOutcome> outcomes;
  {
    const Stopwatch watch(time.kernel);
    outcomes = executor.run(index, calls);
  }
  return work.judge(kernel, outcomes);
}

const Law& failed_law(const Law& planned, const Judgement& judgement) {
  // Attention and gradients have a memory law; for other subjects each law owns
  // its findings.
  const char* const memory = subject_row(planned.domain.subject).memory_law;
  return judgement.kind == FailureKind::kMemory && memory != nullptr
             ? *find_law(memory)
             : planned;
}

const Law& replayed_law(const Law& planned, const Case& value,
                        const Judgement& judgement, const JudgedKernel& kernel,
                        int index, Executor& executor, TimeUse& time) {
  const Law& owner = failed_law(planned, judgement);
  if (&owner == &planned) return planned;
  const Judgement again = check_case(owner, value, kernel, index, executor,
                                     /*with_twin=*/false, time);
  return again.verdict == Verdict::kFailed ? owner : planned;
}

Shrunk shrink(const Law& law, const Case& value, const Judgement& judgement,
              const JudgedKernel& kernel, int index, Executor& executor,
              TimeUse& time, const Scope& scope, bool same_outcome,
              bool tries_tiny) {
  Shrunk best{value, judgement};
  const std::string outcome = traits_of(value, judgement).outcome;
  const bool slow = judgement.kind == FailureKind::kHang;
  const int limit = slow ? kMaxHangingTries : kMaxTries;
  // A case that passed once is not run again: the tiny shapes of a case are
  // those of the one before, a thousand calls where one takes a millisecond.
  std::set<std::string> passed;
  const auto fails = [&](const Case& next) {
    if (!keeps_pins(scope, next) || !passed.insert(to_string(next)).second)
      return false;
    ++best.tries;
    Judgement verdict =
        check_case(law, next, kernel, index, executor, false, time);
    if (!fails_alike(judgement, verdict) ||
        shows_difference(best.judgement) > shows_difference(verdict) ||
        (same_outcome && traits_of(next, verdict).outcome != outcome))
      return false;
    best.judgement = std::move(verdict);
    ++best.steps;
    return true;
  };
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    for (Case& next : simpler_cases(law, best.value, tries_tiny)) {
      if (best.tries >= limit) return best;
      goes_on = fails(next);
      if (!goes_on) continue;
      best.value = std::move(next);
      break;
    }
  }
  return best;
}

}  // namespace qkvet::properties
