// SPDX-License-Identifier: Apache-2.0
// qkvet golden verify: whether kernels still give what golden sets hold fast,
// and whether it is right.
#include <fmt/core.h>

#include "tools/base/written_file.h"
#include "tools/commands/golden.h"
#include "tools/golden/golden_run.h"
#include "tools/report/select.h"

namespace qkvet::tools {
namespace {

struct GoldenVerifyOptions {
  std::string target;  // a folder or a file; "": the sets that QKVet brings
  KernelSelection selection;
  std::vector<std::string> sets;  // globs over names; empty: all
  bool unchanged = false;         // every other bit is a failure
  double ulps = -1;  // >= 0: so much of a change is allowed, and no more
  std::string junit, json;
  int diagnose = 1;
};

std::string write_reports(const GoldenVerifyOptions& options,
                          const GoldenRun& run, const ReportInput& input,
                          const GoldenRunOptions& how) {
  std::string wrong;
  if (!options.junit.empty())
    wrong = write_file(options.junit, golden_junit(run, input, how));
  if (wrong.empty() && !options.json.empty())
    wrong = write_file(options.json, golden_json(run, input, how));
  return wrong;
}

ExitCode run(const GoldenVerifyOptions& options) {
  if (options.unchanged && options.ulps >= 0)
    return wrong_use("--unchanged and --ulps exclude each other");
  GoldenFolder folder;
  std::string wrong = read_golden_target(
      options.target.empty() ? golden_folder() : options.target, options.sets,
      &folder);
  if (!wrong.empty()) return wrong_use(wrong);
  const SelectedKernels selected = select_kernels(options.selection);
  if (!selected.error.empty()) return wrong_use(selected.error);
  GoldenRunOptions how;
  how.in_process = options.selection.in_process;
  how.most_ulps = options.unchanged ? 0 : options.ulps;
  how.diagnose = options.diagnose;
  const GoldenRun run = run_golden(folder.sets, selected, how);
  if (!run.error.empty()) return wrong_use(run.error);
  RunOptions none;
  const ReportInput input{run.result,     none,    selected,
                          how.in_process, nullptr, &run.diagnoses};
  fmt::print("{}", golden_text(run, input, how));
  if (wrong = write_reports(options, run, input, how); !wrong.empty())
    return wrong_use(wrong);
  return exit_code_of(run, input, how);
}

void add_flags(CLI::App& command, GoldenVerifyOptions& options) {
  command.add_option("sets", options.target,
                     "Folder of sets, or one file; absent: those that QKVet "
                     "brings");
  add_selection(command, options.selection);
  add_compiled(command, options.selection);
  command
      .add_option("--set", options.sets,
                  "Only sets of this name, or glob; may be repeated")
      ->type_name("NAME")
      ->allow_extra_args(false);
  command.add_flag("--unchanged", options.unchanged,
                   "Any other bit than recorded is a failure, too");
  command
      .add_option("--ulps", options.ulps,
                  "So many units in the last place may change, and no more")
      ->check(CLI::Range(0.0, 1e18));
  add_reports(command, options.junit, options.json);
  add_diagnose(command, options.diagnose);
}

}  // namespace

void add_golden_verify(CLI::App& golden, Chosen& chosen) {
  add_command<GoldenVerifyOptions>(
      golden, chosen, "verify",
      "Hold kernels against sets: correct? unchanged?", add_flags, run);
}

}  // namespace qkvet::tools
