// SPDX-License-Identifier: Apache-2.0
// qkvet replay X.story: a recorded story (core/story/story_log.h), run as a
// whole, and its shortest part that fails.
#include "cli/commands/replay_log.h"

#include <fmt/core.h>

#include <chrono>

#include "cli/terminal/report.h"
#include "cli/terminal/select.h"
#include "core/base/read_file.h"
#include "properties/run/fault_of.h"
#include "properties/run/spelled_log.h"

namespace qkvet::cli {
namespace {

constexpr std::string_view kEnding = ".story";

std::string read_log(const std::string& path, std::optional<StoryLog>& log) {
  std::string text;
  std::string error = read_file(path, &text);
  if (error.empty()) log = parse_story_log(text, path, &error);
  return error;
}

std::string where_text(const std::string& path, const StoryLog& log,
                       size_t command) {
  return fmt::format("command {} of the recording (request {}; {}:{})",
                     command + 1, log.first_id(command), path,
                     log.lines[command].number);
}

// One kernel on one recording.
class LogReplay {
 public:
  LogReplay(const std::string& path, const StoryLog& log,
            const KernelUnderTest& kernel, Executor& executor, TimeUse& time)
      : path_(path),
        log_(log),
        kernel_(kernel),
        way_{kernel.judged, kernel.index, executor, time} {}

  // The verdict; a failure is that of the smallest case, if there is one.
  KernelResult run();
  void print(const ReportInput& input, const KernelResult& result,
             Detail detail) const;

 private:
  void shrink(Cell& cell);
  std::string counts() const;
  void print_lines(const KernelResult& result, const Cell& cell) const;

