// SPDX-License-Identifier: Apache-2.0
// What <qkvet/linked.h> calls: one law on kernels of this program.
#include "qkvet/linked.h"

#include <cfenv>
#include <exception>

#include "cli/terminal/report.h"
#include "cli/terminal/select.h"
#include "report/run_record.h"

namespace qkvet::cli {
namespace {

// A program that was linked with -ffast-math flushes subnormal numbers from its
// start on: neither the oracle nor the kernels may, which in a worker do not.
class DefaultFpEnvironment {
 public:
  DefaultFpEnvironment() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFpEnvironment() { std::fesetenv(&before_); }
  DefaultFpEnvironment(const DefaultFpEnvironment&) = delete;
  DefaultFpEnvironment& operator=(const DefaultFpEnvironment&) = delete;

 private:
  std::fenv_t before_{};
};

// The reasons, if there are only reasons not to judge. With several kernels,
// some may be skipped while others pass, as in judge_law() of suite.h.
LawResult unjudged(const ReportInput& report, const std::string& text) {
  bool passed = false;
  std::string reasons;
  for (const KernelResult& kernel : report.result.kernels)
    for (const Cell& cell : kernel.cells) {
      if (cell.verdict == Verdict::kPassed) {
        passed = true;
        continue;
      }
      if (cell.verdict != Verdict::kUnsupported &&
          cell.verdict != Verdict::kSkipped)
        return {LawOutcome::kFails, text};
      reasons += (reasons.empty() ? "" : "; ") +
                 kernel.kernel.judged.info.name + ": " +
                 std::string(verdict_name(cell.verdict)) + ": " + cell.reason;
    }
  if (passed) return {LawOutcome::kHolds, ""};
  if (reasons.empty())
    reasons = "the law is about nothing that the kernel declares";
  return {LawOutcome::kSkipped, reasons};
}

// Runs one case on every kernel, in one process for all. "" or an error.
std::string run_only(const Case& value, const SelectedKernels& selected,
                     const Law& law, RunResult& result) {
  const Opened opened = executor_factory(selected, /*in_process=*/true)(0);
  if (opened.executor == nullptr) return opened.error;
  for (const KernelUnderTest& kernel : selected.kernels)
    result.kernels.push_back(
        replay_one(law, value, kernel, *opened.executor, result.time));
  result.planned_cases = 1;
  return "";
}

LawResult judge_here(const linked_detail::Request& request) {
  const auto wrong = [](const std::string& line) {
    return LawResult{LawOutcome::kFails, "qkvet: " + line + "\n"};
  };
  if (request.open == nullptr) return wrong("the linked library has no entry");
  if (request.cases < 1) return wrong("a law needs at least one case");
  std::string error;
  RunOptions run;
  run.laws = select_laws({request.law}, &error);
  if (!error.empty()) return wrong(error);
  if (run.laws.size() > 1) return wrong("one law at a time");
  run.cases = request.cases;
  ParsedCase only;
  if (*request.only != 0) {
    only = parse_case(request.only);
    if (!only.value) return wrong(only.error);
  }
  const SelectedKernels selected =
      select_linked({"the linked library", request.config, request.open},
                    {request.kernels, request.kernels + request.kernel_count});
  if (!selected.error.empty()) return wrong(selected.error);
  run.scope.dtypes = declared_dtypes(selected.kernels);
  RunResult result;
  if (only.value)
    result.error = run_only(*only.value, selected, *run.laws[0], result);
  else
    result = run_plan(selected.kernels,
                      executor_factory(selected, /*in_process=*/true), run);
  if (!result.error.empty()) return wrong(result.error);
  const ReportInput report{result, run, selected, /*in_process=*/true};
  const RunRecord record = record_of(report);
  if (record.end.exit == kConforms) return {LawOutcome::kHolds, ""};
  const std::string text = text_report(report, record, {.verbose = true});
  return record.end.exit == kNothingChecked
             ? unjudged(report, text)
             : LawResult{LawOutcome::kFails, text};
}

}  // namespace
}  // namespace qkvet::cli

namespace qkvet::linked_detail {

LawOutcome judge(const Request& request) noexcept {
  const cli::DefaultFpEnvironment environment;
  LawResult result;
  try {
    result = cli::judge_here(request);
  } catch (const std::exception& failure) {
    result.text = std::string("qkvet: ") + failure.what() + "\n";
  }
  if (result.outcome != LawOutcome::kHolds)
    request.say(request.text, result.text.c_str());
  return result.outcome;
}

const char* law(size_t index) noexcept {
  const auto& laws = properties::all_laws();
  return index < laws.size() ? laws[index]->id : nullptr;
}

}  // namespace qkvet::linked_detail
