// SPDX-License-Identifier: Apache-2.0
#include "tools/record/run_compare.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "tools/base/lines.h"

namespace qkvet::tools {
namespace {

bool is_failing(std::string_view verdict) {
  return verdict == "FAILED" || verdict == "crash";
}

std::string verdict_in(const Json* result) {
  return result == nullptr ? "" : text_of(*result, "verdict");
}

double worst_in(const Json* result) {
  return result == nullptr ? 0 : number_of(*result, "worst_error_over_bound");
}

void add_change(const RunRecord& before, const RunRecord& after,
                const std::string& kernel, const std::string& law,
                RunComparison& out) {
  const Json* old = before.result(kernel, law);
  const Json* now = after.result(kernel, law);
  const ChangedResult one{kernel,          law,           verdict_in(old),
                          verdict_in(now), worst_in(old), worst_in(now)};
  switch (change_of(one.before, one.after)) {
    case Change::kWorse:
      return out.worse.push_back(one);
    case Change::kBetter:
      return out.better.push_back(one);
    case Change::kOther:
      return out.other.push_back(one);
    case Change::kSame:
      break;
  }
  if (one.ratio_after > kMostNoise * one.ratio_before)
    out.larger.push_back(one);
  else if (one.ratio_before > kMostNoise * one.ratio_after)
    out.smaller.push_back(one);
}

// Without repeats, those of the first run in front.
std::vector<std::string> texts_in(const RunRecord& before,
                                  const RunRecord& after,
                                  const std::string& kernel) {
  std::vector<std::string> out;
  std::set<std::string> seen;
  for (const RunRecord* record : {&before, &after})
    for (const Json& result : record->results) {
      const std::string name = text_of(result, "kernel");
      std::string text = kernel.empty() ? name : text_of(result, "law");
      if ((kernel.empty() || name == kernel) && seen.insert(text).second)
        out.push_back(std::move(text));
    }
  return out;
}

// "61 passed, 0 failed"; "" where the kernel is not in the run.
std::string verdicts_in(const RunRecord& record, const std::string& kernel) {
  if (record.results_of(kernel).empty()) return "";
  const RecordCounts counts = counts_of(record, kernel);
  return fmt::format("{} passed, {} failed", counts.passed, counts.failed);
}

// A kernel that is in one of the runs alone. Gone, it is worse as far as it was
// judged; new, as far as it fails.
void add_kernel_alone(const RunRecord& before, const RunRecord& after,
                      const std::string& kernel, RunComparison& out) {
  ChangedResult one{kernel, "", verdicts_in(before, kernel),
                    verdicts_in(after, kernel)};
  const bool gone = one.after.empty();
  const auto results = (gone ? before : after).results_of(kernel);
  const auto worse =
      std::count_if(results.begin(), results.end(), [gone](const Json* result) {
        const std::string verdict = text_of(*result, "verdict");
        return gone ? is_judged(verdict) : is_failing(verdict);
      });
  one.laws = worse > 0 ? worse : std::ssize(results);
  (worse > 0 ? out.worse : out.other).push_back(std::move(one));
}

// Laws under which the kernel was judged, and which the second run lacks.
void add_lost_laws(const std::vector<std::string>& laws,
                   const RunRecord& before, const std::string& kernel,
                   RunComparison& out) {
  if (laws.empty()) return;
  const bool one = laws.size() == 1;
  out.worse.push_back(
      {kernel, one ? laws[0] : counted(std::ssize(laws), "law"),
       one ? verdict_in(before.result(kernel, laws[0])) : "judged", ""});
  out.worse.back().laws = std::ssize(laws);
}

void add_kernel(const RunRecord& before, const RunRecord& after,
                const std::string& kernel, RunComparison& out) {
  if (before.results_of(kernel).empty() || after.results_of(kernel).empty())
    return add_kernel_alone(before, after, kernel, out);
  std::vector<std::string> lost;
  for (const std::string& law : texts_in(before, after, kernel))
    if (after.result(kernel, law) == nullptr &&
        is_judged(verdict_in(before.result(kernel, law))))
      lost.push_back(law);
    else
      add_change(before, after, kernel, law, out);
  add_lost_laws(lost, before, kernel, out);
}

double seconds_a_case(const RunRecord& record, const std::string& kernel) {
  const RecordCounts counts = counts_of(record, kernel);
  return counts.checked > 0
             ? counts.seconds / static_cast<double>(counts.checked)
             : 0;
}

std::string plan_difference(const RunRecord& before, const RunRecord& after) {
  std::string out;
  for (const char* field : {"seed", "cases", "cases_per_law", "laws"})
    if (part_of(before.start, field) != part_of(after.start, field))
      out += (out.empty() ? "" : ", ") + std::string(field);
  return out;
}

std::string or_absent(const std::string& verdict) {
  return verdict.empty() ? "not in the run" : verdict;
}

// Lines of one name.
std::string listed(const char* name, const std::vector<ChangedResult>& changes,
                   bool by_ratio, size_t width) {
  std::string out;
  for (const ChangedResult& one : changes)
    out += wrapped_field(
        out.empty() ? name : "",
        fmt::format(
            "{}{}{}: {} -> {}", one.kernel, one.law.empty() ? "" : " ", one.law,
            by_ratio ? ratio_text(one.ratio_before) : or_absent(one.before),
            by_ratio ? ratio_text(one.ratio_after) : or_absent(one.after)),
        width);
  return out;
}

int64_t laws_in(const std::vector<ChangedResult>& changes) {
  int64_t sum = 0;
  for (const ChangedResult& one : changes) sum += one.laws;
  return sum;
}

}  // namespace

bool is_judged(std::string_view verdict) {
  return verdict == "passed" || is_failing(verdict);
}

Change change_of(std::string_view before, std::string_view after) {
  if (before == after) return Change::kSame;
  if (after == "crash") return Change::kWorse;
  if (is_judged(before) && !is_judged(after)) return Change::kWorse;
  if (before == "crash") return Change::kBetter;
  if (is_failing(after)) return Change::kWorse;
  return is_failing(before) ? Change::kBetter : Change::kOther;
}

RunComparison compare_records(const RunRecord& before, const RunRecord& after) {
  RunComparison out;
  for (const std::string& kernel : texts_in(before, after, ""))
    add_kernel(before, after, kernel, out);
  for (const Json& kernel : after.kernels) {
    const std::string name = text_of(kernel, "kernel");
    const double old = seconds_a_case(before, name);
    const double now = seconds_a_case(after, name);
    if (old > 0 && now > 0) out.speed.push_back({name, old, now});
  }
  out.other_plan = plan_difference(before, after);
  out.row = row_word(after);
  return out;
}

std::string comparison_text(const RunComparison& comparison, size_t width) {
  std::string out = fmt::format(
      "{}  {}, {}, {}; error/bound: {} larger, {} smaller by more than {} "
      "times\n",
      comparison.worse.empty() ? "NO WORSE" : "WORSE",
      counted(laws_in(comparison.worse), comparison.row) + " worse",
      std::to_string(comparison.better.size()) + " better",
      std::to_string(laws_in(comparison.other)) + " otherwise changed",
      comparison.larger.size(), comparison.smaller.size(), kMostNoise);
  out += listed("worse", comparison.worse, /*by_ratio=*/false, width);
  out += listed("better", comparison.better, /*by_ratio=*/false, width);
  out += listed("changed", comparison.other, /*by_ratio=*/false, width);
  out += listed("larger", comparison.larger, /*by_ratio=*/true, width);
  out += listed("smaller", comparison.smaller, /*by_ratio=*/true, width);
  if (!comparison.other_plan.empty())
    out += wrapped_field("plans",
                         "differ in " + comparison.other_plan +
                             ": what changed may be the cases",
                         width);
  std::string name = "speed";
  for (const RunComparison::Speed& one : comparison.speed) {
    out += field(name, fmt::format("{}: {:.3g} -> {:.3g} ms a checked case, "
                                   "calls and judging ({:.2f} times)",
                                   one.kernel, 1e3 * one.before,
                                   1e3 * one.after, one.after / one.before));
    name.clear();
  }
  return out;
}

}  // namespace qkvet::tools
