// SPDX-License-Identifier: Apache-2.0
// qkvet check: the main job. Every law on every selected kernel.
#include <cstdio>

#include "tools/base/arguments.h"
#include "tools/base/interrupts.h"
#include "tools/base/written_file.h"
#include "tools/report/commands.h"
#include "tools/report/progress_line.h"
#include "tools/report/report.h"

namespace qkvet::tools {
std::string read_check_words(const CheckOptions& options, RunOptions& run) {
  std::string error;
  run.laws = select_laws(options.laws, &error);
  if (!error.empty()) return error;
  run.cases = options.cases.value_or(kDefaultCases);
  run.exhaustive = options.exhaustive;
  run.fail_fast = options.fail_fast;
  if (options.exhaustive && !options.laws.empty())
    return "--exhaustive is about agreement with the oracle: no --law beside "
           "it";
  if (options.exhaustive && !options.pin.empty())
    return "--exhaustive has extents of its own: no --pin beside it";
  if (!options.budget.empty()) {
    run.budget = parse_budget(options.budget, &error);
    if (!run.budget) return error;
  }
  const auto seed = parse_seed(options.seed, &error);
  if (!seed) return error;
  run.seed = *seed;
  if (options.sizes != "small" && options.sizes != "medium" &&
      options.sizes != "large")
    return "sizes \"" + options.sizes + "\": allowed: small, medium, large";
  run.scope.largest = options.sizes == "small"    ? SizeClass::kSmall
                      : options.sizes == "medium" ? SizeClass::kMedium
                                                  : SizeClass::kLarge;
  run.allow_loose = options.allow_loose;
  run.strict = options.strict;
  run.scope.pins = parse_pins(options.pin, &error);
  if (!error.empty()) return "--pin " + error;
  run.jobs = jobs_or_cores(options.jobs);
  return "";
}

namespace {

// The JSON Lines file, open from the start so that a path that cannot be
// written is found before anything runs.
class JsonLog {
 public:
  ~JsonLog() {
    if (file_ != nullptr) std::fclose(file_);
  }
  bool open(const std::string& path) {
    file_ = std::fopen(path.c_str(), "wb");
    return file_ != nullptr;
  }
  bool write(const std::string& lines) {
    return file_ == nullptr ||
           (std::fputs(lines.c_str(), file_) >= 0 && std::fflush(file_) == 0);
  }

 private:
  std::FILE* file_ = nullptr;
};

}  // namespace

ExitCode run_check(const CheckOptions& options) {
  RunOptions run;
  if (const std::string error = read_check_words(options, run); !error.empty())
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
  const SelectedKernels selected = select_kernels(options.selection);
  if (!selected.error.empty()) return wrong_use(selected.error);
  if (selected.by_default && !options.cases && !run.budget && !run.exhaustive)
    run.cases_per_law = kShortCasesPerLaw;
  if (options.selection.in_process) run.jobs = 1;
  run.scope.dtypes = declared_dtypes(selected.kernels);

  JsonLog json;
  if (!options.json.empty() && !json.open(options.json))
    return wrong_use(options.json + ": cannot be written");
  if (!options.junit.empty())
    if (const std::string error = write_file(options.junit, ""); !error.empty())
      return wrong_use(error);

  ProgressLine progress(run.budget);
  if (progress.is_visible())
    run.progress = [&progress](const RunProgress& now) { progress.show(now); };
  json.write(json_start(run));
  run.round_done = [&json](int64_t round, int64_t cases, int64_t failed) {
    json.write(json_round(round, cases, failed));
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

  // A failure that is accepted for its cause is held against it.
  const int most = known && known->names_causes()
                       ? static_cast<int>(result.kernels.size())
                       : options.diagnose;
  if (some_failed(result)) progress.say("looking for causes");
  const Diagnoses diagnoses =
      diagnose_run(result, selected, options.selection.in_process, most);
  progress.clear();
  const ReportInput report{result,
                           run,
                           selected,
                           options.selection.in_process,
                           known ? &*known : nullptr,
                           &diagnoses};
  std::fputs(text_report(report, screen_style(options.verbose)).c_str(),
             stdout);
  std::fflush(stdout);
  if (!json.write(json_results(report)))
    return wrong_use(options.json + ": cannot be written in full");
  if (!options.junit.empty())
    if (const std::string error =
            write_file(options.junit, junit_report(report));
        !error.empty())
      return wrong_use(error);
  return exit_code_of(report);
}

}  // namespace qkvet::tools
