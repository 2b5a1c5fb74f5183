// SPDX-License-Identifier: Apache-2.0
#include "golden/check/verify.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/base/half.h"
#include "core/door/call_plan.h"
#include "golden/import/source_view.h"
#include "properties/judging/answer.h"
#include "properties/judging/compare.h"
#include "properties/judging/empty_row.h"
#include "properties/judging/subject.h"

namespace qkvet::golden {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The numbers of a binary type in their order, as consecutive integers; those
// of both signs of zero are the same.
template <class Bits>
int64_t rank_of(const std::byte* at) {
  Bits bits;
  std::memcpy(&bits, at, sizeof bits);
  constexpr Bits kSign = Bits{1} << (8 * sizeof(Bits) - 1);
  const auto magnitude = static_cast<int64_t>(bits & (kSign - 1));
  return (bits & kSign) != 0 ? -magnitude : magnitude;
}

int64_t rank_of(Dtype dtype, const std::byte* at) {
  if (dtype == Dtype::kF64) return rank_of<uint64_t>(at);
  return dtype == Dtype::kF32 ? rank_of<uint32_t>(at) : rank_of<uint16_t>(at);
}

// One output of the set beside that of the kernel.
struct Beside {
  OutputName name;
  const RecordedOutput& recorded;
  const std::vector<std::byte>& actual;  // in `dtype`
  Dtype dtype;
  const CallBounds& bounds;  // of the kernel
  const Case& value;         // of the call

  // Keys that the row of the element sees; a layer has no rows without.
  int64_t visible(size_t n) const {
    const Grid grid(value.shape, name.tensor);
    const size_t row = n / static_cast<size_t>(grid.width());
    return row < bounds.visible.size() ? bounds.visible[row] : 1;
  }
  std::string place(size_t n) const {
    const std::string element =
        element_name(name.tensor, value.shape, static_cast<int64_t>(n));
    return name.command < 0
               ? element
               : "command " + std::to_string(name.command) + ": " + element;
  }
};

void add_change(const Beside& one, Change& change) {
  const auto width = static_cast<size_t>(dtype_bytes(one.dtype));
  const std::vector<double> now = as_doubles(one.actual, one.dtype);
  const std::vector<double> then = as_doubles(one.recorded.bytes, one.dtype);
  const std::vector<double>& bound = one.bounds.of(one.name.tensor);
  for (size_t n = 0; n < now.size(); ++n) {
    if (one.visible(n) == kRowNotCounted) continue;
    ++change.elements;
    if (equal_numbers(now[n], then[n])) continue;
    ++change.changed;
    const double error = std::fabs(now[n] - then[n]);
    const bool finite = std::isfinite(now[n]) && std::isfinite(then[n]);
    const double ulps =
        finite ? std::fabs(static_cast<double>(
                               rank_of(one.dtype, &one.actual[n * width])) -
                           static_cast<double>(rank_of(
                               one.dtype, &one.recorded.bytes[n * width])))
               : kInfinity;
    const double limit = n < bound.size() ? bound[n] : 0;
    const double ratio = !finite     ? kInfinity
                         : limit > 0 ? error / limit
                                     : kInfinity;
    if (change.where.empty() || ulps > change.most_ulps)
      change.where = one.place(n);
    change.most_ulps = std::max(change.most_ulps, ulps);
    change.most_of_bound = std::max(change.most_of_bound, ratio);
  }
}

// Half a unit in the last place of a number that was rounded to `dtype`.
double rounding(Dtype dtype, double value) {
  return std::max(unit_roundoff(dtype) * std::fabs(value),
                  underflow_error(dtype));
}

// Compares a row that sees no key. Compares nothing if the two dialects differ,
// or one of them is unspecified.
void compare_empty(const Beside& one, size_t n, double actual, double expected,
                   const EmptyRow& theirs, const EmptyRow& ours,
                   Judgement& judgement) {
  const auto a = declared_number(theirs, one.name.tensor);
  const auto b = declared_number(ours, one.name.tensor);
  if (!a || !b || !equal_numbers(*a, *b)) return;
  ++judgement.compared;
  if (equal_numbers(actual, expected)) return;
  Finding finding;
  finding.where = one.place(n);
  finding.expected = number_text(expected, one.dtype);
  finding.actual = number_text(actual, one.dtype);
  finding.ratio = kInfinity;
  add_failure(judgement, std::move(finding));
}

// The kernel is within its own bound of the truth and the source within its
// own: so they are within both of each other.
void compare_with_source(const Beside& one, SourceView& source,
                         const CallBounds& theirs, const KernelInfo& kernel,
                         Judgement& judgement) {
  const std::vector<double> actual = as_doubles(one.actual, one.dtype);
  const std::vector<double>& expected =
      *source.numbers(call_of(one.name), one.name.tensor);
  const std::vector<double>& ours = one.bounds.of(one.name.tensor);
  const std::vector<double>& other = theirs.of(one.name.tensor);
  const double unit = one.name.tensor == TensorName::kLse
                          ? lse_unit(kernel) / lse_unit(source.info())
                          : 1;
  for (size_t n = 0; n < actual.size(); ++n) {
    if (one.visible(n) == kRowNotCounted) continue;
    const double wanted = expected[n] * unit;
    if (one.visible(n) == 0) {
      compare_empty(one, n, actual[n], wanted,
                    empty_row_of(source.info().dialect, one.value),
                    empty_row_of(kernel.dialect, one.value), judgement);
      continue;
    }
    const double bound =
        ours[n] + other[n] * unit + rounding(one.recorded.dtype, wanted);
    auto finding =
        compare_with_bound({actual[n], wanted, bound, 0, one.dtype}, judgement);
    if (!finding) continue;
    finding->where = one.place(n);
    add_failure(judgement, std::move(*finding));
  }
}

Judgement without_verdict(Verdict verdict, std::string reason) {
  Judgement judgement;
  judgement.verdict = verdict;
  judgement.reason = std::move(reason);
  return judgement;
}

// "" or why the numbers of the source are not those that the kernel means.
std::string other_reading(const GoldenSet& set, const KernelInfo& kernel) {
  if (!set.finding.empty()) return "the source is wrong here: " + set.finding;
  return reading_of(set.value(), set.dialect) ==
                 reading_of(set.value(), kernel.dialect)
             ? ""
             : "the source follows another dialect than the kernel";
}

// Whether k or v hold NaN or infinity in a row that counts: only kernels that
// ignore them where they are masked can be checked.
bool has_nonfinite_keys(const Case& value, const Inputs& inputs) {
  const Shape& s = value.shape;
  if (value.subject() != Subject::kAttention || s.Tk == 0) return false;
  const auto look = [&](const std::vector<double>& values, int64_t width) {
    for (size_t n = 0; n < values.size(); ++n) {
      const int64_t row = static_cast<int64_t>(n) / width;
      if (!std::isfinite(values[n]) &&
          row % s.Tk < counted_keys(value, row / s.Tk / s.Hkv))
        return true;
    }
    return false;
  };
  return look(inputs.k, s.d) || look(inputs.v, s.dv);
}

// "" or the reason why this kernel cannot be checked.
std::string not_asked(CaseWork& work, const JudgedKernel& kernel) {
  return kernel.info.dialect.masked_nonfinite != QKVET_MASKED_IGNORED &&
                 has_nonfinite_keys(work.value(), work.own_inputs())
             ? "NaN or infinity at masked keys: the kernel does not declare "
               "that it ignores them"
             : "";
}

}  // namespace

