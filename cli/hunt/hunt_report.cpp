// SPDX-License-Identifier: Apache-2.0
#include "cli/hunt/hunt_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "core/base/printable.h"
#include "core/base/read_file.h"
#include "report/lines.h"
#include "report/written_file.h"

namespace qkvet::cli {
namespace {

std::string painted(const std::string& text, bool colour) {
  const size_t head = text.find(' ');
  if (!colour) return text;
  return "\x1b[1;31m" + text.substr(0, head) + "\x1b[0m" + text.substr(head);
}

std::string counted(int64_t n, std::string_view what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

// The report on a cause, and the other laws that fail for it.
std::string report_text(const ReportInput& input,
                        const HuntFindings::Report& report, bool colour) {
  std::string out = painted(
      failure_text(input, *report.kernel, *report.failure) + "\n", colour);
  std::set<const Law*> named = {report.failure->law};
  for (const Failure* other : report.others)
    if (named.insert(other->law).second)
      out += field(
          named.size() == 2 ? "also" : "",
          fmt::format("{}   {}", other->law->id, to_string(other->smallest)));
  return out;
}

std::string lost_text(const HuntSummary& summary, const LostFailure& lost,
                      bool colour) {
  std::string again =
      fmt::format("qkvet replay {} --law {}", lost.text, lost.law);
  const SelectedKernels& selected = summary.hunted.selected;
  for (const KernelUnderTest& kernel : selected.kernels)
    if (kernel.judged.info.name == lost.kernel)
      again += " " + kernel_arguments(selected, kernel);
  if (!lost.died)
    return painted(fmt::format("UNSTEADY {}   {}\n", lost.law, lost.kernel),
                   colour) +
           field("case", lost.text) +
           wrapped_field("", "it failed once, and then in no further run") +
           field("again", again);
  return painted(fmt::format("CRASH {}   {}\n", lost.law, lost.kernel),
                 colour) +
         field("case", lost.text) +
         wrapped_field("",
                       "the process that hunts died here, and a worker does "
                       "not: what the process holds matters, or what a "
                       "sanitizer in it sees") +
         (lost.said.empty() ? "" : wrapped_field("printed", lost.said)) +
         field("input", lost.file) + field("again", again + " --in-process");
}

// "FOUND  shapes: 1 finding in 300 executions, 0.2 s, 1858 a second"
std::string summary_line(const FuzzTarget& target, const HuntEnd& end,
                         size_t found) {
  return fmt::format(
      "{}  {}: {} in {}, {:.2f} s, {:.0f} a second",
      found > 0 ? "FOUND" : "CLEAN", target.name,
      counted(static_cast<int64_t>(found), "finding"),
      counted(end.executions, "execution"), end.seconds,
      static_cast<double>(end.executions) / std::max(end.seconds, 1e-9));
}

// The case at which a correct kernel is nearest to being flagged.
std::string closest_text(const std::string& folder) {
  HuntEvent closest;
  for (const HuntEvent& event : read_events(folder))
    if (event.what == "closest" && event.ratio > closest.ratio) closest = event;
  if (closest.ratio == 0) return "";
  return field("closest", fmt::format("error/bound {} of what passed: {} under "
                                      "{}",
                                      ratio_text(closest.ratio), closest.kernel,
                                      closest.law)) +
         field("", closest.text);
}

std::string wrong_in(const HuntJob& job) {
  for (const HuntEvent& event : read_events(job.folder))
    if (event.what == "wrong") return printable(event.text);
  return "";
}

}  // namespace

ExitCode hunt_exit(const HuntEnd& end, const HuntFindings& findings) {
  bool failed = !findings.lost.empty(), died = false;
  for (const LostFailure& lost : findings.lost) died |= lost.died;
  for (const KernelResult& kernel : findings.result.kernels)
    for (const Cell& cell : kernel.cells) {
      failed = true;
      died |= cell.crashed();
    }
  if (died) return kKernelDied;
  if (failed) return kLawFailed;
  return end.checked > 0 && end.error.empty() ? kConforms : kNothingChecked;
}

std::string hunt_text(const HuntSummary& summary, bool colour) {
  const HuntFindings& findings = summary.findings;
  const HuntEnd& end = summary.end;
  RunOptions options;
  options.laws = summary.hunted.rules.laws;
  const ReportInput input{findings.result,     options, summary.hunted.selected,
                          findings.in_process, nullptr, &findings.diagnoses};
  const std::vector<HuntFindings::Report> reports = findings.reports();
  std::string out;
  for (const HuntFindings::Report& report : reports)
    out += report_text(input, report, colour) + "\n";
  for (const LostFailure& lost : findings.lost)
    out += lost_text(summary, lost, colour) + "\n";
  out += summary_line(*summary.hunted.target, end,
                      reports.size() + findings.lost.size());
  out += fmt::format(", seed {}\n", summary.seed);
  out += closest_text(summary.job.folder);
  if (end.interrupted) out += field("ended", "by you");
  if (!end.error.empty()) out += wrapped_field("ended", end.error);
  if (!end.error.empty() && !end.crashes.empty())
    out += field("input", end.crashes.back().file);
  if (!summary.corpus.empty()) out += field("corpus", summary.corpus);
  if (!summary.regressions.empty())
    out += field("regressions", summary.regressions);
  return out;
}

std::string bytes_text(const Hunted& hunted, const HuntJob& job,
                       const HuntEnd& end) {
  const FuzzTarget& target = *hunted.target;
  const std::string wrong = wrong_in(job);
  std::string out;
  for (const HuntCrash& crash : end.crashes)
    out += fmt::format("{} {}   execution {}, {:.1f} s\n",
                       wrong.empty() ? "CRASH" : "FAIL ", target.name,
                       end.executions, end.seconds) +
           wrapped_field("law", target.sentence) +
           wrapped_field("wrong", wrong.empty()
                                      ? "this program died (" + crash.how + ")"
                                      : wrong) +
           field("input", crash.file) +
           field("again", fmt::format("qkvet fuzz {} --replay {}\n",
                                      target.name, crash.file));
  out += summary_line(target, end, end.crashes.size()) + "\n";
  if (end.interrupted) out += field("ended", "by you");
  if (!end.error.empty()) out += wrapped_field("ended", end.error);
  return out;
}

ExitCode bytes_exit(const HuntJob& job, const HuntEnd& end) {
  if (!end.crashes.empty())
    return wrong_in(job).empty() ? kKernelDied : kLawFailed;
  return end.checked > 0 && end.error.empty() ? kConforms : kNothingChecked;
}

int add_regressions(const std::string& path, const HuntFindings& findings,
                    std::string* error) {
  std::string text;
  std::error_code code;
  if (std::filesystem::exists(path, code)) *error = read_file(path, &text);
  if (!error->empty()) return -1;
  if (!text.empty() && text.back() != '\n') text += '\n';
  int added = 0;
  for (const HuntFindings::Report& report : findings.reports()) {
    const std::string line = fmt::format("{} {}", report.failure->law->id,
                                         to_string(report.failure->smallest));
    if (("\n" + text).find("\n" + line + " ") != std::string::npos) continue;
    text += fmt::format("{}  # {} {}\n", line,
                        report.kernel->kernel.judged.info.name, report.cause);
    ++added;
  }
  if (added == 0) return 0;
  *error = write_file(path, text);
  return error->empty() ? added : -1;
}

}  // namespace qkvet::cli
