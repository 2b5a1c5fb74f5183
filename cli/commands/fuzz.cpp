// SPDX-License-Identifier: Apache-2.0
// qkvet fuzz: hunts until the time is over, and reports its findings as `check`
// does.
#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "cli/base/arguments.h"
#include "cli/commands/flags.h"
#include "cli/hunt/hunt_inputs.h"
#include "cli/hunt/hunt_report.h"
#include "cli/terminal/select.h"
#include "fuzz/engines/engine.h"
#include "report/lines.h"
#include "report/written_file.h"

namespace qkvet::cli {
namespace {

struct FuzzOptions {
  std::string target;
  KernelSelection selection;
  std::vector<std::string> laws;  // globs; empty: those of the target
  std::string budget;             // "60s", "2m"; "" for none
  int64_t cases = 0;              // 0: no limit
  std::string seed = "1";
  int jobs = 1;
  bool fail_fast = false;
  std::string corpus;               // folder that inputs are kept in
  std::vector<std::string> seeds;   // folders that are read
  std::vector<std::string> merge;   // folders from which a least set goes to
                                    // the corpus
  std::vector<std::string> replay;  // inputs, one by one, without the engine
  std::string regressions;          // file of failing cases
  std::string pin;
  std::vector<std::string> without;  // "guide", "recipes"
  bool keep = false;  // the folder of the hunt, with the log of the engine
  int diagnose = kDefaultDiagnosed;
};

namespace fs = std::filesystem;

// The default if neither time nor cases are given.
constexpr const char* kDefaultTime = "60s";

// The engine writes and deletes thousands of small files. They go to memory if
// there is such a file system and no other folder is given.
std::string scratch_lead() {
  std::error_code code;
  const fs::path memory = "/dev/shm";
  const bool in_memory = std::getenv("TMPDIR") == nullptr &&
                         access(memory.c_str(), W_OK | X_OK) == 0;
  return ((in_memory ? memory : fs::temp_directory_path(code)) / "qkvet-fuzz")
      .string();
}

// "" or one line: the error in the options.
std::string resolve(const FuzzOptions& options, HuntLimits& limits) {
  std::string error;
  const std::string budget = options.budget.empty() && options.cases == 0
                                 ? kDefaultTime
                                 : options.budget;
  if (!budget.empty()) {
    const auto seconds = parse_budget(budget, &error);
    if (!seconds) return error;
    limits.seconds = *seconds;
  }
  const auto seed = parse_seed(options.seed, &error);
  if (!seed) return error;
  limits.seed = *seed;
  limits.runs = options.cases;
  limits.jobs = options.jobs;
  limits.fail_fast = options.fail_fast;
  limits.show = isatty(STDERR_FILENO) != 0;
  return "";
}

std::string misuse(const FuzzOptions& options, const Hunted& hunted) {
  if (!hunted.error.empty()) return hunted.error;
  const KernelSelection& s = options.selection;
  if (!hunted.target->about_kernels() && !s.names_nothing())
    return std::string(hunted.target->name) + ": is about no kernel";
  if (!options.replay.empty() && !options.merge.empty())
    return "--replay beside --merge: one of the two";
  if (!options.merge.empty() && options.corpus.empty())
    return "--merge: --corpus names the folder to merge into";
  return options.replay.empty() && !has_engine() ? kNoEngine : "";
}

HuntJob job_of(const FuzzOptions& options, const HuntLimits& limits,
               const std::string& folder) {
  HuntJob job;
  job.target = options.target;
  job.selection = options.selection;
  job.laws = options.laws;
  job.pin = options.pin;
  for (const std::string& word : options.without)
    (word == "guide" ? job.guided : job.recipes) = false;
  job.folder = folder;
  job.began = monotonic_nanoseconds();
  job.seconds = limits.seconds;
  return job;
}

// Keeps an input at which the hunt itself died, because its folder is removed.
// Returns its new path, or the old one.
std::string kept(const FuzzOptions& options, const std::string& file) {
  const fs::path into = options.corpus.empty() ? "." : options.corpus;
  const std::string path =
      (into / ("qkvet-" + fs::path(file).filename().string())).string();
  const std::vector<uint8_t> bytes = file_bytes(file);
  return write_file(path, {bytes.begin(), bytes.end()}).empty() ? path : file;
}

// Everything after the hunt itself.
ExitCode report_kernels(const FuzzOptions& options, const Hunted& hunted,
                        const HuntJob& job, HuntEnd& end, uint64_t seed) {
  HuntFindings findings = look_into(hunted, job, end, options.diagnose);
  if (!findings.error.empty()) return wrong_use(findings.error);
  for (LostFailure& lost : findings.lost)
    if (lost.died) lost.file = kept(options, lost.file);
  if (!end.error.empty() && !end.crashes.empty())
    end.crashes.back().file = kept(options, end.crashes.back().file);
  std::string regressions;
  if (!options.regressions.empty()) {
    std::string error;
    const int added = add_regressions(options.regressions, findings, &error);
    if (added < 0) return wrong_use(error);
    regressions = fmt::format("{}: {} line{} added", options.regressions, added,
                              added == 1 ? "" : "s");
  }
  const HuntSummary summary{hunted,         job,        end, findings, seed,
                            options.corpus, regressions};
  std::fputs(hunt_text(summary, colour_wanted()).c_str(), stdout);
  return hunt_exit(end, findings);
}

ExitCode merge(const FuzzOptions& options, const HuntJob& job) {
  std::error_code code;
  fs::create_directories(options.corpus, code);
  for (const std::string& folder : options.merge)
    if (!fs::is_directory(folder, code))
      return wrong_use("--merge " + folder + ": no folder");
  const std::string error = merge_inputs(job, options.corpus, options.merge);
  if (!error.empty()) return wrong_use(error);
  const auto files = std::distance(fs::directory_iterator(options.corpus), {});
  fmt::print("MERGED  {}: {} inputs\n", options.corpus, files);
  return kConforms;
}

ExitCode run(const FuzzOptions& options) {
  HuntLimits limits;
  if (const std::string error = resolve(options, limits); !error.empty())
    return wrong_use(error);
  ScratchFolder folder(scratch_lead());
  if (folder.path().empty()) return wrong_use("no folder for temporary files");
  const HuntJob job = job_of(options, limits, folder.path());
  const Hunted hunt = hunted(job);
  if (const std::string error = misuse(options, hunt); !error.empty())
    return wrong_use(error);
  if (!options.merge.empty()) return merge(options, job);
  HuntEnd end;
  std::string error;
  if (!options.replay.empty()) {
    std::vector<NamedInput> inputs;
    error = read_inputs(options.replay, inputs);
    if (error.empty()) error = replay_inputs(hunt, job, inputs, end);
  } else {
    std::vector<std::string> folders;
    error = prepare_inputs(hunt, folder.path(), options.corpus, options.seeds,
                           limits.seed, folders);
    if (error.empty()) end = watch_hunt(job, limits, folders);
  }
  if (error.empty() && end.executions == 0 && end.crashes.empty())
    error = end.error;
  if (!error.empty()) return wrong_use(error);
  if (options.keep) {
    folder.keep();
    fmt::print("{}", field("kept", folder.path()));
  }
  if (hunt.target->about_kernels())
    return report_kernels(options, hunt, job, end, limits.seed);
  // A user's file is not moved.
  for (HuntCrash& crash : end.crashes)
    if (crash.how != "wrong") crash.file = kept(options, crash.file);
  std::fputs(bytes_text(hunt, job, end).c_str(), stdout);
  return bytes_exit(job, end);
}

void add_hunt_inputs(CLI::App& command, FuzzOptions& options) {
  command
      .add_option("--corpus", options.corpus,
                  "Corpus folder: read at the start, extended during the hunt")
      ->type_name("DIR");
  command
      .add_option("--seeds", options.seeds,
                  "Folder of further seed inputs, read only; may be repeated")
      ->type_name("DIR")
      ->allow_extra_args(false);
  command
      .add_option("--merge", options.merge,
                  "Merge this folder into the corpus instead of hunting")
      ->type_name("DIR");
  command
      .add_option("--replay", options.replay,
                  "Run an input, or a folder of inputs, instead of hunting")
      ->type_name("PATH");
  add_output(command, "-o,--out", options.regressions,
             "File of the cases found, for qkvet replay @FILE");
}

void add_flags(CLI::App& command, FuzzOptions& options) {
  command
      .add_option("target", options.target,
                  "Target (`qkvet explain fuzz` lists them)")
      ->required();
  add_specs(command, options.selection);
  add_selection(command, options.selection);
  add_laws(command, options.laws,
           "Law of the target, or a glob; may be repeated");
  command.add_option("--budget", options.budget, "Duration of the hunt [60s]")
      ->type_name("60s");
  command.add_option("-n,--cases", options.cases, "Maximum number of cases")
      ->check(CLI::Range(int64_t{1}, int64_t{1000000000000}));
  add_seed(command, options.seed);
  command.add_option("-j,--jobs", options.jobs, "Number of processes")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command.add_flag("--fail-fast", options.fail_fast,
                   "Stop at the first failure");
  add_pin(command, options.pin);
  add_hunt_inputs(command, options);
  command
      .add_option("--without", options.without,
                  "guide: code coverage alone; recipes: N(0,1) data alone")
      ->check(CLI::IsMember({"guide", "recipes"}))
      ->allow_extra_args(false);
  command.add_flag("-v,--verbose", options.keep,
                   "Keep the working folder, with the log of the engine");
  add_diagnose(command, options.diagnose);
}

}  // namespace

void add_fuzz(CLI::App& app, Chosen& chosen) {
  add_command<FuzzOptions>(app, chosen, "fuzz",
                           "Search for failing cases with libFuzzer", add_flags,
                           run);
}

}  // namespace qkvet::cli
