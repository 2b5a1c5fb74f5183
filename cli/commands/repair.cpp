// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/repair.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>

#include "cli/base/arguments.h"
#include "cli/base/interrupts.h"
#include "cli/mutate/mutation_run.h"
#include "cli/mutate/repair.h"
#include "report/written_file.h"

namespace qkvet::cli {
namespace {

void show_edits(size_t done, size_t all, size_t found) {
  std::fprintf(stderr, "\r\x1b[K%zu of %zu edits, %zu found%s", done, all,
               found, done == all ? "\r\x1b[K" : "");
  std::fflush(stderr);
}

}  // namespace

ExitCode repair(const RunWords& given, const KernelSelection& selection,
                size_t most, const std::string& json) {
  RunWords of_run = given;
  of_run.budget.clear();
  RepairWords words;
  words.selection = selection;
  if (const std::string error = read_run_words(of_run, words.run);
      !error.empty())
    return wrong_use(error);
  std::string error;
  const auto seconds =
      parse_budget(given.budget.empty() ? kRepairTime : given.budget, &error);
  if (!seconds) return wrong_use(error);
  words.seconds = *seconds;
  words.run.cases = given.cases.value_or(kMutantCases);
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
  std::fputs(repair_text(words, result, most).c_str(), stdout);
  std::fflush(stdout);
  if (!json.empty())
    if (error = write_file(json, repair_json(words, result)); !error.empty())
      return wrong_use(error);
  return repair_exit(result);
}

}  // namespace qkvet::cli
