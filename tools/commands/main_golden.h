// SPDX-License-Identifier: Apache-2.0
// Inside of the command line: qkvet golden.
#ifndef QKVET_TOOLS_COMMANDS_MAIN_GOLDEN_H_
#define QKVET_TOOLS_COMMANDS_MAIN_GOLDEN_H_

#include <CLI/CLI.hpp>

#include "tools/golden/cmd_golden.h"

namespace qkvet::tools {

class GoldenCommands {
 public:
  explicit GoldenCommands(CLI::App& app);
  bool parsed() const { return golden_->parsed(); }
  ExitCode run() const;

 private:
  void add_verify();
  void add_record();
  void add_show();
  void add_import();

  CLI::App* golden_;
  CLI::App* verify_ = nullptr;
  CLI::App* record_ = nullptr;
  CLI::App* show_ = nullptr;
  CLI::App* import_ = nullptr;
  GoldenVerifyOptions to_verify_;
  GoldenRecordOptions to_record_;
  GoldenShowOptions to_show_;
  GoldenImportOptions to_import_;
};

}  // namespace qkvet::tools

#endif  // QKVET_TOOLS_COMMANDS_MAIN_GOLDEN_H_
