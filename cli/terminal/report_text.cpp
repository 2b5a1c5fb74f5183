// SPDX-License-Identifier: Apache-2.0
// The report for people: failures, cause by cause, the table, and the end.
#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "cli/terminal/baseline.h"
#include "cli/terminal/report_parts.h"
#include "cli/terminal/select.h"
#include "report/lines.h"

namespace qkvet::cli {
namespace {

// Whether the cause is known; unknown failures have no common cause.
bool has_cause(const CauseOfFailures* cause) {
  return cause != nullptr && !cause->diagnosis.causes.empty();
}

// Adds a law's failures other than its first, which have other causes, to the
// groups with the same cause or, if it is unknown, with the same traits.
void add_others(const ReportInput& input, const KernelResult& kernel,
                std::vector<std::vector<const Failure*>>& groups) {
  constexpr size_t kMostReports = 5;
  const size_t first = groups.size();
  const auto belongs = [&](const Failure& failure,
                           const std::vector<const Failure*>& group,
                           bool is_other) {
    const CauseOfFailures* cause = cause_of(input.diagnoses, failure);
    if (has_cause(cause)) return cause == cause_of(input.diagnoses, *group[0]);
    return is_other && traits_of(failure.smallest, failure.judgement) ==
                           traits_of(group[0]->smallest, group[0]->judgement);
  };
  for (const Cell& cell : kernel.cells) {
    for (const Failure& failure : cell.others) {
      if (is_known(input, kernel, failure)) continue;
      size_t n = 0;
      while (n < groups.size() && !belongs(failure, groups[n], n >= first)) ++n;
      if (n == groups.size() && n >= first + kMostReports) continue;
      if (n == groups.size()) groups.emplace_back();
      groups[n].push_back(&failure);
    }
  }
}

// The failures of a kernel that are not accepted and have one cause; the first
// is the one to report. Failures without a diagnosis are together.
std::vector<std::vector<const Failure*>> failures_by_cause(
    const ReportInput& input, const KernelResult& kernel) {
  std::vector<std::vector<const Failure*>> groups;
  std::vector<const CauseOfFailures*> causes;
  for (const Cell& cell : kernel.cells) {
    if (!cell.failure || is_known(input, kernel, *cell.failure)) continue;
    const CauseOfFailures* cause = cause_of(input.diagnoses, *cell.failure);
    const auto place =
        std::find(causes.begin(), causes.end(), cause) - causes.begin();
    if (place == std::ssize(causes)) {
      causes.push_back(cause);
      groups.emplace_back();
    }
    auto& group = groups[static_cast<size_t>(place)];
    const bool best = cause != nullptr && cause->best == &*cell.failure;
    group.insert(best ? group.begin() : group.end(), &*cell.failure);
  }
  add_others(input, kernel, groups);
  return groups;
}

// The failures of one cause, the one to report first.
struct FailureGroup {
  const KernelResult* kernel;
  std::vector<const Failure*> failures;
};

std::vector<FailureGroup> groups_of(const ReportInput& input) {
  std::vector<FailureGroup> out;
  for (const KernelResult& kernel : input.result.kernels)
    for (auto& failures : failures_by_cause(input, kernel))
      out.push_back({&kernel, std::move(failures)});
  return out;
}

// The other failures of the same cause: their laws, or each with its case.
std::string also_text(const FailureGroup& group, const ReportStyle& style) {
  constexpr size_t kIndent = kNameWidth + 2;
  const size_t room = std::max(style.width, 2 * kIndent) - kIndent;
  std::string out;
  Texts failed, died;
  std::set<std::string_view> named = {group.failures[0]->law->id};
  for (size_t i = 1; i < group.failures.size(); ++i) {
    const Failure& failure = *group.failures[i];
    const std::string law = failure.law->id;
    if (style.verbose)
      out += field(i == 1 ? "also" : "",
                   fmt::format("{}   {}", law, to_string(failure.smallest)));
    else if (named.insert(failure.law->id).second)
      (is_death(failure) ? died : failed).push_back(law);
  }
  if (!failed.empty()) out += field("also", some_of(failed, room));
  if (!died.empty()) out += field("died in", some_of(died, room));
  return out;
}

// One report per cause, under the law that is most informative about it; the
// other laws are named.
std::string group_text(const ReportInput& input, const FailureGroup& group,
                       const ReportStyle& style) {
  const std::string text =
      failure_text(input, *group.kernel, *group.failures[0],
                   style.verbose ? Detail::kWhole : Detail::kShort);
  const size_t head = text.find(' ');
  return painted(text.substr(0, head), "1;31", style.colour) +
         text.substr(head) + "\n" + also_text(group, style) + "\n";
}

// Cases in which the kernels outvote the oracle.
std::string suspicion_text(const ReportInput& input, bool colour) {
  const auto& suspicion = input.result.suspicion;
  if (!suspicion) return "";
  return painted("SUSPECT", "1;33", colour) +
         fmt::format("  the oracle of QKVet, not the kernels   case {}\n",
                     suspicion->number) +
         wrapped_field("vote",
                       joined(suspicion->kernels) +
                           " agree with each other, and none of them with the "
                           "oracle") +
         field("case", to_string(suspicion->value)) +
         field("at", suspicion->where) +
         field("cases", std::to_string(input.result.suspicions)) +
         wrapped_field("please",
                       "report this case: either the oracle is wrong, or all "
                       "of them share one mistake") +
         "\n";
}

}  // namespace

std::string painted(const std::string& text, const char* code, bool colour) {
  return colour ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
}

ReportStyle screen_style(bool verbose, bool quiet) {
  return {colour_wanted(), verbose, screen_width(), quiet};
}

std::string text_report(const ReportInput& input, const RunRecord& record,
                        const ReportStyle& style) {
  const Shown shown{input, record, style};
  const std::string table =
      style.verbose ? law_table(shown) : kernel_table(shown);
  const std::string verdict = verdict_lines(shown);
  if (style.quiet) return table + verdict;
  ReportInput fitted = input;
  fitted.width = std::min(input.width, style.width);
  const std::vector<FailureGroup> groups = groups_of(input);
  std::string out;
  for (const FailureGroup& group : groups)
    out += group_text(fitted, group, style);
  const std::string coverage = coverage_lines(shown);
  return out + suspicion_text(input, style.colour) + table + "\n" + coverage +
         (coverage.empty() ? "" : "\n") + verdict;
}

bool asks_whole_plan(const ReportInput& input) {
  const RunOptions& options = input.options;
  const auto is_asked = [&options](const Law* law) {
    return law->domain.subject != Subject::kAttention ||
           std::find(options.laws.begin(), options.laws.end(), law) !=
               options.laws.end();
  };
  const auto laws = all_laws();
  const bool every_law = std::all_of(laws.begin(), laws.end(), is_asked);
  const auto short_plan =
      kShortCasesPerLaw *
      std::count_if(laws.begin(), laws.end(), [](const Law* law) {
        return law->domain.subject == Subject::kAttention;
      });
  return every_law && options.scope.pins.empty() && !options.exhaustive &&
         !options.fail_fast && !options.planned &&
         input.result.planned_cases >= short_plan;
}

ExitCode exit_code_of(const ReportInput& input) {
  return record_of(input).end.exit;
}

}  // namespace qkvet::cli
