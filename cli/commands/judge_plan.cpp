// SPDX-License-Identifier: Apache-2.0
// qkvet judge DIR: the answers to a plan, judged as check judges a kernel.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>

#include "cli/commands/judge.h"
#include "cli/demos/question_rows.h"
#include "cli/judge/recorded_answers.h"
#include "cli/kernels/compiler.h"
#include "cli/reproduce/plan_folder.h"
#include "cli/terminal/select.h"
#include "properties/cases/generate.h"
#include "properties/cases/option_use.h"
#include "properties/checking/probe.h"
#include "properties/run/shrink.h"
#include "properties/run/tally.h"
#include "report/written_file.h"

namespace qkvet::cli {
namespace {

using Clock = std::chrono::steady_clock;

// The twin is computed for one case in this many, as in a run.
constexpr size_t kTwinEvery = 16;
// Missing answers to list by name.
constexpr size_t kMostNamed = 5;

// Numbers in all inputs of attention or of a layer.
int64_t size_of(const Case& value) {
  const Shape& s = value.shape;
  return value.subject() == Subject::kLayer
             ? s.D * (s.B * s.Tq + s.H * s.d + s.Hkv * (s.d + s.dv))
             : s.q_elements() + s.k_elements() + s.v_elements();
}

// One law, over all of its cases.
struct LawTally {
  const Law* law = nullptr;
  Tally tally;
  std::optional<Failure> smallest;  // of its failures, the one to report
  std::set<size_t> asked;           // calls
};

// Kept as failing cases, and as the only evidence for hypotheses.
struct Heard {
  AnsweredCase one;
  bool failed = false;
  int64_t size = 0;
};

class Judge {
 public:
  Judge(const PlanFolder& plan, const std::vector<RecordedAnswer>& answers,
        const JudgedKernel& kernel, const RunOptions& options)
      : plan_(plan),
        answers_(answers),
        options_(options),
        executor_(plan, answers) {
    kernel_.judged = kernel;
    for (const Law* law : options.laws) laws_.push_back({law, {}, {}, {}});
  }

  // The answers' evidence about undeclared fields.
  void probe() {
    kernel_.judged.assumed = probe_dialect(executor_, 0, kernel_.judged.info);
  }
  RunResult run();
  // Failing cases and passing ones in turn, the smallest of each first.
  Answered answered() const;
  Executor& executor() { return executor_; }
  // In the order of the plan.
  const std::vector<QuestionRow>& rows() const { return rows_; }

 private:
  void judge(const PlanCase& one, bool with_twin);
  // `settled`: without reading an answer.
  void record(const PlanCase& one, const Judgement& judgement, double seconds,
              bool settled = false);
  void keep_smallest(LawTally& law, const PlanCase& one,
                     const Judgement& judgement);
  Cell cell_of_law(LawTally& law) const;
  LawTally& of(const Law& law) {
    return *std::find_if(laws_.begin(), laws_.end(),
                         [&](const LawTally& one) { return one.law == &law; });
  }

