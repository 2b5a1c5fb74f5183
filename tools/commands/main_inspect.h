// SPDX-License-Identifier: Apache-2.0
// The commands that show what is computed, as main.cpp has them.
#ifndef QKVET_TOOLS_COMMANDS_MAIN_INSPECT_H_
#define QKVET_TOOLS_COMMANDS_MAIN_INSPECT_H_

#include <optional>

#include "tools/demos/cmd_train_demo.h"
#include "tools/inspect/cmd_inspect.h"

namespace CLI {
class App;
}  // namespace CLI

namespace qkvet::tools {

class InspectCommands {
 public:
  // Adds them; must outlive the parsing.
  explicit InspectCommands(CLI::App& app);

  // Runs the one that was asked for, if it is one of these.
  std::optional<ExitCode> run() const;

 private:
  InspectOptions inspect_;
  TraceOptions trace_;
  TrainDemoOptions train_;
  const CLI::App* inspect_command_;
  const CLI::App* trace_command_;
  const CLI::App* train_command_;
};

}  // namespace qkvet::tools

#endif  // QKVET_TOOLS_COMMANDS_MAIN_INSPECT_H_
