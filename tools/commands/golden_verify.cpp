// SPDX-License-Identifier: Apache-2.0
// qkvet golden verify: whether kernels still give what golden sets hold fast,
// and whether it is right.
#include <fmt/core.h>

#include <cstdio>
#include <filesystem>

#include "tools/base/written_file.h"
#include "tools/commands/groups.h"
#include "tools/golden/golden_folders.h"
#include "tools/golden/golden_run.h"
#include "tools/kernels/compiler.h"
#include "tools/report/failure_tensors.h"
#include "tools/report/select.h"

namespace qkvet::tools {
namespace {

struct GoldenVerifyOptions {
  std::vector<std::string> targets;  // a folder or a file; none: the sets
                                     // that QKVet brings
  KernelSelection selection;
  std::vector<std::string> sets;  // globs over names; empty: all
  bool unchanged = false;         // every other bit is a failure
  double ulps = -1;  // >= 0: so much of a change is allowed, and no more
  std::string json;
  ReportFiles files;  // what is written from the record
  int diagnose = 1;
};

// A word of the line that is no kernel.
bool names_sets(const std::string& word) {
  std::error_code code;
  return kind_of_spec(word) == SpecKind::kName ||
         word.ends_with(".safetensors") ||
         std::filesystem::is_directory(word, code);
}

// What holds the sets against the kernels once more, without --set.
std::string again_of(const GoldenVerifyOptions& options) {
  std::string again = "qkvet golden verify";
  const auto add = [&again](const char* option, const std::string& text) {
    if (!text.empty()) again += option + shell_quoted(text);
  };
  for (const std::string& target : options.targets) add(" ", target);
  for (const auto* specs :
       {&options.selection.plugins, &options.selection.sources})
    for (const std::string& spec : *specs) add(" ", spec);
  for (const std::string& kernel : options.selection.kernels)
    add(" --kernel ", kernel);
  add(" --dialect ", options.selection.dialect);
  add(" --precision ", options.selection.precision);
  if (options.unchanged) again += " --unchanged";
  if (options.ulps >= 0) again += fmt::format(" --ulps {:g}", options.ulps);
  return again;
}

ExitCode run(const GoldenVerifyOptions& options) {
  if (options.targets.size() > 1)
    return wrong_use(options.targets[1] +
                     ": allowed is one folder of sets, or one file");
  if (options.unchanged && options.ulps >= 0)
    return wrong_use("--unchanged and --ulps exclude each other");
  GoldenFolder folder;
  std::string wrong = read_golden_target(
      options.targets.empty() ? golden_folder() : options.targets[0],
      options.sets, &folder);
  if (!wrong.empty()) return wrong_use(wrong);
  const SelectedKernels selected = select_kernels(options.selection);
  if (!selected.error.empty()) return wrong_use(selected.error);
  GoldenRunOptions how;
  how.in_process = options.selection.in_process;
  how.most_ulps = options.unchanged ? 0 : options.ulps;
  how.diagnose = options.diagnose;
  const GoldenRun run = run_golden(folder.sets, selected, how);
  if (!run.error.empty()) return wrong_use(run.error);
  const RunOptions asked = options_of(run);
  ReportInput input{run.result,     asked,   selected,
                    how.in_process, nullptr, &run.diagnoses};
  FailureTensors tensors;
  if (!options.json.empty() || options.files.any())
    tensors = collect_tensors(run.result, selected, how.in_process);
  input.tensors = &tensors;
  fmt::print("{}", golden_text(run, input, how));
  std::fflush(stdout);
  const RunRecord record = golden_record(run, input, again_of(options));
  if (!options.json.empty())
    wrong = write_file(options.json, golden_lines(run, input, record));
  if (wrong.empty()) wrong = write_reports(record, options.files);
  return wrong.empty() ? record.end.exit : wrong_use(wrong);
}

void add_flags(Command& command, GoldenVerifyOptions& options) {
  command
      .add_taker(
          "spec",
          [&options](const std::vector<std::string>& words) {
            for (const std::string& word : words)
              if (names_sets(word))
                options.targets.push_back(word);
              else
                options.selection.add(word);
          },
          "Folder or file of sets [built-in]; kernels: ./lib.so, mine.cpp, ...")
      .type_name("SETS|SPEC");
  add_selection(command, options.selection);
  command
      .add_option("--set", options.sets,
                  "Name of a set, or a glob; may be repeated")
      .type_name("NAME")
      .one_at_a_time();
  command.add_flag(
      "--unchanged", options.unchanged,
      "Fail also if an output differs in any bit from the recording");
  command
      .add_option("--ulps", options.ulps,
                  "Maximum change in units in the last place")
      .within(0.0, 1e18);
  add_json(command, options.json);
  add_report_files(command, options.files);
  add_diagnose(command, options.diagnose);
}

}  // namespace

void add_golden_verify(Command& golden, Chosen& chosen) {
  add_command<GoldenVerifyOptions>(golden, chosen, "verify",
                                   "Check kernels against golden sets",
                                   add_flags, run);
}

}  // namespace qkvet::tools
