// SPDX-License-Identifier: Apache-2.0
// Every fault against every law, or only against those that it names.
#include "cli/commands/check_faults.h"

#include <unistd.h>

#include <cstdio>

#include "cli/base/arguments.h"
#include "cli/hunt/fault_report.h"
#include "cli/terminal/report.h"
#include "report/written_file.h"

namespace qkvet::cli {
namespace {

// Enough for all but the rarest triggers, in some minutes on two cores.
constexpr int64_t kCasesPerLaw = 64;
// For one fault and the laws that it names: all of them have killed by then.
constexpr int64_t kNamedCasesPerLaw = 1500;

// "" or one line: the error in the options.
std::string resolve(const FaultsOptions& options, const RunWords& words,
                    size_t faults, HuntOptions& hunt) {
  std::string error;
  hunt.laws = select_laws(words.laws, &error);
  if (!error.empty()) return error;
  hunt.named = options.named;
  hunt.every_case = options.every_case;
  hunt.cases =
      words.cases.value_or(options.named ? kNamedCasesPerLaw : kCasesPerLaw);
  hunt.jobs = jobs_or_cores(words.jobs);
  if (!words.budget.empty()) {
    const auto budget = parse_budget(words.budget, &error);
    if (!budget) return error;
    hunt.budget =
        *budget * hunt.jobs / static_cast<double>(std::max<size_t>(1, faults));
  }
  const auto seed = parse_seed(words.seed, &error);
  if (!seed) return error;
  hunt.seed = *seed;
  return "";
}

void show(size_t done, size_t all) {
  std::fprintf(stderr, "\r\x1b[K%zu of %zu faults%s", done, all,
               done == all ? "\r\x1b[K" : "");
  std::fflush(stderr);
}

}  // namespace

ExitCode check_faults(const FaultsOptions& options, const RunWords& words,
                      KernelSelection selection, const std::string& json) {
  if (selection.names_nothing()) selection.kernels = {"faulty/*"};
  const SelectedKernels selected = select_kernels(selection);
  if (!selected.error.empty()) return wrong_use(selected.error);
  HuntOptions run;
  if (const std::string error =
          resolve(options, words, selected.kernels.size(), run);
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
  if (!json.empty())
    if (const std::string error =
            write_file(json, faults_json(summary, hunt, run));
        !error.empty())
      return wrong_use(error);
  return summary.exit;
}

}  // namespace qkvet::cli
