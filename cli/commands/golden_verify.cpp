// SPDX-License-Identifier: Apache-2.0
// qkvet golden verify: whether kernels still return the answers of golden sets,
// and whether these are right.
#include <fmt/core.h>

#include <charconv>
#include <cstdio>
#include <filesystem>

#include "cli/commands/groups.h"
#include "cli/golden/golden_folders.h"
#include "cli/golden/golden_run.h"
#include "cli/kernels/compiler.h"
#include "cli/terminal/failure_tensors.h"
#include "cli/terminal/select.h"
#include "report/written_file.h"

namespace qkvet::cli {
namespace {

struct GoldenVerifyOptions {
  std::vector<std::string> targets;  // a folder or a file; none: QKVet's own
                                     // sets
  KernelSelection selection;
  std::vector<std::string> sets;  // globs over names; empty: all
  std::string unchanged;          // largest change in ulps; "" for any
  std::string json;
  ReportFiles files;  // reports of the record
  int diagnose = 1;
};

bool holds_sets(const std::string& word) {
  std::error_code code;
  return word.ends_with(".safetensors") ||
         std::filesystem::is_directory(word, code);
}

// The command that verifies the kernels again, without names of sets.
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
  if (!options.unchanged.empty())
    again += " --unchanged" +
             (options.unchanged == "0" ? "" : "=" + options.unchanged);
  return again;
}

ExitCode run(const GoldenVerifyOptions& options) {
  if (options.targets.size() > 1)
    return wrong_use(options.targets[1] +
                     ": allowed is one folder of sets, or one file");
  double most_ulps = -1;
  if (!options.unchanged.empty()) {
    const std::string& text = options.unchanged;
    const auto [end, code] =
        std::from_chars(text.data(), text.data() + text.size(), most_ulps);
    if (code != std::errc() || end != text.data() + text.size() ||
        !(most_ulps >= 0 && most_ulps <= 1e18))
      return wrong_use("--unchanged=" + text +
                       ": allowed is a number of ulps, 0 to 1e18");
  }
  GoldenFolder folder;
  std::string wrong = read_golden_target(
      options.targets.empty() ? golden_folder() : options.targets[0],
      options.sets, &folder);
  if (!wrong.empty()) return wrong_use(wrong);
  const SelectedKernels selected = select_kernels(options.selection);
  if (!selected.error.empty()) return wrong_use(selected.error);
  GoldenRunOptions how;
  how.in_process = options.selection.in_process;
  how.most_ulps = most_ulps;
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

void add_flags(CLI::App& command, GoldenVerifyOptions& options) {
  command
      .add_option_function<std::vector<std::string>>(
          "spec",
          [&options](const std::vector<std::string>& words) {
            for (const std::string& word : words)
              if (holds_sets(word))
                options.targets.push_back(word);
              else if (kind_of_spec(word) == SpecKind::kName &&
                       word.find('/') == std::string::npos)
                options.sets.push_back(word);
              else
                options.selection.add(word);
          },
          "Folder or file of sets [built-in], names of sets, and kernels")
      ->type_name("SETS|SPEC");
  add_selection(command, options.selection);
  add_word_flag(command, "--unchanged", options.unchanged, {"0"},
                "Fail also if an output changed by any bit, or by =N ulps");
  add_json(command, options.json);
  add_report_files(command, options.files);
  add_diagnose(command, options.diagnose);
}

}  // namespace

void add_golden_verify(CLI::App& golden, Chosen& chosen) {
  add_command<GoldenVerifyOptions>(golden, chosen, "verify",
                                   "Check kernels against golden sets",
                                   add_flags, run);
}

}  // namespace qkvet::cli
