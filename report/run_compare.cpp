// SPDX-License-Identifier: Apache-2.0
#include "report/run_compare.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "report/lines.h"

namespace qkvet::report {
namespace {

PerhapsVerdict verdict_in(const ResultLine* result) {
  return result == nullptr ? std::nullopt : PerhapsVerdict(result->verdict);
}

double worst_in(const ResultLine* result) {
  return result == nullptr ? 0 : result->counts.worst_ratio;
}

std::string text_of(const PerhapsVerdict& verdict) {
  return verdict ? word_of(*verdict) : "not in the run";
}

void add_change(const RunRecord& before, const RunRecord& after,
                const std::string& kernel, const std::string& law,
                RunComparison& out) {
  const ResultLine* old = before.result(kernel, law);
  const ResultLine* now = after.result(kernel, law);
  ChangedResult one{kernel + " " + law,
                    change_text(verdict_in(old), verdict_in(now))};
  switch (change_of(verdict_in(old), verdict_in(now))) {
    case Change::kWorse:
      return out.worse.push_back(one);
    case Change::kBetter:
      return out.better.push_back(one);
    case Change::kOther:
      return out.other.push_back(one);
    case Change::kSame:
      break;
  }
  one.change = ratio_text(worst_in(old)) + " -> " + ratio_text(worst_in(now));
  if (worst_in(now) > kMostNoise * worst_in(old))
    out.larger.push_back(one);
  else if (worst_in(old) > kMostNoise * worst_in(now))
    out.smaller.push_back(one);
}

// Without repeats, those of the first run in front.
Texts texts_in(const RunRecord& before, const RunRecord& after,
               std::string_view kernel, std::string ResultLine::*text) {
  Texts out;
  std::set<std::string> seen;
  for (const RunRecord* record : {&before, &after})
    for (const ResultLine* result : record->results_of(kernel))
      if (seen.insert(result->*text).second) out.push_back(result->*text);
  return out;
}

// "61 passed, 0 failed"
std::string verdicts_in(const RunRecord& record, const std::string& kernel) {
  if (record.results_of(kernel).empty()) return text_of(std::nullopt);
  const RecordCounts counts = counts_of(record.results_of(kernel));
  return fmt::format("{} passed, {} failed", counts.passed(), counts.failed());
}

// A kernel that only one of the runs has. A missing one is worse as far as it
// was judged; a new one, as far as it fails.
void add_kernel_alone(const RunRecord& before, const RunRecord& after,
                      const std::string& kernel, RunComparison& out) {
  const bool gone = after.results_of(kernel).empty();
  const auto results = (gone ? before : after).results_of(kernel);
  const auto worse =
      std::count_if(results.begin(), results.end(), [gone](const auto* result) {
        return gone ? is_judged(result->verdict) : is_failing(result->verdict);
      });
  (worse > 0 ? out.worse : out.other)
      .push_back(
          {kernel,
           verdicts_in(before, kernel) + " -> " + verdicts_in(after, kernel),
           worse > 0 ? worse : std::ssize(results)});
}

void add_kernel(const RunRecord& before, const RunRecord& after,
                const std::string& kernel, RunComparison& out) {
  if (before.results_of(kernel).empty() || after.results_of(kernel).empty())
    return add_kernel_alone(before, after, kernel, out);
  // Laws under which it was judged, and which the second run lacks.
  Texts lost;
  for (const std::string& law :
       texts_in(before, after, kernel, &ResultLine::law)) {
    const ResultLine* old = before.result(kernel, law);
    if (after.result(kernel, law) == nullptr && is_judged(old->verdict))
      lost.push_back(law);
    else
      add_change(before, after, kernel, law, out);
  }
  if (lost.size() == 1)
    add_change(before, after, kernel, lost[0], out);
  else if (!lost.empty())
    out.worse.push_back({kernel + " " + counted(std::ssize(lost), "law"),
                         "judged -> " + text_of(std::nullopt),
                         std::ssize(lost)});
}

double seconds_a_case(const RunRecord& record, const std::string& kernel) {
  const RecordCounts counts = counts_of(record.results_of(kernel));
  return counts.checked > 0
             ? counts.seconds / static_cast<double>(counts.checked)
             : 0;
}

// Lines of one name.
std::string listed(const char* name, const std::vector<ChangedResult>& changes,
                   size_t width) {
  std::string out;
  for (const ChangedResult& one : changes)
    out += wrapped_field(out.empty() ? name : "", one.name + ": " + one.change,
                         width);
  return out;
}

int64_t laws_in(const std::vector<ChangedResult>& changes) {
  int64_t sum = 0;
  for (const ChangedResult& one : changes) sum += one.laws;
  return sum;
}

}  // namespace

Change change_of(PerhapsVerdict before, PerhapsVerdict after) {
  const auto judged = [](PerhapsVerdict one) { return one && is_judged(*one); };
  const auto failing = [](PerhapsVerdict one) {
    return one && is_failing(*one);
  };
  if (before == after) return Change::kSame;
  if (after == RowVerdict::kCrash) return Change::kWorse;
  if (judged(before) && !judged(after)) return Change::kWorse;
  if (before == RowVerdict::kCrash) return Change::kBetter;
  if (failing(after)) return Change::kWorse;
  return failing(before) ? Change::kBetter : Change::kOther;
}

std::string change_text(PerhapsVerdict before, PerhapsVerdict after) {
  return text_of(before) + " -> " + text_of(after);
}

Texts other_plan(const StartLine& before, const StartLine& after, bool whole) {
  const std::pair<const char*, bool> rows[] = {
      {"seed", before.seed != after.seed},
      {"cases", before.cases != after.cases},
      {"cases_per_law", before.cases_per_law != after.cases_per_law},
      {"laws", before.laws != after.laws},
      {"exhaustive", whole && before.exhaustive != after.exhaustive},
      {"sizes", whole && before.sizes != after.sizes},
      {"pin", whole && before.pin != after.pin}};
  Texts out;
  for (const auto& [name, differs] : rows)
    if (differs) out.emplace_back(name);
  return out;
}

RunComparison compare_records(const RunRecord& before, const RunRecord& after) {
  RunComparison out;
  for (const std::string& kernel :
       texts_in(before, after, "", &ResultLine::kernel))
    add_kernel(before, after, kernel, out);
  for (const KernelLine& kernel : after.kernels) {
    const double old = seconds_a_case(before, kernel.kernel);
    const double now = seconds_a_case(after, kernel.kernel);
    if (old > 0 && now > 0) out.speed.push_back({kernel.kernel, old, now});
  }
  out.other_plan =
      joined(other_plan(before.start, after.start, /*whole=*/false));
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
  out += listed("worse", comparison.worse, width);
  out += listed("better", comparison.better, width);
  out += listed("changed", comparison.other, width);
  out += listed("larger", comparison.larger, width);
  out += listed("smaller", comparison.smaller, width);
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

}  // namespace qkvet::report