Judgement judge_source(const GoldenSet& set, TimeUse& time) {
  if (set.arithmetic == Arithmetic::kKernel)
    return without_verdict(Verdict::kUnsupported,
                           "recorded: what a kernel did, not what is right");
  return SourceView(set, time).judge();
}

SetVerdict verify_set(const GoldenSet& set, const JudgedKernel& kernel,
                      int index, Executor& executor, TimeUse& time) {
  SetVerdict verdict;
  CaseWork work(agreement_about(set.value().subject()), set.value(),
                /*with_twin=*/true, time);
  if (auto settled = work.settled(kernel)) {
    verdict.correct = verdict.expected = *settled;
    return verdict;
  }
  if (const std::string why = not_asked(work, kernel); !why.empty()) {
    verdict.correct = verdict.expected =
        without_verdict(Verdict::kUnsupported, why);
    return verdict;
  }
  std::vector<CallOutcome> outcomes;
  {
    const std::vector<KernelCall> calls = work.calls_for(kernel);
    const Stopwatch watch(time.kernel);
    outcomes = executor.run(index, calls);
  }
  verdict.correct = work.judge(kernel, outcomes);
  if (verdict.correct.verdict != Verdict::kPassed &&
      verdict.correct.verdict != Verdict::kFailed) {
    verdict.expected = verdict.correct;
    return verdict;
  }
  const bool recorded = set.arithmetic == Arithmetic::kKernel;
  const std::string apart = other_reading(set, kernel.info);
  if (recorded)
    verdict.expected = without_verdict(Verdict::kUnsupported, "recorded");
  else if (!apart.empty())
    verdict.expected = without_verdict(Verdict::kUnsupported, apart);
  SourceView source(set, time);
  for (const auto& [text, output] : set.recording.outputs) {
    const OutputName name = *parse_output_name(text);
    const size_t call = call_of(name);
    const std::vector<std::byte>& actual =
        outcomes[call].*output_member(name.tensor);
    if (actual.empty()) continue;  // the kernel does not return it
    const CallBounds bounds = work.bounds(kernel, call, kernel.model);
    const Beside one{name,   output,
                     actual, output_dtype(set.value(), name.tensor),
                     bounds, work.whole_call(kernel, call).value};
    if (recorded && output.dtype == one.dtype) {
      if (!verdict.change) verdict.change.emplace();
      add_change(one, *verdict.change);
    }
    if (!recorded && apart.empty())
      compare_with_source(one, source, source.bounds(call), kernel.info,
                          verdict.expected);
  }
  return verdict;
}

}  // namespace qkvet::golden
