// SPDX-License-Identifier: Apache-2.0
// qkvet faults: what the laws are worth. Every fault against every law, or
// against those alone that it names.
#include <unistd.h>

#include <cstdio>

#include "tools/base/arguments.h"
#include "tools/base/written_file.h"
#include "tools/commands/flags.h"
#include "tools/hunt/fault_report.h"
#include "tools/report/report.h"
#include "tools/report/select.h"

namespace qkvet::tools {
namespace {

struct FaultsOptions {
  KernelSelection selection;      // nothing named: faulty/*
  std::vector<std::string> laws;  // globs; empty: all
  int64_t cases = 0;              // per fault and law; 0: the usual number
  std::string budget;             // "60s", "2m", "" for none
  std::string seed = "1";
  int jobs = 0;             // 0: one per core
  bool named = false;       // only the laws that a fault names
  bool every_case = false;  // laws go on after a kill
  std::string json;         // a file; "" for none
};

// Enough for all but the rarest triggers, in some minutes on two cores.
constexpr int64_t kCasesPerLaw = 64;
// For one fault and the laws that it names: all of them have killed by then.
constexpr int64_t kNamedCasesPerLaw = 1500;
// Per pair, oracle and law, as properties/kills.md has it.

// "" or one line: what is wrong with the options.
std::string resolve(const FaultsOptions& options, size_t faults,
                    HuntOptions& hunt) {
  std::string error;
  hunt.laws = select_laws(options.laws, &error);
  if (!error.empty()) return error;
  hunt.named = options.named;
  hunt.every_case = options.every_case;
  hunt.cases = options.cases > 0 ? options.cases
               : options.named   ? kNamedCasesPerLaw
                                 : kCasesPerLaw;
  hunt.jobs = jobs_or_cores(options.jobs);
  if (!options.budget.empty()) {
    const auto budget = parse_budget(options.budget, &error);
    if (!budget) return error;
    hunt.budget =
        *budget * hunt.jobs / static_cast<double>(std::max<size_t>(1, faults));
  }
  const auto seed = parse_seed(options.seed, &error);
  if (!seed) return error;
  hunt.seed = *seed;
  return "";
}

void show(size_t done, size_t all) {
  std::fprintf(stderr, "\r\x1b[K%zu of %zu faults%s", done, all,
               done == all ? "\r\x1b[K" : "");
  std::fflush(stderr);
}

ExitCode run(const FaultsOptions& options) {
  KernelSelection selection = options.selection;
  if (selection.kernels.empty() && selection.plugins.empty())
    selection.kernels = {"faulty/*"};
  const SelectedKernels selected = select_kernels(selection);
  if (!selected.error.empty()) return wrong_use(selected.error);
  HuntOptions run;
  if (const std::string error = resolve(options, selected.kernels.size(), run);
      !error.empty())
    return wrong_use(error);
  if (selection.in_process) run.jobs = 1;
  if (isatty(STDERR_FILENO) != 0) run.progress = show;

  const Hunt hunt = hunt_faults(
      selected.kernels, executor_factory(selected, selection.in_process), run);
  if (!hunt.error.empty()) return wrong_use(hunt.error);
  const FaultSummary summary = sum_up(hunt, run.named, near_equivalents());
  std::fputs(faults_text(summary, hunt, run).c_str(), stdout);
  std::fflush(stdout);
  if (!options.json.empty())
    if (const std::string error =
            write_file(options.json, faults_json(summary, hunt, run));
        !error.empty())
      return wrong_use(error);
  return summary.exit;
}

void add_flags(Command& command, FaultsOptions& options) {
  add_kernels(command, options.selection);
  add_laws(command, options.laws);
  const CommandOption cases =
      command.add_option("-n,--cases", options.cases, "Cases per fault and law")
          .within(int64_t{1}, int64_t{1000000000});
  command
      .add_option("--budget", options.budget,
                  "Time for the whole run instead, the same for each fault")
      .type_name("5m")
      .excludes(cases);
  add_seed(command, options.seed);
  add_jobs(command, options.jobs);
  command.add_flag("--named", options.named,
                   "Only the laws that a fault names; all of them must kill");
  command.add_flag("--every-case", options.every_case,
                   "Go on after a kill: each failure must lie in the trigger");
  add_json(command, options.json);
}

}  // namespace

void add_faults(Command& app, Chosen& chosen) {
  add_command<FaultsOptions>(app, chosen, "faults",
                             "Hold every seeded fault against every law",
                             add_flags, run);
}

}  // namespace qkvet::tools