  const std::string& path_;
  const StoryLog& log_;
  const KernelUnderTest& kernel_;
  LogKernel way_;
  LogRun run_;
  ShrunkLog shrunk_;
  SpelledLog spelled_;
  std::chrono::steady_clock::time_point start_ =
      std::chrono::steady_clock::now();
};

void LogReplay::shrink(Cell& cell) {
  const LogFailure& found = *run_.failure;
  shrunk_ = shrink_log(log_, found, way_);
  spelled_ = spell_log(log_.geometry, shrunk_, way_);
  Failure failure;
  failure.law = spelled_.law != nullptr ? spelled_.law : cell.law;
  failure.number = static_cast<int64_t>(found.at) + 1;
  failure.repeats = shrunk_.repeats;
  failure.repeats_failed = shrunk_.repeats_failed;
  failure.judgement = shrunk_.failure.judgement;
  failure.where = where_text(path_, log_, found.at);
  if (spelled_.law != nullptr) {
    failure.found = failure.smallest = spelled_.value;
    failure.judgement = spelled_.judgement;
    failure.digest = input_digest(make_inputs(spelled_.value));
    failure.story = fault_of(*spelled_.law, spelled_.value, spelled_.judgement,
                             way_.judged, way_.index, way_.executor, way_.time);
  }
  failure.seconds = seconds_since(start_);
  // Commands of the case, which shrinks on from those of the recording.
  const Story& left =
      spelled_.law != nullptr ? spelled_.value.story : shrunk_.story;
  failure.recorded =
      fmt::format("{} commands -> {}", log_.story.size(), left.size());
  cell.law = failure.law;
  cell.failure = std::move(failure);
}

KernelResult LogReplay::run() {
  LogChecks checks;
  checks.every = affordable_share(log_);
  checks.with_twin = true;
  Cell cell;
  cell.law = find_law("cache_agrees_with_history");
  run_.reason = not_judged_reason(log_.geometry);
  if (run_.reason.empty() && !has_subject(kernel_.judged.info, Subject::kCache))
    run_.reason = missing_subject(Subject::kCache);
  if (run_.reason.empty())
    run_ = run_log(log_.geometry, log_.story, way_, checks);
  else
    run_.verdict = Verdict::kUnsupported;
  cell.verdict = run_.verdict;
  cell.reason = run_.reason;
  if (run_.commands > 0 && !run_.reason.empty())
    cell.reason =
        fmt::format("command {}, {}: {}", run_.commands,
                    log_.command_text(run_.commands - 1), run_.reason);
  cell.checked = run_.compared > 0 ? 1 : 0;
  cell.elements.compared = run_.compared;
  cell.worst_ratio = run_.worst_ratio;
  if (cell.verdict == Verdict::kPassed && cell.checked == 0) {
    cell.verdict = Verdict::kMistrusted;
    cell.reason = "no answer of this recording can be judged";
  }
  if (run_.failure) shrink(cell);
  cell.seconds = seconds_since(start_);
  return {kernel_, {std::move(cell)}};
}

// "checked 38112 of 38112 answers, lengths after 40000 commands"
std::string LogReplay::counts() const {
  std::string text =
      fmt::format("checked {} of {} answers, lengths after {} commands",
                  run_.checked, run_.answers, run_.commands);
  if (run_.illegal > 0)
    text += fmt::format("; {} illegal, refused", run_.illegal);
  return text;
}

// Lines of a recording, for operations that no case spells.
void LogReplay::print_lines(const KernelResult& result,
                            const Cell& cell) const {
  const Failure& failure = *cell.failure;
  fmt::print("{:<5} {}   {}   {}, {:.1f} s\n",
             cell.crashed() ? "CRASH" : "FAIL", failure.law->id,
             result.kernel.judged.info.name, failure.recorded, failure.seconds);
  const bool steady = failure.repeats_failed == failure.repeats;
  if (!steady)
    fmt::print(
        "  unsteady    {} of {} further runs failed; the recording was not "
        "shrunk\n",
        failure.repeats_failed, failure.repeats);
  fmt::print("  at          {}\n", log_command_text(shrunk_.story.back()));
  if (const auto& finding = failure.judgement.finding) {
    if (shrunk_.failure.part == LogPart::kAnswer)
      fmt::print("              {}\n", finding->where);
    fmt::print("  expected    {}\n  actual      {}\n", finding->expected,
               finding->actual);
  }
  fmt::print("  where       {}\n", failure.where);
  if (!steady) return;
  fmt::print(
      "  again       as a file that ends in .story; no case is long enough:\n"
      "{}",
      story_log_text(log_.geometry, shrunk_.story));
}

void LogReplay::print(const ReportInput& input, const KernelResult& result,
                      Detail detail) const {
  const Cell& cell = result.cells[0];
  if (cell.failure && spelled_.law == nullptr) return print_lines(result, cell);
  if (cell.failure) {
    fmt::print("{}\n  before it   {}\n\n",
               failure_text(input, result, *cell.failure, detail), counts());
    return;
  }
  fmt::print("{}  {}   {}   {} commands, {} ids, at most {} at once; {}",
             verdict_name(cell.verdict), path_, kernel_.judged.info.name,
             log_.story.size(), log_.ids, log_.geometry.shape.B, counts());
  if (cell.verdict == Verdict::kPassed)
    fmt::print("   error/bound {:.2g}   {:.1f} s\n", cell.worst_ratio,
               cell.seconds);
  else
    fmt::print("   {}\n", cell.reason);
}

}  // namespace

bool is_story_log(const std::string& target) {
  return target.ends_with(kEnding) && !target.starts_with("@");
}

ExitCode replay_log(const std::string& path, const KernelSelection& selection,
                    Detail detail) {
  std::optional<StoryLog> log;
  if (std::string error = read_log(path, log); !error.empty())
    return wrong_use(error);
  const SelectedKernels selected = select_kernels(selection);
  if (!selected.error.empty()) return wrong_use(selected.error);
  const ExecutorFactory open = executor_factory(selected, selection.in_process);
  RunResult result;
  const RunOptions run;
  const ReportInput report{result, run, selected, selection.in_process};
  for (const KernelUnderTest& kernel : selected.kernels) {
    // By default, kernels without a cache are skipped.
    if (selected.by_default &&
        !has_subject(kernel.judged.info, Subject::kCache))
      continue;
    const Opened opened = open(kernel.library);
    if (opened.executor == nullptr) return wrong_use(opened.error);
    LogReplay replay(path, *log, kernel, *opened.executor, result.time);
    result.kernels.push_back(replay.run());
    replay.print(report, result.kernels.back(), detail);
    std::fflush(stdout);
  }
  return exit_code_of(report);
}

}  // namespace qkvet::cli
