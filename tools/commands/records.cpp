// SPDX-License-Identifier: Apache-2.0
// What is done with recorded runs: qkvet report writes one for people and for
// systems, qkvet diff says what has changed from one to another, qkvet merge
// makes the records of shards that of one run.
#include <fmt/core.h>

#include <cstdio>

#include "tools/base/lines.h"
#include "tools/base/written_file.h"
#include "tools/commands/flags.h"
#include "tools/record/run_compare.h"
#include "tools/record/run_merge.h"
#include "tools/report/select.h"

namespace qkvet::tools {
namespace {

struct RecordOptions {
  std::string record;
  ReportFiles files;
};

ExitCode write_record(const RecordOptions& options) {
  std::string error;
  const auto record = read_record(options.record, &error);
  if (!record) return wrong_use(error);
  if (error = write_reports(*record, options.files); !error.empty())
    return wrong_use(error);
  if (!options.files.any())
    std::fputs(markdown_report(*record).c_str(), stdout);
  return kConforms;
}

void add_report_flags(Command& command, RecordOptions& options) {
  command
      .add_option("record", options.record,
                  "What `qkvet check --json` has written")
      .type_name("RUN.jsonl")
      .required();
  add_report_files(command, options.files);
}

struct DiffOptions {
  std::string before, after;
};

ExitCode compare(const DiffOptions& options) {
  std::string error;
  const auto before = read_record(options.before, &error);
  if (!before) return wrong_use(error);
  const auto after = read_record(options.after, &error);
  if (!after) return wrong_use(error);
  const RunComparison comparison = compare_records(*before, *after);
  std::fputs(comparison_text(comparison, screen_width()).c_str(), stdout);
  return comparison.worse.empty() ? kConforms : kLawFailed;
}

void add_diff_flags(Command& command, DiffOptions& options) {
  command
      .add_option("before", options.before,
                  "What `qkvet check --json` has written")
      .type_name("A.jsonl")
      .required();
  command.add_option("after", options.after, "The same of another run")
      .type_name("B.jsonl")
      .required();
}

struct MergeOptions {
  std::vector<std::string> records;
  std::string out;
};

ExitCode join(const MergeOptions& options) {
  std::string error;
  std::vector<RunRecord> parts;
  for (const std::string& file : options.records) {
    auto record = read_record(file, &error);
    if (!record) return wrong_use(error);
    parts.push_back(std::move(*record));
  }
  const auto merged = merge_records(std::move(parts), &error);
  if (!merged) return wrong_use(error);
  if (error = write_file(options.out, record_lines(*merged)); !error.empty())
    return wrong_use(error);
  const auto code = static_cast<ExitCode>(count_of(merged->end, "exit"));
  fmt::print("{}  {}   exit {}\n", verdict_word(*merged), figures_text(*merged),
             static_cast<int>(code));
  std::fputs(wrapped_field("verdict", verdict_sentence(*merged)).c_str(),
             stdout);
  if (const std::string missing = missing_shards(*merged); !missing.empty())
    std::fputs(field("missing", missing).c_str(), stdout);
  for (const Reported& one : reported_failures(*merged))
    std::fputs(wrapped_field("fails", text_of(*one.result, "kernel") + ": " +
                                          failure_line(*merged, *one.result,
                                                       *one.failure))
                   .c_str(),
               stdout);
  return code;
}

void add_merge_flags(Command& command, MergeOptions& options) {
  command
      .add_option("records", options.records,
                  "What `qkvet check --shard K/N --json` has written, a file a "
                  "shard")
      .type_name("SHARD.jsonl")
      .required();
  command.add_option("-o,--out", options.out, "The record of all of them")
      .type_name("ALL.jsonl")
      .names_output()
      .required();
}

}  // namespace

void add_report(Command& app, Chosen& chosen) {
  add_command<RecordOptions>(
      app, chosen, "report",
      "Write a recorded run as a page, for CI systems, or as Markdown (if "
      "nothing is named)",
      add_report_flags, write_record);
}

void add_diff(Command& app, Chosen& chosen) {
  add_command<DiffOptions>(
      app, chosen, "diff",
      "What has changed from one recorded run to another; exit 1 if a law is "
      "worse",
      add_diff_flags, compare);
}

void add_merge(Command& app, Chosen& chosen) {
  add_command<MergeOptions>(
      app, chosen, "merge",
      "Join the records of shards; the exit code is that of the whole run",
      add_merge_flags, join);
}

}  // namespace qkvet::tools