  const PlanFolder& plan_;
  const std::vector<RecordedAnswer>& answers_;
  const RunOptions& options_;
  KernelUnderTest kernel_;
  RecordedAnswers executor_;
  std::vector<LawTally> laws_;
  std::vector<Heard> heard_;
  std::vector<QuestionRow> rows_;
  OptionUse use_;
  TimeUse time_;
  const Clock::time_point start_ = Clock::now();
};

void Judge::keep_smallest(LawTally& law, const PlanCase& one,
                          const Judgement& judgement) {
  if (law.smallest && size_of(law.smallest->smallest) <= size_of(one.value))
    return;
  Failure failure;
  failure.law = law.law;
  failure.number = one.number;
  failure.found = failure.smallest = one.value;
  failure.judgement = judgement;
  failure.seconds = seconds_since(start_);
  failure.digest = input_digest(make_inputs(one.value));
  for (const size_t call : one.calls)
    failure.where += (failure.where.empty() ? "" : ", ") + call_name(call);
  failure.where += " of the plan; recorded: not repeated, not shrunk";
  law.smallest = std::move(failure);
}

void Judge::record(const PlanCase& one, const Judgement& judgement,
                   double seconds, bool settled) {
  rows_.push_back(question_row(one, judgement, settled));
  LawTally& law = of(*one.law);
  add_judgement(law.tally, one.number, one.value, judgement, seconds);
  if (judgement.verdict == Verdict::kFailed) keep_smallest(law, one, judgement);
  if (judgement.verdict == Verdict::kFailed ||
      judgement.verdict == Verdict::kPassed)
    heard_.push_back({{one.law, one.value},
                      judgement.verdict == Verdict::kFailed,
                      size_of(one.value)});
}

void Judge::judge(const PlanCase& one, bool with_twin) {
  of(*one.law).asked.insert(one.calls.begin(), one.calls.end());
  const Clock::time_point start = Clock::now();
  CaseWork work(*one.law, one.value, with_twin, time_);
  if (const auto settled = work.settled(kernel_.judged)) {
    record(one, *settled, 0, /*settled=*/true);
    return;
  }
  const std::vector<KernelCall> calls = work.calls_for(kernel_.judged);
  const std::vector<CallOutcome> outcomes = executor_.run(0, calls);
  std::string missing;
  for (size_t i = 0; i < calls.size(); ++i) {
    if (outcomes[i].status != CallStatus::kNotRun) continue;
    if (!outcomes[i].text.empty()) {
      Judgement judgement;
      judgement.verdict = Verdict::kGaveUp;
      judgement.reason = outcomes[i].text;
      record(one, judgement, 0, /*settled=*/true);
      return;
    }
    missing += (missing.empty() ? "" : ", ") + call_name(one.calls[i]);
  }
  if (!missing.empty()) {
    rows_.push_back(unanswered_row(one, "no answer to " + missing));
    return;
  }
  for (size_t i = 0; i < calls.size(); ++i) use_.count(calls[i], outcomes[i]);
  const Judgement judgement = work.judge(kernel_.judged, outcomes);
  record(one, judgement, seconds_since(start));
}

// A law with missing answers has passed nothing.
Cell Judge::cell_of_law(LawTally& law) const {
  std::vector<Failure> failures;
  if (law.smallest) failures.push_back(std::move(*law.smallest));
  Cell cell = cell_of(law.tally, std::move(failures),
                      mistrust_in(kernel_.judged, options_));
  cell.law = law.law;
  const auto unanswered = [&](size_t call) {
    const RecordedAnswer& answer = answers_[call];
    const auto& outputs = plan_.calls.calls()[call].outputs;
    return !answer.refusal &&
           std::any_of(outputs.begin(), outputs.end(),
                       [&](const PlanTensor& output) {
                         return !answer.outputs.contains(output.tensor);
                       });
  };
  const auto missing =
      std::count_if(law.asked.begin(), law.asked.end(), unanswered);
  if (missing == 0 || cell.failure) return cell;
  cell.verdict = Verdict::kGaveUp;
  cell.unsupported = 0;  // refusals are not the reason
  cell.reason =
      fmt::format("{} of {} calls have no answer", missing, law.asked.size());
  return cell;
}

RunResult Judge::run() {
  std::map<const Law*, size_t> count;
  for (const PlanCase& one : plan_.recipe.cases)
    judge(one, count[one.law]++ % kTwinEvery == 0);
  RunResult result;
  KernelResult kernel{kernel_, {}, use_.hollow()};
  for (LawTally& law : laws_) kernel.cells.push_back(cell_of_law(law));
  result.kernels.push_back(std::move(kernel));
  result.planned_cases = std::ssize(plan_.recipe.cases);
  result.rounds = 1;
  result.wall_seconds = seconds_since(start_);
  result.time = time_;
  return result;
}

Answered Judge::answered() const {
  std::vector<Heard> sorted = heard_;
  std::stable_sort(
      sorted.begin(), sorted.end(),
      [](const Heard& a, const Heard& b) { return a.size < b.size; });
  Answered failing, passing, all;
  for (Heard& one : sorted)
    (one.failed ? failing : passing).push_back(std::move(one.one));
  for (size_t i = 0; i < std::max(failing.size(), passing.size()); ++i) {
    if (i < failing.size()) all.push_back(failing[i]);
    if (i < passing.size()) all.push_back(passing[i]);
  }
  return all;
}

// The laws of the plan's cases, in their order.
std::vector<const Law*> laws_of(const PlanRecipe& recipe) {
  std::vector<const Law*> laws;
  for (const Law* law : all_laws())
    if (std::any_of(recipe.cases.begin(), recipe.cases.end(),
                    [law](const PlanCase& one) { return one.law == law; }))
      laws.push_back(law);
  return laws;
}

std::string missing_text(const std::vector<std::string>& missing) {
  std::string text = fmt::format("{} answers are missing: ", missing.size());
  for (size_t i = 0; i < std::min(missing.size(), kMostNamed); ++i)
    text += (i > 0 ? ", " : "") + missing[i];
  return text + (missing.size() > kMostNamed ? ", ..." : "");
}

Diagnoses causes_of(const KernelResult& kernel, Judge& judge, bool wanted) {
  Diagnoses causes;
  causes.kernels.resize(1);
  std::vector<const Failure*> failures;
  for (const Cell& cell : kernel.cells)
    if (cell.failure) failures.push_back(&*cell.failure);
  if (failures.empty()) return causes;
  causes.not_looked_at = wanted ? 0 : 1;
  if (!wanted) return causes;
  const std::unique_ptr<Catalogue> catalogue = known_faults(&causes.no_faults);
  const Answered answered = judge.answered();
  TimeUse time;
  causes.kernels[0] = diagnose_all(failures, kernel.kernel, judge.executor(),
                                   *catalogue, time, &answered);
  return causes;
}

// A report has no location for this kernel.
SelectedKernels selected_of(const JudgeOptions& options, const PlanFolder& plan,
                            const std::vector<std::string>& missing) {
  SelectedKernels selected;
  selected.libraries.push_back({options.targets[0], ""});
  selected.names.emplace_back();
  selected.again = "qkvet judge " + shell_quoted(options.targets[0]);
  if (!options.answers.empty())
    selected.again += " " + shell_quoted(options.answers);
  if (!options.dialect.empty())
    selected.again += " --dialect " + shell_quoted(options.dialect);
  if (!options.precision.empty())
    selected.again += " --precision " + shell_quoted(options.precision);
  if (!missing.empty()) selected.notes.push_back(missing_text(missing));
  if (!plan.recipe.dropped.empty())
    selected.notes.push_back(
        fmt::format("{} laws are not in the plan: see not_asked in {}/{}",
                    plan.recipe.dropped.size(), options.targets[0], kPlanFile));
  return selected;
}

}  // namespace

ExitCode judge_plan(const JudgeOptions& options) {
  const std::string& folder = options.targets[0];
  PlanFolder plan;
  std::string error = read_plan(folder, &plan);
  std::vector<RecordedAnswer> answers;
  if (error.empty())
    error = read_answers(plan, folder,
                         options.answers.empty() ? folder : options.answers,
                         &answers);
  JudgedKernel kernel = plan.kernel;
  if (error.empty())
    error = declare_more(options.dialect, options.precision, &kernel);
  if (!error.empty()) return wrong_use(error);

  RunOptions run;
  run.laws = laws_of(plan.recipe);
  run.cases = std::ssize(plan.recipe.cases);
  run.seed = plan.recipe.seed;
  run.scope.dtypes = plan.recipe.kernel.dtypes;
  Judge judge(plan, answers, kernel, run);
  judge.probe();
  const RunResult result = judge.run();
  const Diagnoses causes =
      causes_of(result.kernels[0], judge, options.diagnose > 0);
  const SelectedKernels selected =
      selected_of(options, plan, missing_answers(plan, answers));
  if (!options.table.empty())
    error = write_file(options.table, question_table(judge.rows()));
  return error.empty()
             ? report_answers(options, result, run, selected, causes,
                              judge.executor(), question_json(judge.rows()))
             : wrong_use(error);
}

}  // namespace qkvet::cli
