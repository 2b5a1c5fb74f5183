// SPDX-License-Identifier: Apache-2.0
// qkvet replay: one case, or a list of them, exactly as spelled.
#include <fmt/core.h>

#include <cstdio>
#include <sstream>

#include "cli/base/load_data.h"
#include "cli/commands/flags.h"
#include "cli/commands/replay_log.h"
#include "cli/reproduce/emit.h"
#include "cli/terminal/report.h"
#include "cli/terminal/select.h"
#include "core/base/read_file.h"
#include "report/lines.h"
#include "report/run_record.h"
#include "report/written_file.h"

namespace qkvet::cli {
namespace {

struct ReplayOptions {
  std::string target;  // a case, @FILE with one case per line, or X.story
  KernelSelection selection;
  std::vector<std::string> laws;
  std::vector<std::string> after;  // cases that are called first
  std::vector<std::string> data;   // files that cases take data from
  std::string digest;              // "" for none
  std::string json;                // file; "" for none
  int diagnose = 1;                // 0: no diagnosis
  bool verbose = false;
  EmitWords emit;
};

Detail detail_of(const ReplayOptions& options) {
  return options.verbose ? Detail::kWhole : Detail::kShort;
}

struct ReplayCase {
  Case value;
  std::string where;         // "" or "file:line: "
  const Law* law = nullptr;  // the only law to replay it under; null: all
};

std::string trimmed(const std::string& text) {
  const size_t from = text.find_first_not_of(" \t\r");
  if (from == std::string::npos) return "";
  return text.substr(from, text.find_last_not_of(" \t\r") - from + 1);
}

// "CASE" or "LAW CASE". "" or one line.
std::string read_line(const std::string& text, ReplayCase& one) {
  const size_t space = text.find_first_of(" \t");
  if (space != std::string::npos) {
    one.law = find_law(text.substr(0, space));
    if (one.law == nullptr)
      return "no law is named \"" + text.substr(0, space) +
             "\"; a line is a case, or a law and a case";
  }
  const ParsedCase parsed =
      parse_case(trimmed(text.substr(one.law != nullptr ? space : 0)));
  if (parsed.value) one.value = *parsed.value;
  return parsed.error;
}

// A case, or @FILE: one case per line, alone or after the law that it is for; #
// begins a comment.
std::string read_cases(const std::string& target,
                       std::vector<ReplayCase>& cases) {
  if (!target.starts_with("@")) {
    const ParsedCase parsed = parse_case(target);
    if (!parsed.value) return parsed.error;
    cases.push_back({*parsed.value, ""});
    return "";
  }
  const std::string path = target.substr(1);
  std::string all;
  if (std::string wrong = read_file(path, &all); !wrong.empty()) return wrong;
  std::istringstream file(all);
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const std::string text = trimmed(line.substr(0, line.find('#')));
    if (text.empty()) continue;
    ReplayCase one;
    one.where = path + ":" + std::to_string(number) + ": ";
    const std::string error = read_line(text, one);
    if (!error.empty()) return one.where + error;
    cases.push_back(std::move(one));
  }
  return cases.empty() ? path + ": holds no case" : "";
}

// "" or one line.
std::string read_after(const std::vector<std::string>& texts,
                       std::vector<Case>& after) {
  for (const std::string& text : texts) {
    const ParsedCase parsed = parse_case(text);
    if (!parsed.value) return "--after " + text + ": " + parsed.error;
    after.push_back(*parsed.value);
  }
  return "";
}

// A list contains cases of attention, caches and layers together: a kernel gets
// those that it declares.
bool is_asked(const ReplayCase& one, const Law& law,
              const KernelUnderTest& kernel) {
  return one.law == nullptr ||
         (one.law == &law &&
          has_subject(kernel.judged.info, law.domain.subject));
}

std::string check_digest(const std::string& digest, const Case& value) {
  if (digest.empty()) return "";
  if (!not_judged_reason(value).empty()) return "";
  const std::string actual =
      fmt::format("{:08x}", input_digest(make_inputs(value)));
  return actual == digest
             ? ""
             : "--digest " + digest + ": this case's inputs have " + actual;
}

void print_cell(const ReportInput& input, const KernelResult& kernel,
                const Law& law, const ReplayCase& replayed, Detail detail) {
  const Cell& cell = kernel.cells[0];
  if (cell.failure) {
    fmt::print("{}\n\n", failure_text(input, kernel, *cell.failure, detail));
    return;
  }
  fmt::print("{}{}  {}   {}   {}{}\n", replayed.where,
             verdict_name(cell.verdict), law.id, kernel.kernel.judged.info.name,
             to_string(replayed.value),
             cell.verdict == Verdict::kPassed
                 ? fmt::format("   error/bound {:.2g}", cell.worst_ratio)
                 : "   " + cell.reason);
}

// Diagnoses the failure, if there is one. `catalogue` is null if no diagnosis
// is wanted. The kernel runs in a separate worker: its state after the case
// must not change. `after`: calls that were made first, which are the cause if
// it passes alone.
Diagnoses causes_of(const KernelResult& kernel, const Catalogue* catalogue,
                    const std::string& no_faults, const ExecutorFactory& open,
                    const std::vector<Case>& after) {
  Diagnoses causes;
  causes.no_faults = no_faults;
  TimeUse time;
  if (!kernel.cells[0].failure || catalogue == nullptr) return causes;
  const Failure& failure = *kernel.cells[0].failure;
  const KernelUnderTest& judged = kernel.kernel;
  const Opened opened = open(judged.library);
  if (opened.executor == nullptr) return causes;
  Witness witness(judged.judged, judged.index, *opened.executor, time,
                  kMostEarlierCalls);
  if (!after.empty() && calls_decide(after, failure, witness))
    causes.kernels.emplace_back().push_back(
        {diagnosis_of({EarlierCalls::Part::kTheseOnes, after}), &failure, {}});
  else
    causes.kernels.push_back(
        diagnose_all({&failure}, judged, *opened.executor, *catalogue, time));
  return causes;
}

std::string misuse_of_emit(const ReplayOptions& options,
                           const std::vector<ReplayCase>& cases,
                           const std::vector<const Law*>& laws,
                           size_t kernels) {
  std::vector<Case> values;
  values.reserve(cases.size());
  for (const ReplayCase& one : cases) values.push_back(one.value);
  return emit_misuse(options.emit, values, laws, kernels);
}

// "" or one line. Prints what it wrote, or that there is nothing to write.
std::string emit(const ReplayOptions& options, const KernelResult& made,
                 const Law& law, const Case& value,
                 const SelectedKernels& selected, Executor& executor,
                 TimeUse& time) {
  if (options.emit.folder.empty()) return "";
  std::string error;
  if (made.cells[0].failure)
    error = emit_failure(options.emit, law, value, selected, made.kernel,
                         executor, time);
  if (error.empty())
    fmt::print("{}", field("emitted", made.cells[0].failure
                                          ? options.emit.folder
                                          : "nothing: no law failed"));
  return error;
}

struct Replay {
  const ReplayOptions& options;
  const std::vector<ReplayCase>& cases;
  const std::vector<Case>& after;
  const ReportInput& report;
  const ExecutorFactory& open;
  const Catalogue* catalogue;  // null: no diagnosis
  std::string no_faults;       // "" or why the catalogue is empty
  Diagnoses* causes;           // of all kernels, for the record
};

// Prints the result of every law and adds the kernel to `result`; returns "" or
// the error of --out.
std::string replay_on(const KernelUnderTest& kernel, Executor& executor,
                      const Replay& replay, RunResult& result) {
  const bool all_laws = replay.options.laws.empty();
  KernelResult all{kernel, {}};
  std::vector<CauseOfFailures> kept;
  int silent_laws = 0;
  for (const ReplayCase& one : replay.cases)
    for (const Law* law : replay.report.options.laws) {
      if (!is_asked(one, *law, kernel)) continue;
      // Without --law, a law that does not apply to the case is not printed.
      const bool any = all_laws && one.law == nullptr;
      if (any && law->domain.subject != one.value.subject()) {
        ++silent_laws;
        continue;
      }
      KernelResult made = replay_one(*law, one.value, kernel, executor,
                                     result.time, replay.after);
      const Verdict verdict = made.cells[0].verdict;
      const bool silent = all_laws && (verdict == Verdict::kGaveUp ||
                                       verdict == Verdict::kMistrusted);
      if (silent && any) {
        ++silent_laws;
        continue;
      }
      Diagnoses causes = causes_of(made, replay.catalogue, replay.no_faults,
                                   replay.open, replay.after);
      ReportInput with_causes = replay.report;
      with_causes.diagnoses = &causes;
      print_cell(with_causes, made, *law, one, detail_of(replay.options));
      std::string error = emit(replay.options, made, *law, one.value,
                               replay.report.selected, executor, result.time);
      if (!error.empty()) return error;
      if (!causes.kernels.empty()) kept = std::move(causes.kernels[0]);
      if (!silent) all.cells.push_back(std::move(made.cells[0]));
    }
  if (silent_laws > 0 && replay.cases.size() == 1)
    fmt::print("{} laws say nothing about this case\n", silent_laws);
  result.kernels.push_back(std::move(all));
  // The one cell that was diagnosed is where the record finds it.
  for (CauseOfFailures& cause : kept)
    cause.best = &*result.kernels.back().cells[0].failure;
  replay.causes->kernels.push_back(std::move(kept));
  return "";
}

ExitCode run(const ReplayOptions& options) {
  if (const std::string wrong = load_data(options.data); !wrong.empty())
    return wrong_use(wrong);
  if (is_story_log(options.target)) {
    if (!options.emit.folder.empty())
      return wrong_use(
          "--out: a recorded story; allowed: a case (the report of a log "
          "that fails has one)");
    if (!options.laws.empty() || !options.digest.empty())
      return wrong_use(options.target +
                       ": a recording is judged as a whole; --law and --digest "
                       "are for cases");
    return replay_log(options.target, options.selection, detail_of(options));
  }
  std::vector<ReplayCase> cases;
  if (std::string error = read_cases(options.target, cases); !error.empty())
    return wrong_use(error);
  std::vector<Case> after;
  if (const std::string wrong = read_after(options.after, after);
      !wrong.empty())
    return wrong_use(wrong);
  RunOptions run;
  std::string error;
  run.laws = select_laws(options.laws, &error);
  if (!error.empty()) return wrong_use(error);
  for (const ReplayCase& one : cases)
    if (error = check_digest(options.digest, one.value); !error.empty())
      return wrong_use(error);
  const SelectedKernels selected = select_kernels(options.selection);
  if (!selected.error.empty()) return wrong_use(selected.error);
  error = misuse_of_emit(options, cases, run.laws, selected.kernels.size());
  if (!error.empty()) return wrong_use(error);

  const ExecutorFactory open =
      executor_factory(selected, options.selection.in_process);
  std::vector<std::unique_ptr<Executor>> executors;
  error = open_all(selected, options.selection.in_process, &executors);
  if (!error.empty()) return wrong_use(error);
  RunResult result;
  std::string no_faults;
  const std::unique_ptr<Catalogue> catalogue =
      cases.size() == 1 && run.laws.size() == 1 && options.diagnose > 0
          ? known_faults(&no_faults)
          : nullptr;
  Diagnoses causes;
  ReportInput report{result, run, selected, options.selection.in_process};
  report.diagnoses = &causes;
  const Replay replay{options, cases,           after,     report,
                      open,    catalogue.get(), no_faults, &causes};
  for (const KernelUnderTest& kernel : selected.kernels) {
    error = replay_on(kernel, *executors[kernel.library], replay, result);
    if (!error.empty()) return wrong_use(error);
  }
  if (!options.json.empty()) {
    GrowingFile json;
    std::string unwritten = json.open(options.json);
    if (unwritten.empty())
      unwritten = json.add(record_lines(record_of(report)));
    if (!unwritten.empty()) return wrong_use(unwritten);
  }
  return exit_code_of(report);
}

void add_flags(CLI::App& command, ReplayOptions& options) {
  command
      .add_option(
          "case", options.target,
          "Case text from a report, @FILE with one per line, or X.story")
      ->required();
  add_specs(command, options.selection);
  add_selection(command, options.selection);
  add_laws(command, options.laws);
  add_data(command, options.data);
  command
      .add_option("--after", options.after,
                  "Call this case first, in the same process; may be repeated")
      ->type_name("CASE");
  command
      .add_option("--digest", options.digest,
                  "Digest that the inputs must have (eight hex digits)")
      ->type_name("HEX");
  add_json(command, options.json);
  add_whether_to_diagnose(command, options.diagnose);
  command.add_flag("-v,--verbose", options.verbose,
                   "Print the whole report of a failure");
  command
      .add_option("-o,--out", options.emit.folder,
                  "Write the failure to a folder that runs without QKVet")
      ->type_name("DIR");
  command.add_flag("--force", options.emit.force,
                   "Overwrite the folder of --out");
}

}  // namespace

void add_replay(CLI::App& app, Chosen& chosen) {
  add_command<ReplayOptions>(
      app, chosen, "replay",
      "Run a case, a list of cases or a recorded operation sequence", add_flags,
      run);
}

}  // namespace qkvet::cli
