// SPDX-License-Identifier: Apache-2.0
// The commands about kernels that cannot be linked, as main.cpp has them.
#ifndef QKVET_TOOLS_JUDGE_MAIN_JUDGE_H_
#define QKVET_TOOLS_JUDGE_MAIN_JUDGE_H_

#include <optional>

#include "tools/judge/cmd_judge.h"
#include "tools/report/commands.h"

namespace CLI {
class App;
}  // namespace CLI

namespace qkvet::tools {

class JudgeCommands {
 public:
  // Adds them; must outlive the parsing.
  explicit JudgeCommands(CLI::App& app);

  // Runs the one that was asked for, if it is one of these.
  std::optional<ExitCode> run() const;

 private:
  EmitPlanOptions emit_;
  JudgeOptions judge_;
  const CLI::App* emit_command_;
  const CLI::App* judge_command_;
};

}  // namespace qkvet::tools

#endif  // QKVET_TOOLS_JUDGE_MAIN_JUDGE_H_
