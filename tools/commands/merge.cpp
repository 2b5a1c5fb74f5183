// SPDX-License-Identifier: Apache-2.0
// qkvet merge: the records of shards as that of one run.
#include <fmt/core.h>

#include <cstdio>

#include "tools/base/lines.h"
#include "tools/base/written_file.h"
#include "tools/commands/flags.h"
#include "tools/record/run_merge.h"
#include "tools/report/select.h"

namespace qkvet::tools {
namespace {

struct MergeOptions {
  std::vector<std::string> records;
  std::string out;
};

ExitCode run(const MergeOptions& options) {
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

void add_flags(CLI::App& command, MergeOptions& options) {
  command
      .add_option("records", options.records,
                  "What `qkvet check --shard K/N --json` has written, a file a "
                  "shard")
      ->type_name("SHARD.jsonl")
      ->required();
  command.add_option("-o,--out", options.out, "The record of all of them")
      ->type_name("ALL.jsonl")
      ->required();
}

}  // namespace

void add_merge(CLI::App& app, Chosen& chosen) {
  add_command<MergeOptions>(
      app, chosen, "merge",
      "Join the records of shards; the exit code is that of the whole run",
      add_flags, run);
}

}  // namespace qkvet::tools
