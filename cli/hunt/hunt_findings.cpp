// SPDX-License-Identifier: Apache-2.0
// Failing inputs made into failures, and those into reports.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "cli/hunt/hunt_inputs.h"
#include "cli/hunt/hunt_report.h"
#include "properties/run/failure.h"
#include "properties/run/shrink.h"

namespace qkvet::cli {
namespace {

// Inputs of one kernel under one law that are shrunk, and of one kernel.
constexpr size_t kMostOfLaw = 3;
constexpr size_t kMostOfKernel = 16;
// Runs of an input until it fails again.
constexpr int kMostRuns = 10;

// Findings to examine: events, and inputs at which a process died.
std::vector<HuntEvent> failures_called_out(const Hunted& hunted,
                                           const HuntJob& job,
                                           const HuntEnd& end) {
  std::vector<HuntEvent> all = read_events(job.folder);
  std::erase_if(all, [](const HuntEvent& one) { return one.what != "found"; });
  // If kernels run in workers, the dead process was no kernel.
  if (!job.selection.in_process) return all;
  for (const HuntCrash& crash : end.crashes) {
    const FuzzInput input = decode_input(file_bytes(crash.file), hunted.rules);
    const auto& kernels = hunted.selected.kernels;
    for (size_t n = 0; n < kernels.size(); ++n)
      if (crash.kernel < 0 || static_cast<size_t>(crash.kernel) == n)
        all.push_back({.what = "died",
                       .kernel = kernels[n].judged.info.name,
                       .law = input.law->id,
                       .text = to_string(input.value),
                       .execution = end.executions,
                       .seconds = end.seconds,
                       .died_at = crash.file});
  }
  return all;
}

class Investigation {
 public:
  Investigation(const Hunted& hunted, const HuntJob& job, HuntFindings& out)
      : hunted_(hunted), job_(job), out_(out) {}

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
  struct Judge {
    std::unique_ptr<Executor> executor;
    bool isolated = true;  // in a worker: a kernel may die
  };

  // A worker, or this process for a library that only a process with its
  // sanitizer can load.
  Judge& judge(size_t library) {
    judges_.resize(std::max(judges_.size(), library + 1));
    Judge& judge = judges_[library];
    if (judge.executor != nullptr) return judge;
    Opened opened = executor_factory(hunted_.selected, false)(library);
    if (opened.executor == nullptr && job_.selection.in_process) {
      judge.isolated = false;
      out_.in_process = true;
      opened = executor_factory(hunted_.selected, true)(library);
    }
    if (opened.executor == nullptr) out_.error = opened.error;
    judge.executor = std::move(opened.executor);
    return judge;
  }

  void look_at(const KernelUnderTest& kernel, const HuntEvent& event) {
    const Law* law = find_law(event.law);
    const ParsedCase parsed = parse_case(event.text);
    const Judge& with = judge(kernel.library);
    Executor* worker = with.executor.get();
    if (law == nullptr || !parsed.value || worker == nullptr) return;
    const bool died = !event.died_at.empty();
    Candidate candidate{event.execution, law, *parsed.value, {}, event.seconds};
    for (int n = 0; n < (died && !with.isolated ? 0 : kMostRuns); ++n) {
      candidate.judgement = check_case(*law, *parsed.value, kernel.judged,
                                       kernel.index, *worker, false, time_);
      if (candidate.judgement.verdict != Verdict::kFailed) continue;
      add(shrunk_failure(candidate, kernel, *worker, time_,
                         hunted_.rules.scope));
      return;
    }
    out_.lost.push_back({event.kernel, event.law, event.text, died,
                         event.died_at, died ? last_summary(job_.folder) : ""});
  }

  // Ignores a case that another input was shrunk to already.
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
  const HuntJob& job_;
  HuntFindings& out_;
  std::vector<Judge> judges_;
  TimeUse time_;
};

// The order of the laws, so that the most specific comes first.
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

}  // namespace

std::vector<HuntFindings::Report> HuntFindings::reports() const {
  std::vector<Report> out;
  for (size_t k = 0; k < result.kernels.size(); ++k) {
    const KernelResult& kernel = result.kernels[k];
    // One report for each law is enough, and one for each kind of death.
    std::set<std::string> unknown;
    const auto is_new = [&unknown](const Failure& failure) {
      const Judgement& judgement = failure.judgement;
      const bool died = judgement.kind == FailureKind::kCrash ||
                        judgement.kind == FailureKind::kHang;
      return unknown
          .insert(died && judgement.finding ? judgement.finding->actual
                                            : failure.law->id)
          .second;
    };
    std::set<const Failure*> told;
    if (k < diagnoses.kernels.size())
      for (const CauseOfFailures& cause : diagnoses.kernels[k]) {
        told.insert(cause.best);
        told.insert(cause.others.begin(), cause.others.end());
        const bool known = !cause.diagnosis.causes.empty();
        if (!known && !is_new(*cause.best)) continue;
        out.push_back(
            {&kernel, cause.best, cause.others, cause.diagnosis.name()});
      }
    for (const Cell& cell : kernel.cells)
      if (!told.contains(&*cell.failure) && is_new(*cell.failure))
        out.push_back({&kernel, &*cell.failure, {}, "unknown"});
  }
  return out;
}

HuntFindings look_into(const Hunted& hunted, const HuntJob& job,
                       const HuntEnd& end, int most) {
  HuntFindings findings;
  std::vector<HuntEvent> events = failures_called_out(hunted, job, end);
  sort_by_law(events);
  Investigation investigation(hunted, job, findings);
  for (const KernelUnderTest& kernel : hunted.selected.kernels)
    investigation.look_at(kernel, events);
  if (findings.error.empty())
    findings.diagnoses = diagnose_run(findings.result, hunted.selected,
                                      findings.in_process, most);
  return findings;
}

}  // namespace qkvet::cli
