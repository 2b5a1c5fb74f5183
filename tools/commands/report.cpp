// SPDX-License-Identifier: Apache-2.0
// qkvet report: a run that was recorded, written for people and for systems.
#include <cstdio>

#include "tools/commands/flags.h"
#include "tools/report/select.h"

namespace qkvet::tools {
namespace {

struct RecordOptions {
  std::string record;
  ReportFiles files;
};

ExitCode run(const RecordOptions& options) {
  std::string error;
  const auto record = read_record(options.record, &error);
  if (!record) return wrong_use(error);
  if (error = not_writable_reason(options.files); !error.empty())
    return wrong_use(error);
  if (error = write_reports(*record, options.files); !error.empty())
    return wrong_use(error);
  if (!options.files.any())
    std::fputs(markdown_report(*record).c_str(), stdout);
  return kConforms;
}

void add_flags(CLI::App& command, RecordOptions& options) {
  command
      .add_option("record", options.record,
                  "What `qkvet check --json` has written")
      ->type_name("RUN.jsonl")
      ->required();
  add_report_files(command, options.files);
}

}  // namespace

void add_report(CLI::App& app, Chosen& chosen) {
  add_command<RecordOptions>(
      app, chosen, "report",
      "Write a recorded run as a page, for CI systems, or as Markdown (if "
      "nothing is named)",
      add_flags, run);
}

}  // namespace qkvet::tools
