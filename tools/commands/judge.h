// SPDX-License-Identifier: Apache-2.0
// qkvet judge: what was recorded, by plan or call by call.
#ifndef QKVET_TOOLS_COMMANDS_JUDGE_H_
#define QKVET_TOOLS_COMMANDS_JUDGE_H_

#include <string>
#include <vector>

#include "golden/import/import_names.h"
#include "tools/base/exit_code.h"
#include "tools/record/report_files.h"

namespace qkvet::tools {

struct JudgeOptions {
  std::vector<std::string> targets;  // a plan's folder, or files of calls
  std::string answers;               // another folder; "": the plan's own
  std::string value;                 // of files: tokens of the case
  golden::ImportWords words;         // and how they are to be read
  std::string dialect, precision;    // beyond what the plan declares
  bool allow_loose = false;
  int diagnose = 1;      // 0: no cause is looked for
  std::string json;      // file; "" for none
  ReportFiles files;     // what is written from the record
  std::string table;     // of a plan: a row a question
  bool verbose = false;  // law by law
};
ExitCode judge_plan(const JudgeOptions& options);
ExitCode judge_calls(const JudgeOptions& options);

}  // namespace qkvet::tools

#endif  // QKVET_TOOLS_COMMANDS_JUDGE_H_
