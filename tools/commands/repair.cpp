// SPDX-License-Identifier: Apache-2.0
// qkvet repair: the edit of a failing kernel's source that makes it conform.
#include "tools/mutate/repair.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>

#include "tools/base/arguments.h"
#include "tools/base/interrupts.h"
#include "tools/base/written_file.h"
#include "tools/commands/flags.h"
#include "tools/mutate/mutation_run.h"
#include "tools/report/select.h"

namespace qkvet::tools {
namespace {

constexpr const char* kDefaultTime = "120s";

struct RepairOptions : RunWords {
  KernelSelection selection;
  std::string time = kDefaultTime;
  size_t most = 3;   // edits that are shown
  std::string json;  // a file; "" for none
};

void show_edits(size_t done, size_t all, size_t found) {
  std::fprintf(stderr, "\r\x1b[K%zu of %zu edits, %zu found%s", done, all,
               found, done == all ? "\r\x1b[K" : "");
  std::fflush(stderr);
}

ExitCode run(const RepairOptions& options) {
  if (options.selection.sources.size() != 1)
    return wrong_use(fmt::format(
        "repair takes one source: .c, .cpp, .cc, .cxx, .cu, .rs; {} are named",
        options.selection.sources.size()));
  RepairWords words;
  words.selection = options.selection;
  if (const std::string error = read_run_words(options, words.run);
      !error.empty())
    return wrong_use(error);
  std::string error;
  const auto seconds = parse_budget(options.time, &error);
  if (!seconds) return wrong_use(error);
  words.seconds = *seconds;
  words.run.cases = options.cases.value_or(kMutantCases);
  const Interrupts interrupts;
  words.run.stop = Interrupts::seen;
  const bool on_terminal = isatty(STDERR_FILENO) != 0;
  if (on_terminal) words.progress = show_edits;

  const RepairRun result = run_repair(words);
  if (on_terminal) std::fputs("\r\x1b[K", stderr);
  if (!result.error.empty()) {
    wrong_use(result.error);
    return result.exit;
  }
  std::fputs(repair_text(words, result, options.most).c_str(), stdout);
  std::fflush(stdout);
  if (!options.json.empty())
    if (error = write_file(options.json, repair_json(words, result));
        !error.empty())
      return wrong_use(error);
  return repair_exit(result);
}

void add_flags(Command& command, RepairOptions& options) {
  add_sources(command, options.selection,
              "Kernel that fails: .c, .cpp, .cc, .cxx, .cu, .rs");
  add_declaration(command, options.selection);
  add_laws(command, options.laws, "Law, or a glob; may be repeated");
  command
      .add_option("-n,--cases", options.cases,
                  "Cases of the plan that it fails and must pass [" +
                      std::to_string(kMutantCases) + "]")
      .within(int64_t{1}, int64_t{1'000'000'000});
  command
      .add_option("--budget", options.time,
                  "Time for the edits; then what was found is printed [" +
                      std::string(kDefaultTime) + "]")
      .type_name("10s");
  add_seed(command, options.seed, "Number, of the cases and of the order");
  add_jobs(command, options.jobs);
  add_sizes(command, options.sizes);
  add_pin(command, options.pin);
  command
      .add_option("--most", options.most,
                  "Edits that are shown, the best first")
      .within(size_t{1}, size_t{1000})
      .shows_default();
  add_json(command, options.json);
}

}  // namespace

void add_repair(Command& app, Chosen& chosen) {
  add_command<RepairOptions>(
      app, chosen, "repair",
      "Look for the one edit of a failing kernel that makes it conform",
      add_flags, run);
}

}  // namespace qkvet::tools
