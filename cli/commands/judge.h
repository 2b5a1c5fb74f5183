// SPDX-License-Identifier: Apache-2.0
// qkvet judge: writes questions to files, and judges answers and recorded
// calls.
#ifndef QKVET_CLI_COMMANDS_JUDGE_H_
#define QKVET_CLI_COMMANDS_JUDGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cli/terminal/report.h"
#include "golden/import/import_names.h"
#include "report/exit_code.h"
#include "report/report_files.h"

namespace qkvet::cli {

// A plan that is to be written.
struct AskOptions {
  std::string folder;             // to be made; "": no questions are written
  std::vector<std::string> laws;  // globs; empty: all
  int64_t cases = 200;
  std::string seed = "1";
  std::string sizes = "small";      // small, medium, large, long
  std::vector<std::string> dtypes;  // empty: f32
  std::string options;              // "causal,mask", "all"; "": the usual ones
  std::string name = "recorded/kernel";
  std::string pin;                 // "d=72,Tk=64"; "" for none
  std::string dialect, precision;  // files with declarations; "" for none
  std::string format = "npy";      // npy, safetensors, recipe
  std::string from;    // a plan with the questions to use; "": drawn
  bool force = false;  // replaces a plan
};
ExitCode judge_ask(const AskOptions& options);

struct JudgeOptions {
  std::vector<std::string> targets;  // a plan's folder, or files of calls
  std::string answers;               // another folder; "": the plan's own
  std::string value;                 // of files: tokens of the case
  golden::ImportWords words;         // and how they are to be read
  std::string dialect, precision;    // in addition to the plan's declaration
  int diagnose = 1;                  // 0: no diagnosis
  std::string json;                  // file; "" for none
  ReportFiles files;                 // reports of the record
  std::string table;                 // of a plan: a row a question
  bool verbose = false;              // law by law
  AskOptions ask;
};
ExitCode judge_plan(const JudgeOptions& options);
ExitCode judge_calls(const JudgeOptions& options);
// Prints and writes the reports of recorded answers. `questions`: lines of the
// record about a plan.
ExitCode report_answers(const JudgeOptions& options, const RunResult& result,
                        const RunOptions& run, const SelectedKernels& selected,
                        const Diagnoses& causes, Executor& answers,
                        const std::string& questions = "");

}  // namespace qkvet::cli

#endif  // QKVET_CLI_COMMANDS_JUDGE_H_
