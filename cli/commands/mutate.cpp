// SPDX-License-Identifier: Apache-2.0
// qkvet mutate: how much a passing `check` of a user's kernel proves. Its
// source is compiled and judged with one mistake at a time; with --repair, the
// one edit after which a failing kernel conforms.
#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>

#include "cli/base/interrupts.h"
#include "cli/commands/flags.h"
#include "cli/commands/repair.h"
#include "cli/mutate/mutation_report.h"
#include "cli/terminal/report.h"
#include "cli/terminal/select.h"
#include "report/run_record.h"
#include "report/written_file.h"

namespace qkvet::cli {
namespace {

struct MutateOptions : RunWords {
  KernelSelection selection;
  int64_t sample = 0;     // 0: all
  std::string out;        // folder, or with --only a file; "" for none
  std::string only;       // id of one mutant
  std::string explained;  // file of survivors that are explained
  std::string json;       // a file; "" for none
  bool list = false;      // only list the mutants
  bool repair = false;    // search for the edit that mends it
  bool verbose = false;   // show all edits that mend something
};

// "" or one line: errors that are visible before any work.
std::string mutate_misuse(const MutateOptions& options) {
  if (options.selection.sources.size() != 1)
    return fmt::format(
        "mutate takes one source: .c, .cpp, .cc, .cxx, .cu, .rs; {} are named",
        options.selection.sources.size());
  if (!options.repair && options.cases && !options.budget.empty())
    return "--budget and --cases: allowed is one of them; both with --repair";
  if (!options.only.empty() && options.sample > 0)
    return "--only and --sample: allowed is one of them";
  if (!options.only.empty() && !options.out.empty())
    return not_writable_reason(options.out);
  return "";
}

ExitCode list_mutants(const MutationWords& words) {
  std::string error;
  const std::vector<Mutation> all =
      mutations_of(words.selection.sources[0], &error);
  if (!error.empty()) return wrong_use(error);
  for (const size_t i : sample_of(all.size(), words.sample, words.run.seed))
    fmt::print("{:<24} {}\n", all[i].id(), all[i].operation);
  return all.empty() ? kNothingChecked : kConforms;
}

// The mutant as a separate kernel, and the result of `check --fail-fast`.
ExitCode show_emitted(const MutateOptions& options, const RunOptions& words) {
  const OneMutant one = one_mutant(options.selection.sources[0], options.only);
  if (!one.error.empty()) return wrong_use(one.error);
  if (const std::string error = write_file(options.out, one.text);
      !error.empty())
    return wrong_use(error);
  fmt::print(
      "{}{}{}", field("line", one.line.before),
      field("mutant", one.line.after.empty() ? "(nothing)" : one.line.after),
      field("written", options.out));
  std::fflush(stdout);
  KernelSelection selection = options.selection;
  selection.sources = {options.out};
  const SelectedKernels selected = select_kernels(selection);
  if (!selected.error.empty()) return wrong_use(selected.error);
  RunOptions run = words;
  run.fail_fast = true;
  run.scope.dtypes = declared_dtypes(selected.kernels);
  const RunResult result =
      run_plan(selected.kernels, executor_factory(selected, false), run);
  if (!result.error.empty()) return wrong_use(result.error);
  const Diagnoses diagnoses =
      diagnose_run(result, selected, false, kDefaultDiagnosed);
  const ReportInput report{result, run, selected, false, nullptr, &diagnoses};
  const RunRecord record = record_of(report);
  std::fputs(text_report(report, record, screen_style()).c_str(), stdout);
  return record.end.exit;
}

constexpr size_t kShownEdits = 3, kAllEdits = 1000;

void show_mutants(size_t done, size_t all, size_t survivors) {
  std::fprintf(stderr, "\r\x1b[K%zu of %zu mutants, %zu survived%s", done, all,
               survivors, done == all ? "\r\x1b[K" : "");
  std::fflush(stderr);
}

ExitCode run(const MutateOptions& options) {
  if (const std::string error = mutate_misuse(options); !error.empty())
    return wrong_use(error);
  if (options.repair)
    return repair(options, options.selection,
                  options.verbose ? kAllEdits : kShownEdits, options.json);
  MutationWords words;
  words.selection = options.selection;
  if (const std::string error = read_run_words(options, words.run);
      !error.empty())
    return wrong_use(error);
  words.run.cases =
      options.cases.value_or(words.run.budget ? kDefaultCases : kMutantCases);
  words.sample = static_cast<size_t>(options.sample);
  words.only = options.only;
  words.flags = flags_of(options);
  words.out = options.out;
  if (options.list) return list_mutants(words);
  Explained explained;
  if (!options.explained.empty())
    if (const std::string error = read_explained(
            options.explained, words.selection.sources[0], &explained);
        !error.empty())
      return wrong_use(error);
  const Interrupts interrupts;
  words.run.stop = Interrupts::seen;
  if (!options.only.empty() && !options.out.empty())
    return show_emitted(options, words.run);
  if (isatty(STDERR_FILENO) != 0) words.progress = show_mutants;

  const MutationRun result = run_mutation(words);
  if (!result.error.empty()) {
    wrong_use(result.error);
    return result.exit;
  }
  std::fputs(mutation_text(words, result, explained).c_str(), stdout);
  std::fflush(stdout);
  if (!options.json.empty())
    if (const std::string error =
            write_file(options.json, mutation_json(words, result, explained));
        !error.empty())
      return wrong_use(error);
  return mutation_exit(result, explained);
}

void add_flags(CLI::App& command, MutateOptions& options) {
  command
      .add_option("source", options.selection.sources,
                  "Source of the kernel: .c, .cpp, .cc, .cxx, .cu or .rs")
      ->type_name("SOURCE");
  add_declaration(command, options.selection);
  add_laws(command, options.laws, "Law id, or a glob; may be repeated");
  command
      .add_option("-n,--cases", options.cases,
                  "Cases for each mutant, over all laws of a subject [" +
                      std::to_string(kMutantCases) + "]")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000'000}));
  command
      .add_option("--budget", options.budget,
                  "Time for each mutant, or for all edits of --repair [" +
                      std::string(kRepairTime) + "]")
      ->type_name("10s");
  add_seed(command, options.seed,
           "Seed of the sample and of the cases, or random");
  add_jobs(command, options.jobs);
  add_sizes(command, options.sizes);
  add_pin(command, options.pin);
  command
      .add_option("--sample", options.sample,
                  "Number of mutants, chosen by the seed")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000'000}));
  command
      .add_option(
          "-o,--out", options.out,
          "Folder of results to resume from; with --only the mutant's source")
      ->type_name("OUT");
  command.add_option("--only", options.only, "Id of a single mutant")
      ->type_name("ID");
  command
      .add_option("--known", options.explained,
                  "Expected survivors: ID WHY, one per line")
      ->type_name("FILE");
  command.add_flag("--list", options.list, "List the mutants only");
  add_json(command, options.json);
  CLI::Option* repaired = command.add_flag(
      "--repair", options.repair,
      "Search for a single edit that makes the kernel conform");
  command
      .add_flag("-v,--verbose", options.verbose,
                "Print all edits that mend a case, not three")
      ->needs(repaired);
  takes_only(command, "--repair",
             {"source", "--dialect", "--precision", "--cflags", "--law",
              "--cases", "--budget", "--seed", "--jobs", "--sizes", "--pin",
              "--verbose", "--json"});
}

}  // namespace

void add_mutate(CLI::App& app, Chosen& chosen) {
  add_command<MutateOptions>(
      app, chosen, "mutate",
      "Measure which mistakes in a source are found, or repair one", add_flags,
      run);
}

}  // namespace qkvet::cli
