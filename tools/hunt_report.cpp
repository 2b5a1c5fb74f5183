// SPDX-License-Identifier: Apache-2.0
#include "tools/hunt_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>

#include "properties/failure.h"
#include "properties/shrink.h"
#include "tools/lines.h"

namespace qkvet {
namespace {

// Inputs of one kernel under one law that are shrunk, and of one kernel.
constexpr size_t kMostOfLaw = 3;
constexpr size_t kMostOfKernel = 16;
// Runs of an input until it fails again.
constexpr int kMostRuns = 10;

std::vector<uint8_t> bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// What is to be looked into: events, and inputs at which a process died.
std::vector<HuntEvent> failures_called_out(const Hunted& hunted,
                                           const HuntJob& job,
                                           const HuntEnd& end) {
  std::vector<HuntEvent> all = read_events(job.folder);
  std::erase_if(all, [](const HuntEvent& one) { return one.what != "found"; });
  for (const HuntCrash& crash : end.crashes) {
    const FuzzInput input = decode_input(bytes_of(crash.file), hunted.rules);
    const auto& kernels = hunted.selected.kernels;
    for (size_t n = 0; n < kernels.size(); ++n)
      if (crash.kernel < 0 || static_cast<size_t>(crash.kernel) == n)
        all.push_back({"died " + crash.file, kernels[n].judged.info.name,
                       input.law->id, to_string(input.value), end.executions,
                       end.seconds});
  }
  return all;
}

class Inquest {
 public:
  Inquest(const Hunted& hunted, HuntFindings& out)
      : hunted_(hunted),
        open_(executor_factory(hunted.selected, /*in_process=*/false)),
        out_(out) {}

  void look_at(const KernelUnderTest& kernel,
               const std::vector<HuntEvent>& events) {
    out_.result.kernels.push_back({kernel, {}, {}});
    std::map<std::string, size_t> of_law;
    size_t all = 0;
    for (const HuntEvent& event : events) {
      if (event.kernel != kernel.judged.info.name) continue;
      if (of_law[event.law]++ >= kMostOfLaw || all++ >= kMostOfKernel) continue;
      look_at(kernel, event);
    }
  }

 private:
  Executor* executor(size_t library) {
    executors_.resize(std::max(executors_.size(), library + 1));
    if (executors_[library] == nullptr) {
      Opened opened = open_(library);
      if (opened.executor == nullptr) out_.error = opened.error;
      executors_[library] = std::move(opened.executor);
    }
    return executors_[library].get();
  }

  void look_at(const KernelUnderTest& kernel, const HuntEvent& event) {
    const Law* law = find_law(event.law);
    const ParsedCase parsed = parse_case(event.text);
    Executor* worker = executor(kernel.library);
    if (law == nullptr || !parsed.value || worker == nullptr) return;
    Candidate candidate{event.execution, law, *parsed.value, {}, event.seconds};
    for (int n = 0; n < kMostRuns; ++n) {
      candidate.judgement = check_case(*law, *parsed.value, kernel.judged,
                                       kernel.index, *worker, false, time_);
      if (candidate.judgement.verdict != Verdict::kFailed) continue;
      add(shrunk_failure(candidate, kernel, *worker, time_,
                         hunted_.rules.scope));
      return;
    }
    const bool died = event.what.starts_with("died ");
    out_.lost.push_back({event.kernel, event.law, event.text, died,
                         died ? event.what.substr(5) : ""});
  }

  // A case that another input was shrunk to as well is no news.
  void add(Failure failure) {
    std::vector<Cell>& cells = out_.result.kernels.back().cells;
    for (const Cell& cell : cells)
      if (cell.law == failure.law && cell.failure->smallest == failure.smallest)
        return;
    failure.recorded = fmt::format("execution {}", failure.number);
    Cell cell;
    cell.law = failure.law;
    cell.verdict = Verdict::kFailed;
    cell.failure = std::move(failure);
    cells.push_back(std::move(cell));
  }

