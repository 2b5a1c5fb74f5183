// SPDX-License-Identifier: Apache-2.0
// The output of `qkvet golden verify` for people.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "cli/golden/golden_run.h"
#include "report/lines.h"

namespace qkvet::cli {
namespace {

// Sets of one kind that are named; of the others there is a number.
constexpr size_t kMostNamed = 8;

using Named = std::vector<std::pair<std::string, std::string>>;

std::string named(const char* head, const Named& sets) {
  std::string out;
  for (size_t i = 0; i < std::min(sets.size(), kMostNamed); ++i)
    out += fmt::format("{:<13} {}   {}\n", i == 0 ? head : "", sets[i].first,
                       sets[i].second);
  if (sets.size() > kMostNamed)
    out += fmt::format("{:<13} and {} more\n", "", sets.size() - kMostNamed);
  return out;
}

const GoldenSet& set_of(const GoldenRun& run, size_t n) {
  return (*run.sets)[n];
}

std::string set_name_of(const Failure& failure) {
  constexpr std::string_view kHead = "set ";
  return failure.recorded.substr(kHead.size());
}

// One report per cause; the other failing sets are named.
std::string failures(const ReportInput& input, const KernelResult& kernel,
                     const std::vector<SetVerdict>& verdicts) {
  std::vector<std::pair<const CauseOfFailures*, std::vector<const Failure*>>>
      groups;
  for (size_t n = 0; n < verdicts.size(); ++n) {
    const Cell& cell = kernel.cells[n];
    // Right answers that differ from the set are listed below.
    if (verdicts[n].correct.verdict != Verdict::kFailed) continue;
    const CauseOfFailures* cause = cause_of(input.diagnoses, *cell.failure);
    auto found =
        std::find_if(groups.begin(), groups.end(),
                     [&](const auto& group) { return group.first == cause; });
    if (found == groups.end()) found = groups.insert(groups.end(), {cause, {}});
    const bool best = cause != nullptr && cause->best == &*cell.failure;
    found->second.insert(best ? found->second.begin() : found->second.end(),
                         &*cell.failure);
  }
  std::string out;
  for (const auto& [cause, members] : groups) {
    out += failure_text(input, kernel, *members[0]) + "\n";
    std::string others;
    for (size_t i = 1; i < std::min(members.size(), kMostNamed + 1); ++i)
      others += (i == 1 ? "" : ", ") + set_name_of(*members[i]);
    if (members.size() > kMostNamed + 1)
      others +=
          fmt::format(" and {} more sets", members.size() - kMostNamed - 1);
    if (!others.empty()) out += wrapped_field("also", others);
    out += "\n";
  }
  return out;
}

struct Counts {
  size_t correct = 0, wrong = 0, unlike = 0, changed = 0, same = 0, silent = 0,
         open = 0;
  double worst_ratio = 0;
};

Counts counts_of(const std::vector<SetVerdict>& verdicts) {
  Counts counts;
  for (const SetVerdict& one : verdicts) {
    const Verdict correct = one.correct.verdict;
    counts.correct += correct == Verdict::kPassed;
    counts.wrong += correct == Verdict::kFailed;
    counts.silent += correct == Verdict::kUnsupported;
    counts.open += correct == Verdict::kGaveUp;
    counts.unlike +=
        correct == Verdict::kPassed && one.expected.verdict == Verdict::kFailed;
    counts.worst_ratio =
        std::max(counts.worst_ratio,
                 correct == Verdict::kPassed ? one.correct.worst_ratio : 0);
    if (one.change) (one.change->changed > 0 ? counts.changed : counts.same)++;
  }
  return counts;
}

std::string details(const GoldenRun& run, size_t kernel,
                    const GoldenRunOptions& options) {
  Named changed, unlike, open;
  const std::vector<SetVerdict>& verdicts = run.verdicts[kernel];
  for (size_t n = 0; n < verdicts.size(); ++n) {
    const SetVerdict& one = verdicts[n];
    const std::string& name = set_of(run, n).name;
    if (one.correct.verdict == Verdict::kGaveUp)
      open.emplace_back(name, one.correct.reason);
    if (one.correct.verdict == Verdict::kPassed &&
        one.expected.verdict == Verdict::kFailed)
      unlike.emplace_back(name, fmt::format("{}: {}, expected {} (allowed {})",
                                            one.expected.finding->where,
                                            one.expected.finding->actual,
                                            one.expected.finding->expected,
                                            one.expected.finding->allowed));
    if (one.change && one.change->changed > 0)
      changed.emplace_back(
          name,
          change_text(*one.change) +
              (one.correct.verdict == Verdict::kPassed ? ": still correct"
                                                       : ": wrong") +
              (changed_too_much(one, options) ? ", more than allowed" : ""));
  }
  return named("not as set", unlike) + named("changed", changed) +
         named("gave up", open);
}

std::string table(const GoldenRun& run) {
  size_t width = 6;
  for (const KernelResult& kernel : run.result.kernels)
    width = std::max(width, kernel.kernel.judged.info.name.size());
  std::string out = fmt::format(
      "{:<{}}  {:>7}  {:>5}  {:>11}  {:>10}  {:>9}  {:>7}  {:>10}\n", "kernel",
      width, "correct", "wrong", "error/bound", "not as set", "unchanged",
      "changed", "not judged");
  for (size_t k = 0; k < run.verdicts.size(); ++k) {
    const Counts c = counts_of(run.verdicts[k]);
    out += fmt::format(
        "{:<{}}  {:>7}  {:>5}  {:>11}  {:>10}  {:>9}  {:>7}  {:>10}\n",
        run.result.kernels[k].kernel.judged.info.name, width, c.correct,
        c.wrong, c.worst_ratio > 0 ? ratio_text(c.worst_ratio) : "-", c.unlike,
        c.same, c.changed, c.silent + c.open);
  }
  return out;
}

// Why sets were not judged, the commonest reasons first.
std::string silent_text(const GoldenRun& run) {
  std::map<std::string, int> counts;
  for (const auto& kernel : run.verdicts)
    for (const SetVerdict& one : kernel)
      if (one.correct.verdict == Verdict::kUnsupported)
        ++counts[one.correct.reason];
  std::vector<std::pair<std::string, int>> sorted(counts.begin(), counts.end());
  std::stable_sort(
      sorted.begin(), sorted.end(),
      [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (size_t i = 0; i < std::min(sorted.size(), kMostNamed); ++i)
    text += fmt::format("{}{} ({})", i > 0 ? "; " : "", sorted[i].first,
                        sorted[i].second);
  if (sorted.size() > kMostNamed)
    text += fmt::format("; {} further reasons", sorted.size() - kMostNamed);
  return text.empty() ? "" : wrapped_field("not judged", text);
}

std::string summary(const GoldenRun& run, ExitCode code) {
  size_t judged = 0;
  for (const auto& kernel : run.verdicts)
    for (const SetVerdict& one : kernel)
      judged += one.correct.verdict == Verdict::kPassed ||
                one.correct.verdict == Verdict::kFailed;
  return fmt::format("\n{}  {} sets, {} kernel{}: {} judged   exit {}\n",
                     code == kConforms         ? "PASSED"
                     : code == kNothingChecked ? "OPEN"
                                               : "FAILED",
                     run.sets->size(), run.verdicts.size(),
                     run.verdicts.size() == 1 ? "" : "s", judged,
                     static_cast<int>(code));
}

}  // namespace

std::string change_text(const Change& change) {
  if (change.changed == 0) return "unchanged";
  const std::string ulps =
      std::isinf(change.most_ulps)
          ? "beyond numbers"
          : fmt::format("at most {:.0f} ulp{}", change.most_ulps,
                        change.most_ulps == 1 ? "" : "s");
  return fmt::format("{} of {} numbers, {}, {} of the bound, at {}",
                     change.changed, change.elements, ulps,
                     ratio_text(change.most_of_bound), change.where);
}

std::string golden_text(const GoldenRun& run, const ReportInput& input,
                        const GoldenRunOptions& options) {
  std::string out;
  Named doubtful;
  for (const DoubtfulSet& one : run.doubtful)
    doubtful.emplace_back(one.set->name, one.reason);
  out += named("in doubt", doubtful);
  for (size_t k = 0; k < run.verdicts.size(); ++k) {
    const KernelResult& kernel = run.result.kernels[k];
    const std::string wrong = failures(input, kernel, run.verdicts[k]);
    const std::string rest = details(run, k, options);
    out += wrong;
    if (!rest.empty())
      out += kernel.kernel.judged.info.name + "\n" + rest + "\n";
  }
  return out + table(run) + summary(run, exit_code_of(input)) +
         silent_text(run);
}

}  // namespace qkvet::cli
