// SPDX-License-Identifier: Apache-2.0
// A sequence of calls, as a process that serves requests makes them. The first
// is the case in a new process; every further one is compared with its own
// truth, and with the first call of its kind. An error that a new process also
// shows is not caused by earlier calls.
#include <algorithm>
#include <array>
#include <vector>

#include "properties/calls/other_calls.h"
#include "properties/calls/subject_calls.h"
#include "properties/judging/compare.h"
#include "properties/judging/visibility.h"

namespace qkvet::properties {
namespace of_calls_before_change_nothing {

// Small: of each kind of call there is an oracle. It begins with the case.
Case constrain(Case value) {
  constexpr int64_t kMostTokens = 128;
  Shape& s = value.shape;
  s.Tq = std::min(s.Tq, kMostTokens);
  s.Tk = std::min(s.Tk, kMostTokens);
  CallSequence& calls = value.calls;
  if (calls.empty()) calls = {CallStep{}};
  if (calls.front().kind != CallStepKind::kAsIs) {
    calls.insert(calls.begin(), CallStep{});
    if (std::ssize(calls) > kMostCallSteps) calls.pop_back();
  }
  return value;
}

PlannedCall call_of_kind(const Case& value, const KernelInfo& kernel,
                         CallStepKind kind) {
  PlannedCall call = other_call(value, kernel, kind).value_or(PlannedCall{});
  if (kind == CallStepKind::kElsewhere) call.placement = Placement::kStart;
  if (kind == CallStepKind::kContext)
    call.second_context = not_at_once_reason(kernel).empty();
  return call;
}

// The kernel may refuse calls that are not the case's own as unsupported.
PlannedCall call_of_step(const Case& value, const KernelInfo& kernel,
                         CallStepKind kind) {
  PlannedCall call = call_of_kind(value, kernel, kind);
  call.want_lse = wants_lse(kernel);
  call.needs_truth = true;
  call.same_place = kind != CallStepKind::kMore && kind != CallStepKind::kFew;
  return call;
}

// The kinds of steps in the sequence with other calls than the case's, each
// once.
std::vector<CallStepKind> other_kinds(const Case& value) {
  std::vector<CallStepKind> kinds;
  for (const CallStep& step : value.calls) {
    const bool is_the_cases = step.kind == CallStepKind::kAsIs ||
                              step.kind == CallStepKind::kElsewhere ||
                              step.kind == CallStepKind::kContext;
    if (!is_the_cases &&
        std::find(kinds.begin(), kinds.end(), step.kind) == kinds.end())
      kinds.push_back(step.kind);
  }
  return kinds;
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan;
  for (const CallStep& step : value.calls) {
    const PlannedCall call = call_of_step(value, kernel, step.kind);
    plan.calls.insert(plan.calls.end(), static_cast<size_t>(step.times), call);
  }
  plan.calls.front().new_process = true;
  for (const CallStepKind kind : other_kinds(value)) {
    PlannedCall alone = call_of_step(value, kernel, kind);
    alone.needs_truth = false;  // that of the call in the sequence
    alone.only_between = alone.new_process = true;
    plan.calls.push_back(std::move(alone));
  }
  return plan;
}

struct Step {
  CallStepKind kind;
  size_t first;  // call of the kind, or the one with the same bits
};

// One for every call.
std::vector<Step> steps_of(const Case& value) {
  constexpr size_t kNone = ~size_t{0};
  std::array<size_t, kCallStepLetters.size()> first;
  first.fill(kNone);
  std::vector<Step> steps;
  for (const CallStep& step : value.calls)
    for (int64_t n = 0; n < step.times; ++n) {
      const bool is_context = step.kind == CallStepKind::kContext;
      size_t& of_kind = first[static_cast<size_t>(
          is_context ? CallStepKind::kAsIs : step.kind)];
      if (of_kind == kNone) of_kind = steps.size();
      steps.push_back({step.kind, of_kind});
    }
  return steps;
}

Judgement against_truth(const JudgeInput& input, const CallView& call) {
  Judgement judgement;
  compare_with_truth(input, call, judgement);
  return judgement;
}

std::string name_of(const Case& value, const Step& step, size_t n) {
  return "call " + std::to_string(n + 1) + " of " + calls_text(value.calls) +
         ", " + step_name(step.kind);
}

// One call after others; returns whether it is right.
bool judge_call(const JudgeInput& input, const Step& step, size_t n,
                Judgement& judgement) {
  const CallView& call = input.calls[n];
  Judgement own;
  const bool same =
      step.first < n && input.calls[step.first].outcome->o == call.outcome->o;
  if (!same) own = against_truth(input, call);
  if (own.verdict == Verdict::kPassed && step.first < n &&
      nondeterministic_reason(input.kernel).empty()) {
    CallPair pair;
    pair.first = step.first;
    pair.second = n;
    pair.first_name = "the first time";
    pair.second_name = "again";
    compare_bit_for_bit(input, pair, own);
  }
  if (own.finding) own.finding->planned = static_cast<int32_t>(n);
  add_judgement(own, judgement);
  return own.verdict != Verdict::kFailed;
}

// The answer of a step's call in a process of its own; null if it was not asked
// or gave no answer.
const CallOutcome* answer_alone(const JudgeInput& input, CallStepKind kind,
                                size_t sequence) {
  const std::vector<CallStepKind> kinds = other_kinds(input.value);
  const auto found = std::find(kinds.begin(), kinds.end(), kind);
  if (found == kinds.end()) return nullptr;
  const CallOutcome* alone =
      input.calls[sequence + static_cast<size_t>(found - kinds.begin())]
          .outcome;
  return alone->status == CallStatus::kDone ? alone : nullptr;
}

enum class Seen : uint8_t { kRight, kWrong, kWrongAlone };

Seen look_at(const JudgeInput& input, const Step& step, size_t n,
             const CallOutcome* alone, Judgement& judgement) {
  if (judge_call(input, step, n, judgement)) return Seen::kRight;
  if (alone == nullptr) return Seen::kWrong;
  CallView call = input.calls[n];
  call.outcome = alone;
  return against_truth(input, call).verdict == Verdict::kFailed
             ? Seen::kWrongAlone
             : Seen::kWrong;
}

Judgement wrong_by_itself(const std::string& call) {
  Judgement judgement;
  judgement.verdict = Verdict::kGaveUp;
  judgement.reason = call + " is wrong by itself";
  judgement.about = About::kOtherCall;
  return judgement;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement = against_truth(input, input.calls[0]);
  // No call came before it.
  if (judgement.verdict == Verdict::kFailed)
    return wrong_by_itself("the first call of the sequence");
  const std::vector<Step> steps = steps_of(input.value);
  for (size_t n = 1; n < steps.size(); ++n) {
    const CallView& call = input.calls[n];
    if (call.outcome->status != CallStatus::kDone) continue;
    const CallOutcome* alone = answer_alone(input, steps[n].kind, steps.size());
    Seen seen = Seen::kRight;
    if (call.planned->variant) {
      const Visibility pairs(*call.planned->variant, *call.inputs,
                             ranges_in_window(input.kernel.dialect));
      seen = look_at({*call.planned->variant, input.kernel, input.model,
                      input.calls, &pairs, input.same_bits},
                     steps[n], n, alone, judgement);
    } else {
      seen = look_at(input, steps[n], n, alone, judgement);
    }
    if (seen == Seen::kRight) continue;
    if (seen == Seen::kWrongAlone)
      return wrong_by_itself(name_of(input.value, steps[n], n) + ",");
    judgement.finding->looks =
        "something is left over from the calls before: " +
        name_of(input.value, steps[n], n);
    break;
  }
  return judgement;
}

}  // namespace of_calls_before_change_nothing

extern constinit const Law calls_before_change_nothing{
    "calls_before_change_nothing",
    "A call gives its own answer whatever calls came before: the same "
    "addresses with other data, other addresses with the same data, another "
    "layout, options that come and go or have other values, other shapes, a "
    "second context, hundreds of calls.",
    "forward(x_n | x_1 .. x_(n-1)) = forward(x_n)",
    "a sequence of calls",
    "A call has no other arguments than its own.",
    "Each call is within its own bound; of two equal ones a deterministic "
    "kernel gives the same bits.",
    "(c) it reaches what a kernel keeps between calls, by address, by shape "
    "and layout, by option or by count",
    565,
    Domain{.allows = QKVET_OPTION_ROPE | kAllowPairs | kAllowScores |
                     kOptionLayout | kAllowServing | kOptionCalls,
           .about = kOptionCalls},
    of_calls_before_change_nothing::constrain,
    of_calls_before_change_nothing::plan,
    of_calls_before_change_nothing::judge};

}  // namespace qkvet::properties
