// SPDX-License-Identifier: Apache-2.0
// qkvet mutate: what a passing `check` of somebody's own kernel is worth. Its
// source with one mistake at a time, each compiled and judged.
#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>

#include "tools/base/interrupts.h"
#include "tools/base/written_file.h"
#include "tools/commands/flags.h"
#include "tools/mutate/mutation_report.h"
#include "tools/report/report.h"
#include "tools/report/select.h"

namespace qkvet::tools {
namespace {

struct MutateOptions : RunWords {
  KernelSelection selection;
  int64_t sample = 0;     // 0: all
  std::string out;        // folder; "" for none
  std::string only;       // id of one mutant
  std::string emit;       // file for its source
  std::string explained;  // file of survivors that are explained
  std::string json;       // a file; "" for none
  bool list = false;      // only say which mutants there are
};

// "" or one line, of what can be seen before anything is done.
std::string mutate_misuse(const MutateOptions& options) {
  if (options.selection.sources.size() != 1)
    return fmt::format(
        "mutate takes one source: .c, .cpp, .cc, .cxx, .cu, .rs; {} are named",
        options.selection.sources.size());
  if (!options.emit.empty() && options.only.empty())
    return "--emit writes one mutant: --only says which";
  if (!options.only.empty() && (!options.out.empty() || options.sample > 0))
    return "--only is about one mutant: no --out and no --sample beside it";
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

// The mutant as a kernel of its own, and what `check --fail-fast` says of it.
ExitCode show_emitted(const MutateOptions& options, const RunOptions& words) {
  const OneMutant one = one_mutant(options.selection.sources[0], options.only);
  if (!one.error.empty()) return wrong_use(one.error);
  if (const std::string error = write_file(options.emit, one.text);
      !error.empty())
    return wrong_use(error);
  fmt::print(
      "{}{}{}", field("line", one.line.before),
      field("mutant", one.line.after.empty() ? "(nothing)" : one.line.after),
      field("written", options.emit));
  std::fflush(stdout);
  KernelSelection selection = options.selection;
  selection.sources = {options.emit};
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
  std::fputs(text_report(report, screen_style()).c_str(), stdout);
  return exit_code_of(report);
}

void show_mutants(size_t done, size_t all, size_t survivors) {
  std::fprintf(stderr, "\r\x1b[K%zu of %zu mutants, %zu survived%s", done, all,
               survivors, done == all ? "\r\x1b[K" : "");
  std::fflush(stderr);
}

ExitCode run(const MutateOptions& options) {
  if (const std::string error = mutate_misuse(options); !error.empty())
    return wrong_use(error);
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
  if (!options.emit.empty()) return show_emitted(options, words.run);
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

void add_flags(Command& command, MutateOptions& options) {
  add_sources(command, options.selection,
              "Kernel to mutate: .c, .cpp, .cc, .cxx, .cu, .rs");
  add_declaration(command, options.selection);
  add_laws(command, options.laws, "Law, or a glob; may be repeated");
  const CommandOption cases =
      command
          .add_option("-n,--cases", options.cases,
                      "Cases a mutant, over all laws of a subject [" +
                          std::to_string(kMutantCases) + "]")
          .within(int64_t{1}, int64_t{1'000'000'000});
  command
      .add_option("--budget", options.budget,
                  "Time a mutant instead of a number of cases")
      .type_name("10s")
      .excludes(cases);
  add_seed(command, options.seed, "Number, of the sample and the cases");
  add_jobs(command, options.jobs);
  add_sizes(command, options.sizes);
  add_pin(command, options.pin);
  command
      .add_option("--sample", options.sample,
                  "So many of the mutants, drawn by the seed")
      .within(int64_t{1}, int64_t{1'000'000'000});
  command
      .add_option("--out", options.out,
                  "Folder that gets a line for each mutant as it is done; a "
                  "run with the same words goes on behind them")
      .type_name("DIR");
  command.add_option("--only", options.only, "One mutant, by its id")
      .type_name("ID");
  command
      .add_option("--emit", options.emit,
                  "With --only: write the mutated source there, and report on "
                  "it as check does")
      .type_name("FILE")
      .names_output();
  command
      .add_option("--explained", options.explained,
                  "Survivors that are as they should be: ID WHY, a line each")
      .type_name("FILE");
  command.add_flag("--list", options.list, "Only say which mutants there are");
  add_json(command, options.json);
}

}  // namespace

void add_mutate(Command& app, Chosen& chosen) {
  add_command<MutateOptions>(
      app, chosen, "mutate",
      "Put mistakes into a kernel's source, and see which are found", add_flags,
      run);
}

}  // namespace qkvet::tools
