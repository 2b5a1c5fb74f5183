// SPDX-License-Identifier: Apache-2.0
#include "tools/golden/golden_run.h"

#include <chrono>

#include "core/case/file_data.h"
#include "properties/judging/subject.h"
#include "properties/run/failure.h"
#include "properties/run/one_cell.h"
#include "properties/run/shrink.h"

namespace qkvet::tools {
namespace {

// Failing sets of a kernel that are shrunk; the others are only named.
constexpr int kMostShrunk = 4;

void check_sources(GoldenRun& run) {
  for (const GoldenSet& set : *run.sets) {
    const Judgement judged = judge_source(set, run.result.time);
    const bool differs = judged.verdict == Verdict::kFailed;
    if (differs && set.finding.empty())
      run.doubtful.push_back(
          {&set, judged.finding->where + " is " + judged.finding->actual +
                     ", the definition gives " + judged.finding->expected +
                     (judged.finding->allowed.empty()
                          ? ""
                          : " (" + judged.finding->allowed + ")")});
    else if (!differs && !set.finding.empty() &&
             judged.verdict == Verdict::kPassed)
      run.doubtful.push_back(
          {&set, "its finding is not to be seen: " + set.finding});
    else if (judged.verdict != Verdict::kPassed && !differs &&
             judged.verdict != Verdict::kUnsupported)
      run.doubtful.push_back({&set, judged.reason});
  }
}

Failure failure_of(const GoldenSet& set, const Judgement& judgement, bool small,
                   double seconds, const KernelUnderTest& kernel,
                   Executor& executor, TimeUse& time) {
  const Law& law = agreement_about(set.value().subject());
  Failure failure;
  if (small) {
    failure = shrunk_failure({1, &law, set.value(), judgement, seconds}, kernel,
                             executor, time, Scope{});
  } else {
    failure.law = &replayed_law(law, set.value(), judgement, kernel.judged,
                                kernel.index, executor, time);
    failure.found = failure.smallest = set.value();
    failure.judgement = judgement;
    failure.seconds = seconds;
    failure.digest = input_digest(make_inputs(set.value()));
  }
  failure.recorded = "set " + set.name;
  return failure;
}

// What a report makes of a set: the worse of its two verdicts.
Cell cell_of(const GoldenSet& set, const SetVerdict& verdict, double seconds) {
  Cell cell = one_cell(agreement_about(set.value().subject()), verdict.correct,
                       seconds);
  if (verdict.correct.verdict == Verdict::kPassed &&
      verdict.expected.verdict == Verdict::kFailed)
    cell.verdict = Verdict::kFailed;
  return cell;
}

class KernelRun {
 public:
  KernelRun(GoldenRun& run, const KernelUnderTest& kernel, Executor& executor)
      : run_(run), kernel_(kernel), executor_(executor) {}

  void verify_all() {
    run_.result.kernels.push_back({kernel_, {}});
    run_.verdicts.emplace_back();
    for (const GoldenSet& set : *run_.sets) verify(set);
  }

 private:
  void verify(const GoldenSet& set) {
    const auto start = std::chrono::steady_clock::now();
    SetVerdict verdict = verify_set(set, kernel_.judged, kernel_.index,
                                    executor_, run_.result.time);
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
            .count();
    Cell cell = cell_of(set, verdict, seconds);
    if (verdict.correct.verdict == Verdict::kFailed)
      cell.failure = failure_of(set, verdict.correct, failing_++ < kMostShrunk,
                                seconds, kernel_, executor_, run_.result.time);
    run_.result.kernels.back().cells.push_back(std::move(cell));
    run_.verdicts.back().push_back(std::move(verdict));
  }

  GoldenRun& run_;
  const KernelUnderTest& kernel_;
  Executor& executor_;
  int failing_ = 0;
};

}  // namespace

GoldenRun run_golden(const std::vector<GoldenSet>& sets,
                     const SelectedKernels& selected,
                     const GoldenRunOptions& options) {
  GoldenRun run;
  run.sets = &sets;
  check_sources(run);
  const ExecutorFactory open = executor_factory(selected, options.in_process);
  std::vector<std::unique_ptr<Executor>> executors;
  for (size_t i = 0; i < selected.libraries.size(); ++i) {
    Opened opened = open(i);
    run.error = opened.error;
    if (opened.executor == nullptr) return run;
    executors.push_back(std::move(opened.executor));
  }
  for (const KernelUnderTest& kernel : selected.kernels)
    KernelRun(run, kernel, *executors[kernel.library]).verify_all();
  run.diagnoses =
      diagnose_run(run.result, selected, options.in_process, options.diagnose);
  return run;
}

bool changed_too_much(const SetVerdict& verdict,
                      const GoldenRunOptions& options) {
  return options.most_ulps >= 0 && verdict.change &&
         verdict.change->most_ulps > options.most_ulps;
}

ExitCode exit_code_of(const GoldenRun& run, const ReportInput& input,
                      const GoldenRunOptions& options) {
  const ExitCode code = exit_code_of(input);
  if (code == kKernelDied || code == kLawFailed) return code;
  for (const auto& kernel : run.verdicts)
    for (const SetVerdict& verdict : kernel)
      if (changed_too_much(verdict, options)) return kLawFailed;
  return run.doubtful.empty() ? code : kNothingChecked;
}

}  // namespace qkvet::tools
