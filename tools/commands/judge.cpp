// SPDX-License-Identifier: Apache-2.0
// qkvet judge: answers that were recorded, to a plan or one by one.
#include "tools/commands/judge.h"

#include <filesystem>

#include "tools/commands/flags.h"
#include "tools/report/select.h"
#include "tools/reproduce/plan_folder.h"

namespace qkvet::tools {
namespace {

bool is_folder(const std::string& target) {
  std::error_code code;
  return std::filesystem::is_directory(target, code);
}

// The folder of an ONNX node test is a call.
bool is_onnx_test(const std::string& target) {
  std::error_code code;
  return std::filesystem::exists(std::filesystem::path(target) / "model.onnx",
                                 code);
}

ExitCode run(const JudgeOptions& options) {
  bool plan = false;
  for (const std::string& target : options.targets)
    plan |= is_folder(target) && !is_onnx_test(target);
  if (!plan && !options.table.empty())
    return wrong_use(options.targets[0] +
                     ": no plan; --table is for the questions of one");
  if (!plan) return judge_calls(options);
  if (options.targets.size() > 1)
    return wrong_use(options.targets[0] +
                     ": allowed is one plan, or files of calls");
  for (const std::string* text : {&options.value, &options.words.map,
                                  &options.words.layout, &options.words.heads})
    if (!text->empty())
      return wrong_use(options.targets[0] +
                       ": a plan; --case, --map, --layout and --heads are for "
                       "files of calls");
  return judge_plan(options);
}

void add_flags(Command& command, JudgeOptions& options) {
  command
      .add_option("what", options.targets,
                  "The folder of a plan; or files of one call each: "
                  ".safetensors, .npz, folders of ONNX node tests")
      .required();
  command
      .add_option("--case", options.value,
                  "What the tensors of a call do not say: causal=br,scale=0.1")
      .type_name("TOKENS");
  command
      .add_option("--map", options.words.map,
                  "Names in the file: q=query,o=attn_output")
      .type_name("NAMES");
  command.add_option("--layout", options.words.layout, "bhtd, bthd or thd")
      .type_name("LAYOUT");
  command
      .add_option("--heads", options.words.heads,
                  "H or H,Hkv, where tensors are [B,T,H*d]")
      .type_name("H,Hkv");
  command
      .add_option("--answers", options.answers,
                  "Folder of the answers, if it is another one")
      .type_name("DIR");
  command
      .add_option("--dialect", options.dialect,
                  "File of dialect fields, or a convention, beyond what the "
                  "plan declares")
      .type_name("FILE|CONVENTION");
  command
      .add_option("--precision", options.precision,
                  "File of precision fields, beyond what the plan declares")
      .type_name("FILE");
  command.add_flag(
      "--allow-loose", options.allow_loose,
      "Taken and without effect: declared precisions are believed");
  add_whether_to_diagnose(command, options.diagnose);
  add_json(command, options.json);
  add_report_files(command, options.files);
  command
      .add_option("--table", options.table,
                  "A row for each question of a plan, tab-separated")
      .type_name("FILE")
      .names_output();
  command.add_flag("-v,--verbose", options.verbose, "A line for every law");
}

}  // namespace

void add_judge(Command& app, Chosen& chosen) {
  add_command<JudgeOptions>(
      app, chosen, "judge",
      "Judge what was recorded: answers to a plan of qkvet emit, or calls",
      add_flags, run);
}

}  // namespace qkvet::tools
