// SPDX-License-Identifier: Apache-2.0
// qkvet golden verify: whether kernels still give what golden sets hold fast,
// and whether it is right.
#include <fmt/core.h>
#include <fnmatch.h>

#include <filesystem>

#include "tools/base/written_file.h"
#include "tools/golden/cmd_golden.h"
#include "tools/golden/golden_run.h"
#include "tools/report/commands.h"

namespace qkvet::tools {
namespace {

namespace fs = std::filesystem;

std::string keep_named(const std::vector<std::string>& globs,
                       GoldenFolder* folder) {
  std::vector<bool> used(globs.size());
  std::erase_if(folder->sets, [&](const GoldenSet& set) {
    bool wanted = globs.empty();
    for (size_t i = 0; i < globs.size(); ++i)
      if (fnmatch(globs[i].c_str(), set.name.c_str(), 0) == 0)
        wanted = used[i] = true;
    return !wanted;
  });
  for (size_t i = 0; i < globs.size(); ++i)
    if (!used[i])
      return "--set " + globs[i] +
             ": no set has this name; `qkvet list golden` shows all";
  return "";
}

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

}  // namespace

std::string golden_folder() {
  return (fs::path(program_directory()).parent_path() / "share/qkvet/golden")
      .string();
}

std::string read_golden_target(const std::string& target,
                               const std::vector<std::string>& globs,
                               GoldenFolder* folder) {
  std::error_code code;
  std::string wrong;
  if (fs::is_directory(target, code)) {
    wrong = read_golden_folder(target, folder);
  } else {
    folder->sets.emplace_back();
    wrong = read_golden_file(target, &folder->sets.back());
  }
  return wrong.empty() ? keep_named(globs, folder) : wrong;
}

ExitCode run_golden_verify(const GoldenVerifyOptions& options) {
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

}  // namespace qkvet::tools
