// SPDX-License-Identifier: Apache-2.0
// qkvet judge: answers that were recorded, to a plan or one by one.
#include "tools/judge/cmd_judge.h"

#include <filesystem>

#include "tools/report/commands.h"
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

}  // namespace

ExitCode run_judge(const JudgeOptions& options) {
  bool plan = false;
  for (const std::string& target : options.targets)
    plan |= is_folder(target) && !is_onnx_test(target);
  if (!plan && !options.table.empty())
    return wrong_use(options.targets[0] +
                     ": no plan; --table is for the questions of one");
  if (!plan) return run_judge_calls(options);
  if (options.targets.size() > 1)
    return wrong_use(options.targets[0] +
                     ": allowed is one plan, or files of calls");
  for (const std::string* text : {&options.value, &options.words.map,
                                  &options.words.layout, &options.words.heads})
    if (!text->empty())
      return wrong_use(options.targets[0] +
                       ": a plan; --case, --map, --layout and --heads are for "
                       "files of calls");
  return run_judge_plan(options);
}

}  // namespace qkvet::tools
