// SPDX-License-Identifier: Apache-2.0
#include "cli/golden/golden_run.h"

#include <chrono>

#include "core/case/file_data.h"
#include "properties/judging/subject.h"
#include "properties/run/failure.h"
#include "properties/run/one_cell.h"
#include "properties/run/shrink.h"

namespace qkvet::cli {
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

// Not a mistake of the kernel: its answer is right, but differs from the set.
Failure unlike_failure(const GoldenSet& set, const SetVerdict& verdict) {
  Failure failure;
  failure.law = &agreement_about(set.value().subject());
  failure.number = 1;
  failure.found = failure.smallest = set.value();
  failure.judgement = verdict.expected;
  failure.digest = input_digest(make_inputs(set.value()));
  failure.recorded = "set " + set.name;
  if (verdict.expected.verdict == Verdict::kFailed) return failure;
  failure.judgement.verdict = Verdict::kFailed;
  Finding& finding = failure.judgement.finding.emplace();
  finding.where = verdict.change->where;
  finding.expected = "as it was recorded";
  finding.actual = change_text(*verdict.change);
  return failure;
}

// Called after the diagnosis, which uses wrong answers only: gives each cell of
// reports the worst verdict of its set.
void finish_cells(GoldenRun& run, const GoldenRunOptions& options) {
  for (size_t k = 0; k < run.verdicts.size(); ++k)
    for (size_t n = 0; n < run.verdicts[k].size(); ++n) {
      const SetVerdict& verdict = run.verdicts[k][n];
      Cell& cell = run.result.kernels[k].cells[n];
      if (verdict.correct.verdict != Verdict::kPassed) continue;
      if (verdict.expected.verdict != Verdict::kFailed &&
          !changed_too_much(verdict, options))
        continue;
      cell.verdict = Verdict::kFailed;
      cell.failure = unlike_failure((*run.sets)[n], verdict);
    }
  for (const DoubtfulSet& one : run.doubtful)
    for (KernelResult& kernel : run.result.kernels) {
      Cell& cell =
          kernel.cells[static_cast<size_t>(one.set - run.sets->data())];
      if (cell.failure) continue;
      cell.verdict = Verdict::kMistrusted;
      cell.reason = "the set itself is in doubt: " + one.reason;
    }
}

void add_rows(GoldenRun& run) {
  for (const GoldenSet& set : *run.sets) {
    SetRow& row = run.rows.emplace_back();
    row.precondition = to_string(set.value());
    row.reason = "Its numbers come from " + set.source + ".";
    row.law = agreement_about(set.value().subject());
    row.law.id = set.name.c_str();
    row.law.sentence = set.pins.c_str();
    row.law.precondition = row.precondition.c_str();
    row.law.reason = row.reason.c_str();
  }
}

class KernelRun {
 public:
  KernelRun(GoldenRun& run, const KernelUnderTest& kernel, Executor& executor)
      : run_(run), kernel_(kernel), executor_(executor) {}

  void verify_all() {
    run_.result.kernels.push_back({kernel_, {}});
    run_.verdicts.emplace_back();
    for (size_t n = 0; n < run_.sets->size(); ++n)
      verify((*run_.sets)[n], run_.rows[n].law);
  }

 private:
  void verify(const GoldenSet& set, const Law& row) {
    const auto start = std::chrono::steady_clock::now();
    SetVerdict verdict = verify_set(set, kernel_.judged, kernel_.index,
                                    executor_, run_.result.time);
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
            .count();
    Cell cell = one_cell(row, verdict.correct, seconds);
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
  const auto start = std::chrono::steady_clock::now();
  GoldenRun run;
  run.sets = &sets;
  add_rows(run);
  check_sources(run);
  std::vector<std::unique_ptr<Executor>> executors;
  run.error = open_all(selected, options.in_process, &executors);
  if (!run.error.empty()) return run;
  for (const KernelUnderTest& kernel : selected.kernels)
    KernelRun(run, kernel, *executors[kernel.library]).verify_all();
  run.diagnoses =
      diagnose_run(run.result, selected, options.in_process, options.diagnose);
  finish_cells(run, options);
  run.result.planned_cases = std::ssize(sets);
  run.result.rounds = 1;
  run.result.wall_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  return run;
}

bool changed_too_much(const SetVerdict& verdict,
                      const GoldenRunOptions& options) {
  return options.most_ulps >= 0 && verdict.change &&
         verdict.change->most_ulps > options.most_ulps;
}

RunOptions options_of(const GoldenRun& run) {
  RunOptions options;
  options.cases = std::ssize(*run.sets);
  for (const SetRow& row : run.rows) options.laws.push_back(&row.law);
  return options;
}

}  // namespace qkvet::cli
