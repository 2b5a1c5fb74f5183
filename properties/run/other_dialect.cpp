// SPDX-License-Identifier: Apache-2.0
#include "properties/run/other_dialect.h"

#include "properties/cases/generate.h"
#include "properties/run/runner.h"
#include "properties/run/shrink.h"

namespace qkvet::properties {
namespace {

// Planned cases that are tried: all that the kernel takes must agree as well.
constexpr int64_t kTried = 96;
// Cases that are wrong by the declared convention and right by the other: fewer
// than this may agree by chance.
constexpr int kEnoughTelling = 3;

struct Alternative {
  bool (*concerns)(const Case& value);
  Problem (*reads)(Problem problem);
  const char* text;
};

const Alternative kAlternatives[] = {
    {[](const Case& value) { return value.causal == Causal::kTopLeft; },
     [](Problem problem) {
       if (problem.causal == Causal::kTopLeft)
         problem.causal = Causal::kBottomRight;
       return problem;
     },
     "It conforms with the diagonal counted from the bottom right, as "
     "FlashAttention has it since 2.1: declare "
     "QKVET_OPTION_CAUSAL_BOTTOM_RIGHT in place of CAUSAL_TOP_LEFT."},
    {[](const Case& value) { return value.causal == Causal::kBottomRight; },
     [](Problem problem) {
       if (problem.causal == Causal::kBottomRight)
         problem.causal = Causal::kTopLeft;
       return problem;
     },
     "It conforms with the diagonal counted from the top left, as PyTorch's "
     "is_causal has it: declare QKVET_OPTION_CAUSAL_TOP_LEFT in place of "
     "CAUSAL_BOTTOM_RIGHT."},
    {[](const Case& value) { return !value.scale.has_value(); },
     [](Problem problem) {
       if (!problem.scale_given) problem.scale = 1;
       problem.scale_given = true;
       return problem;
     },
     "It conforms with a scale of 1 where the caller gives none, as T5 has it: "
     "declare QKVET_OPTION_SCALE, and not DEFAULT_SCALE."}};

// Whether the kernel agrees with the oracle that reads the case this way, or
// unchanged if null; nullopt if undecided.
std::optional<bool> agrees(Problem (*reads)(Problem problem), const Case& value,
                           const JudgedKernel& kernel, int index,
                           Executor& executor, TimeUse& time) {
  const Judgement judgement =
      check_case(*find_law("agrees_with_oracle"), value, kernel, index,
                 executor, /*with_twin=*/false, time, reads);
  if (judgement.verdict == Verdict::kFailed) return false;
  if (judgement.verdict != Verdict::kPassed || judgement.compared == 0)
    return std::nullopt;
  return true;
}

bool explains(const Alternative& alternative, const Case& value,
              const JudgedKernel& kernel, int index, Executor& executor,
              TimeUse& time) {
  if (!alternative.concerns(value)) return false;
  const auto agrees_by = [&](Problem (*reads)(Problem), const Case& one) {
    return agrees(reads, one, kernel, index, executor, time);
  };
  if (!agrees_by(alternative.reads, value).value_or(false)) return false;
  Scope scope;
  keep_scope_to({KernelUnderTest{kernel}}, scope);
  scope.largest = SizeClass::kSmall;
  scope.dtypes = {storage_of(value)};
  int telling = 0;
  for (int64_t n = 1; n <= kTried && telling < kEnoughTelling; ++n) {
    const Case other =
        planned_case(*find_law("agrees_with_oracle"), value.seed, n, scope);
    const auto agreed = agrees_by(alternative.reads, other);
    if (agreed == false) return false;
    telling += agreed && alternative.concerns(other) &&
               agrees_by(nullptr, other) == false;
  }
  return telling == kEnoughTelling;
}

}  // namespace

std::string other_dialect(const Case& value, const JudgedKernel& kernel,
                          int index, Executor& executor, TimeUse& time) {
  if (value.subject() != Subject::kAttention) return "";
  for (const Alternative& alternative : kAlternatives)
    if (explains(alternative, value, kernel, index, executor, time))
      return alternative.text;
  return "";
}

}  // namespace qkvet::properties
