// SPDX-License-Identifier: Apache-2.0
#include "properties/run/long_use.h"

#include <algorithm>

#include "properties/calls/call_pairs.h"
#include "properties/judging/compare.h"
#include "properties/judging/empty_row.h"
#include "properties/judging/subject.h"
#include "properties/judging/visibility.h"

namespace qkvet::properties {
namespace {

// Beyond a thousand, as counters of one digit too few and descriptors go.
constexpr int64_t kTimes = 2500;
// A nondeterministic kernel is compared with its bound after each part.
constexpr int64_t kParts = 5;

bool is_steady(const KernelInfo& kernel) {
  return nondeterministic_reason(kernel).empty();
}

// Whether a row that counts sees no key, and the dialect lets it hold anything:
// another number each time is no mistake.
bool holds_anything(const JudgeInput& input) {
  if (!input.value.has_options()) return false;
  const EmptyRow said = empty_row_of(input.kernel.dialect, input.value);
  return (said.o == QKVET_EMPTY_ROW_UNSPECIFIED ||
          said.lse == QKVET_EMPTY_LSE_UNSPECIFIED) &&
         has_row_without_key(input.value, *input.visibility);
}

// The number of calls before the repeated ones.
size_t group_size(const JudgeInput& input) {
  const auto repeated = std::find_if(
      input.calls.begin(), input.calls.end(),
      [](const CallView& call) { return call.planned->repeats > 0; });
  return static_cast<size_t>(repeated - input.calls.begin());
}

Judgement judge_group(const JudgeInput& input, size_t first, size_t size) {
  const JudgeInput group{input.value,      input.kernel,
                         input.model,      input.calls.subspan(first, size),
                         input.visibility, input.same_bits};
  return agreement_about(input.value.subject()).judge(group);
}

std::string count_text(int64_t count, const char* what) {
  return std::to_string(count) + " " + what;
}

// Prints numbers of outputs in the type of o and lse, and no others.
void tell_numbers(const Case& value, TensorName tensor, const CallView& first,
                  const CallView& other, Finding& finding) {
  const auto member = output_member(tensor);
  const std::vector<std::byte>& a = first.outcome->*member;
  const std::vector<std::byte>& b = other.outcome->*member;
  finding.where += std::string(", ") + tensor_name(tensor);
  finding.expected = "what the first call gives";
  finding.actual = "other bits";
  const bool is_o = tensor == TensorName::kO || tensor == TensorName::kY;
  if (a.size() != b.size() || (!is_o && tensor != TensorName::kLse)) return;
  const Dtype dtype = is_o ? value.o_dtype : lse_dtype(value.o_dtype);
  const std::vector<double> before = as_doubles(a, dtype);
  const std::vector<double> now = as_doubles(b, dtype);
  for (size_t n = 0; n < before.size(); ++n) {
    if (equal_numbers(before[n], now[n])) continue;
    finding.where += ", element " + std::to_string(n);
    finding.expected = number_text(before[n], dtype) + " (the first time)";
    finding.actual = number_text(now[n], dtype);
    return;
  }
}

// The outcomes contain the outputs of the first call that differs.
Finding other_bits(const JudgeInput& input, size_t first, size_t size) {
  const RepeatedCall& repeated = input.calls[first].outcome->repeated;
  Finding finding;
  finding.where = "equal call " + std::to_string(repeated.first_other + 1);
  finding.expected = "what the first call gives";
  finding.actual = "other bits";
  finding.allowed = "the same bits";
  finding.looks =
      "something wears out: a counter, or what is kept between "
      "calls";
  for (size_t n = 0; n < size; ++n)
    for (auto t = static_cast<int>(TensorName::kO); t < kTensorCount; ++t) {
      const auto tensor = static_cast<TensorName>(t);
      const auto member = output_member(tensor);
      if (input.calls[n].outcome->*member ==
          input.calls[first + n].outcome->*member)
        continue;
      finding.planned = static_cast<int32_t>(first + n);
      tell_numbers(input.value, tensor, input.calls[n], input.calls[first + n],
                   finding);
      return finding;
    }
  return finding;
}

// Threads hold memory, so they are reported first.
std::optional<Finding> left_behind(const RepeatedCall& repeated) {
  Finding finding;
  const std::string in =
      " more in the last " + std::to_string(repeated.grown_in) + " calls";
  if (repeated.threads > 0) {
    finding.actual = count_text(repeated.threads, "threads") + in;
    finding.looks = "a thread is started in each call and never ends";
  } else if (repeated.descriptors > 0) {
    finding.actual = count_text(repeated.descriptors, "open descriptors") + in;
    finding.looks = "a file is opened in each call and never closed";
  } else if (repeated.bytes > 0) {
    finding.actual = count_text(repeated.bytes, "bytes of memory") + in;
    finding.looks = "memory is allocated in each call and never freed";
  } else {
    return std::nullopt;
  }
  finding.where = "after " + std::to_string(repeated.made) + " equal calls";
  finding.expected = "no more held than before";
  return finding;
}

}  // namespace

Plan plan_long_use(const Case& value, const KernelInfo& kernel) {
  Plan plan = agreement_about(value.subject()).plan(value, kernel);
  if (plan.calls.empty()) return plan;
  const std::vector<PlannedCall> group = plan.calls;
  plan.calls.front().new_process = true;
  const bool steady = is_steady(kernel);
  const int64_t parts = steady ? 1 : kParts;
  for (int64_t part = 0; part < parts; ++part)
    for (PlannedCall call : group) {
      call.repeats = kTimes / parts;
      call.needs_truth = call.needs_truth && !steady;
      plan.calls.push_back(std::move(call));
    }
  return plan;
}

Judgement judge_long_use(const JudgeInput& input) {
  const size_t size = group_size(input);
  Judgement judgement;
  if (judge_group(input, 0, size).verdict == Verdict::kFailed) {
    judgement.verdict = Verdict::kGaveUp;
    judgement.reason = "the first call is wrong by itself";
    judgement.about = About::kOtherCall;
    return judgement;
  }
  int64_t made = 1;
  for (size_t first = size; first < input.calls.size(); first += size) {
    const RepeatedCall& repeated = input.calls[first].outcome->repeated;
    judgement.compared += std::max<int64_t>(repeated.made, 1);
    made += repeated.made;
    std::optional<Finding> finding;
    if (repeated.first_other > 0 && !holds_anything(input)) {
      finding = other_bits(input, first, size);
    } else if (!is_steady(input.kernel)) {
      finding = judge_group(input, first, size).finding;
      if (finding) finding->where += ", equal call " + std::to_string(made);
    }
    if (!finding) finding = left_behind(repeated);
    if (!finding) continue;
    add_failure(judgement, std::move(*finding));
    return judgement;
  }
  return judgement;
}

}  // namespace qkvet::properties
