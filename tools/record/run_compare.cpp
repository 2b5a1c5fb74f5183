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

// Pairs of either run, those of the first in front.
std::vector<std::pair<std::string, std::string>> pairs_of(
    const RunRecord& before, const RunRecord& after) {
  std::vector<std::pair<std::string, std::string>> out;
  std::set<std::pair<std::string, std::string>> seen;
  for (const RunRecord* record : {&before, &after})
    for (const Json& result : record->results) {
      auto pair = std::pair(text_of(result, "kernel"), text_of(result, "law"));
      if (seen.insert(pair).second) out.push_back(std::move(pair));
    }
  return out;
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

const char* or_absent(const std::string& verdict) {
  return verdict.empty() ? "not in the run" : verdict.c_str();
}

// Lines of one name.
std::string listed(const char* name, const std::vector<ChangedResult>& changes,
                   bool by_ratio, size_t width) {
  std::string out;
  for (const ChangedResult& one : changes)
    out += wrapped_field(
        out.empty() ? name : "",
        by_ratio ? fmt::format("{} {}: {} -> {}", one.kernel, one.law,
                               ratio_text(one.ratio_before),
                               ratio_text(one.ratio_after))
                 : fmt::format("{} {}: {} -> {}", one.kernel, one.law,
                               or_absent(one.before), or_absent(one.after)),
        width);
  return out;
}

}  // namespace

Change change_of(std::string_view before, std::string_view after) {
  if (before == after) return Change::kSame;
  if (after == "crash") return Change::kWorse;
  if (before == "crash")
    return is_failing(after) || after == "passed" ? Change::kBetter
                                                  : Change::kOther;
  if (is_failing(after)) return Change::kWorse;
  if (before == "passed")
    return after.empty() ? Change::kOther : Change::kWorse;
  return is_failing(before) && after == "passed" ? Change::kBetter
                                                 : Change::kOther;
}

RunComparison compare_records(const RunRecord& before, const RunRecord& after) {
  RunComparison out;
  for (const auto& [kernel, law] : pairs_of(before, after))
    add_change(before, after, kernel, law, out);
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
      counted(std::ssize(comparison.worse), comparison.row) + " worse",
      std::to_string(comparison.better.size()) + " better",
      std::to_string(comparison.other.size()) + " otherwise changed",
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
