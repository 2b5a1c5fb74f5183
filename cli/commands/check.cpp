// SPDX-License-Identifier: Apache-2.0
// qkvet check: the main job. Every law on every selected kernel; with --faults
// every law on every known fault.
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "cli/base/interrupts.h"
#include "cli/commands/check_faults.h"
#include "cli/commands/flags.h"
#include "cli/terminal/failure_tensors.h"
#include "cli/terminal/progress_line.h"
#include "cli/terminal/report.h"
#include "cli/terminal/select.h"
#include "report/run_record.h"
#include "report/written_file.h"

namespace qkvet::cli {
namespace {

struct CheckOptions : RunWords {
  KernelSelection selection;
  std::string json;                  // file; "" for none
  ReportFiles files;                 // reports of the record
  std::string known;                 // file of accepted failures; "" for none
  std::string baseline;              // record of an earlier run; "" for none
  std::vector<std::string> without;  // "hints"
  int diagnose = kDefaultDiagnosed;  // failing kernels, at most
  bool verbose = false;              // law by law
  bool quiet = false;                // a line a kernel
  std::string faults;                // faults under the laws: which, or ""
};

// How many workers pay off that are interpreters. Starting one takes as long as
// judging some hundred cases, and with PyTorch many hundred.
int jobs_worth_starting(const SelectedKernels& selected, int most,
                        int64_t cases) {
  constexpr int64_t kCasesOfInterpreter = 500;
  for (const LibrarySpec& library : selected.libraries)
    if (!library.interpreter.empty())
      return static_cast<int>(
          std::clamp<int64_t>(cases / kCasesOfInterpreter, 1, most));
  return most;
}

ExitCode run(const CheckOptions& options) {
  if (!options.faults.empty())
    return check_faults({options.faults == "named", options.faults == "every"},
                        options, options.selection, options.json);
  RunOptions run;
  if (const std::string error = read_run_words(options, run); !error.empty())
    return wrong_use(error);
  std::optional<KnownFailures> known;
  if (!options.known.empty()) {
    std::string error;
    known = read_known(options.known, &error);
    if (!known) return wrong_use(error);
  }
  if (const std::string why = why_missing(faults_family());
      !why.empty() && known && known->names_causes())
    return wrong_use(options.known + ": names causes, and " + why);
  std::optional<RunRecord> baseline;
  if (!options.baseline.empty()) {
    std::string error;
    baseline = read_record(options.baseline, &error);
    if (!baseline) return wrong_use(error);
  }
  KernelSelection selection = options.selection;
  selection.hints = options.without.empty();
  selection.ends_waits = options.fail_fast;
  const SelectedKernels selected = select_kernels(selection);
  if (!selected.error.empty()) return wrong_use(selected.error);
  if (selected.by_default && !options.cases && !run.budget && !run.exhaustive)
    run.cases_per_law = kShortCasesPerLaw;
  if (options.selection.in_process) run.jobs = 1;
  if (options.jobs == 0 && options.cases)
    run.jobs = jobs_worth_starting(selected, run.jobs, *options.cases);
  run.scope.dtypes = declared_dtypes(selected.kernels);
  run.covers_pairs = options.shard.empty();

  GrowingFile json;
  const StartLine start = start_of(run);
  std::string unwritten;
  if (!options.json.empty()) unwritten = json.open(options.json);
  if (unwritten.empty()) unwritten = json.add(start_text(start));
  if (!unwritten.empty()) return wrong_use(unwritten);

  ProgressLine progress(run.budget);
  if (progress.is_visible())
    run.progress = [&progress](const RunProgress& now) { progress.show(now); };
  // Accepted failures, and one that ends the run, are only in the report.
  if (!run.fail_fast && !known && !baseline)
    run.first_failure = [&](const KernelUnderTest&, const Failure& failure) {
      progress.found(failure);
    };
  run.round_done = [&json](int64_t round, int64_t cases, int64_t failed) {
    json.add(json_round(round, cases, failed));
  };
  const Interrupts interrupts;
  run.stop = Interrupts::seen;
  const RunResult result =
      run_plan(selected.kernels,
               executor_factory(selected, options.selection.in_process), run);
  if (!result.error.empty()) {
    progress.clear();
    return wrong_use(result.error);
  }

  // A failure that is accepted by its cause needs a diagnosis.
  const int most = known && known->names_causes()
                       ? static_cast<int>(result.kernels.size())
                       : options.diagnose;
  if (some_failed(result)) progress.say("looking for causes");
  const Diagnoses diagnoses =
      diagnose_run(result, selected, options.selection.in_process, most);
  progress.clear();
  FailureTensors tensors;
  if (!options.json.empty() || options.files.any())
    tensors = collect_tensors(result, selected, options.selection.in_process);
  ReportInput report{result,
                     run,
                     selected,
                     options.selection.in_process,
                     known ? &*known : nullptr,
                     &diagnoses};
  report.tensors = &tensors;
  report.baseline = baseline ? &*baseline : nullptr;
  report.kernels_asked = selection.kernels;
  report.kernels_asked.insert(report.kernels_asked.end(),
                              selection.built_in.begin(),
                              selection.built_in.end());
  const RunRecord record = record_of(report, start);
  std::fputs(
      text_report(report, record, screen_style(options.verbose, options.quiet))
          .c_str(),
      stdout);
  std::fflush(stdout);
  if (unwritten = json.add(result_lines(record)); !unwritten.empty())
    return wrong_use(unwritten);
  if (const std::string error = write_reports(record, options.files);
      !error.empty())
    return wrong_use(error);
  return record.end.exit;
}

void add_flags(CLI::App& command, CheckOptions& options) {
  add_specs(command, options.selection);
  add_kernels(command, options.selection);
  add_laws(command, options.laws, "Law id, or a glob; may be repeated");
  CLI::Option* cases =
      command
          .add_option("-n,--cases", options.cases,
                      "Cases for each kernel, over all laws [" +
                          std::to_string(kDefaultCases) +
                          "; for built-in kernels " +
                          std::to_string(kShortCasesPerLaw) + " a law]")
          ->check(CLI::Range(int64_t{1}, int64_t{1'000'000'000'000}));
  command
      .add_option("--budget", options.budget,
                  "Run time instead of a number of cases")
      ->type_name("60s")
      ->excludes(cases);
  command
      .add_flag("--exhaustive", options.exhaustive,
                "Check all extents up to 3 with all pairs of options")
      ->excludes(cases);
  add_seed(command, options.seed);
  add_jobs(command, options.jobs);
  add_sizes(command, options.sizes);
  add_word_flag(command, "--strict", options.strict, {"all", "dialect"},
                "Require declared conventions (=dialect), and no loose "
                "precision");
  add_pin(command, options.pin);
  command
      .add_option("--without", options.without,
                  "hints: ignore tile sizes found in the source or workspace")
      ->check(CLI::IsMember({"hints"}))
      ->allow_extra_args(false);
  add_json(command, options.json);
  add_report_files(command, options.files);
  command
      .add_option("--shard", options.shard,
                  "Check shard K of N; `qkvet report --out` merges the records")
      ->type_name("K/N");
  add_declaration(command, options.selection);
  CLI::Option* baseline =
      command
          .add_option("--baseline", options.baseline,
                      "Record of an earlier run; only regressions fail")
          ->type_name("RUN.jsonl");
  command
      .add_option(
          "--known", options.known,
          "Accepted failures: KERNEL LAW HOW SINCE [until=DAY] WHY per line")
      ->type_name("FILE")
      ->excludes(baseline);
  command.add_flag("--fail-fast", options.fail_fast,
                   "Stop after the first round with a failure");
  CLI::Option* verbose = command.add_flag(
      "-v,--verbose", options.verbose,
      "Print one line per law and kernel, and the full coverage");
  command
      .add_flag("-q,--quiet", options.quiet,
                "Print one line per kernel, and the verdict")
      ->excludes(verbose);
  add_diagnose(command, options.diagnose);
  add_word_flag(command, "--faults", options.faults,
                {"first", "named", "every"},
                "Check known faults: =named its laws, =every failing case");
  add_heading(command, "What", {"--kernel", "--law", "--faults"});
  add_heading(command, "How much",
              {"--cases", "--budget", "--seed", "--jobs", "--sizes", "--pin",
               "--fail-fast"});
  add_heading(command, "Output",
              {"--json", "--junit", "--html", "--verbose", "--quiet"});
  add_heading(command, "Trust",
              {"--strict", "--dialect", "--baseline", "--known"});
  add_footer(command, "--help-all shows all options.");
  takes_only(command, "--faults",
             {"spec", "--kernel", "--in-process", "--law", "--cases",
              "--budget", "--seed", "--jobs", "--json"});
}

}  // namespace

void add_check(CLI::App& app, Chosen& chosen) {
  add_command<CheckOptions>(app, chosen, "check",
                            "Check kernels against the laws", add_flags, run);
}

}  // namespace qkvet::cli