  const Hunted& hunted_;
  const ExecutorFactory open_;
  HuntFindings& out_;
  std::vector<std::unique_ptr<Executor>> executors_;
  TimeUse time_;
};

// The order of the laws, so that the most specific is heard first.
void sort_by_law(std::vector<HuntEvent>& events) {
  const auto place = [](const HuntEvent& event) {
    const auto laws = all_laws();
    return std::find_if(laws.begin(), laws.end(),
                        [&](const Law* law) { return event.law == law->id; });
  };
  std::stable_sort(events.begin(), events.end(),
                   [&](const HuntEvent& a, const HuntEvent& b) {
                     return place(a) < place(b);
                   });
}

std::string lost_text(const LostFailure& lost) {
  if (!lost.died)
    return fmt::format("UNSTEADY  {}   {}\n", lost.law, lost.kernel) +
           field("case", lost.text) +
           wrapped_field("", fmt::format("failed once and in none of {} "
                                         "further runs",
                                         kMostRuns));
  return fmt::format("CRASH {}   {}\n", lost.law, lost.kernel) +
         field("case", lost.text) +
         wrapped_field("",
                       "the process that hunts died here; a worker does "
                       "not: memory of the process matters, or what a "
                       "sanitizer sees") +
         field("input", lost.file) +
         field("again", fmt::format("qkvet replay {} --law {} --kernel {} "
                                    "--in-process",
                                    lost.text, lost.law, lost.kernel));
}

}  // namespace

std::vector<HuntFindings::Report> HuntFindings::reports() const {
  std::vector<Report> out;
  for (size_t k = 0; k < result.kernels.size(); ++k) {
    const KernelResult& kernel = result.kernels[k];
    std::set<const Law*> unknown;  // one report for each law is enough
    std::set<const Failure*> told;
    if (k < diagnoses.kernels.size())
      for (const CauseOfFailures& cause : diagnoses.kernels[k]) {
        told.insert(cause.best);
        told.insert(cause.others.begin(), cause.others.end());
        const bool known = !cause.diagnosis.causes.empty();
        if (!known && !unknown.insert(cause.best->law).second) continue;
        out.push_back(
            {&kernel, cause.best, cause.others, cause.diagnosis.name()});
      }
    for (const Cell& cell : kernel.cells)
      if (!told.contains(&*cell.failure) && unknown.insert(cell.law).second)
        out.push_back({&kernel, &*cell.failure, {}, "unknown"});
  }
  return out;
}

HuntFindings look_into(const Hunted& hunted, const HuntJob& job,
                       const HuntEnd& end, int most) {
  HuntFindings findings;
  std::vector<HuntEvent> events = failures_called_out(hunted, job, end);
  sort_by_law(events);
  Inquest inquest(hunted, findings);
  for (const KernelUnderTest& kernel : hunted.selected.kernels)
    inquest.look_at(kernel, events);
  if (findings.error.empty())
    findings.diagnoses = diagnose_run(findings.result, hunted.selected,
                                      /*in_process=*/false, most);
  return findings;
}

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
  const std::vector<HuntFindings::Report> reports = findings.reports();
  RunOptions options;
  options.laws = summary.hunted.rules.laws;
  const ReportInput input{
      findings.result,      options, summary.hunted.selected,
      /*in_process=*/false, nullptr, &findings.diagnoses};
  std::string out;
  for (const HuntFindings::Report& report : reports) {
    const std::string text =
        failure_text(input, *report.kernel, *report.failure);
    const size_t head = text.find(' ');
    out += colour ? "\x1b[1;31m" + text.substr(0, head) + "\x1b[0m"
                  : text.substr(0, head);
    out += text.substr(head) + "\n";
    std::set<const Law*> named = {report.failure->law};
    for (const Failure* other : report.others)
      if (named.insert(other->law).second)
        out += field(
            named.size() == 2 ? "also" : "",
            fmt::format("{}   {}", other->law->id, to_string(other->smallest)));
    out += "\n";
  }
  for (const LostFailure& lost : findings.lost) out += lost_text(lost) + "\n";
  const size_t found = reports.size() + findings.lost.size();
  out += fmt::format(
      "{}  {}: {} finding{} in {} executions, {:.1f} s, {:.0f} a second, seed "
      "{}\n",
      found > 0 ? "FOUND" : "CLEAN", summary.hunted.target->name, found,
      found == 1 ? "" : "s", end.executions, end.seconds,
      static_cast<double>(end.executions) / std::max(end.seconds, 1e-9),
      summary.seed);
  HuntEvent closest;
  for (const HuntEvent& event : read_events(summary.job.folder))
    if (event.what == "closest" && event.ratio > closest.ratio) closest = event;
  if (closest.ratio > 0)
    out += field("closest", fmt::format("error/bound {} of what passed, {} "
                                        "under {}",
                                        ratio_text(closest.ratio),
                                        closest.kernel, closest.law)) +
           field("", closest.text);
  if (end.interrupted) out += field("ended", "by you");
  if (!summary.corpus.empty()) out += field("corpus", summary.corpus);
  if (!summary.regressions.empty())
    out += field("regressions", summary.regressions);
  return out;
}

int add_regressions(const std::string& path, const HuntFindings& findings,
                    std::string* error) {
  std::string text;
  {
    std::ifstream file(path, std::ios::binary);
    text.assign(std::istreambuf_iterator<char>(file), {});
  }
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

}  // namespace qkvet
