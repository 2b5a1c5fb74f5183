// SPDX-License-Identifier: Apache-2.0
// qkvet report: works on recorded runs. It writes one for people and for
// systems, compares two, and merges the records of shards into that of one run.
#include <fmt/core.h>

#include <cstdio>

#include "cli/commands/flags.h"
#include "cli/terminal/select.h"
#include "report/lines.h"
#include "report/run_compare.h"
#include "report/run_merge.h"
#include "report/written_file.h"

namespace qkvet::cli {
namespace {

struct RecordOptions {
  std::vector<std::string> records;
  std::string out;  // the record of all of them; "": they are not joined
  ReportFiles files;
};

ExitCode compare(const RunRecord& before, const RunRecord& after) {
  const RunComparison comparison = compare_records(before, after);
  std::fputs(comparison_text(comparison, screen_width()).c_str(), stdout);
  return comparison.worse.empty() ? kConforms : kLawFailed;
}

ExitCode join(std::vector<RunRecord> parts, const RecordOptions& options) {
  std::string error;
  const auto merged = merge_records(std::move(parts), &error);
  if (!merged) return wrong_use(error);
  if (error = write_file(options.out, record_lines(*merged)); !error.empty())
    return wrong_use(error);
  if (error = write_reports(*merged, options.files); !error.empty())
    return wrong_use(error);
  const ExitCode code = merged->end.exit;
  fmt::print("{}  {}   exit {}\n", verdict_word(code), figures_text(*merged),
             static_cast<int>(code));
  std::fputs(wrapped_field("verdict", verdict_sentence(*merged)).c_str(),
             stdout);
  if (const std::string missing = missing_shards(*merged); !missing.empty())
    std::fputs(field("missing", missing).c_str(), stdout);
  for (const Reported& one : reported_failures(*merged))
    std::fputs(wrapped_field("fails", one.result->kernel + ": " +
                                          failure_line(*merged, *one.result,
                                                       *one.failure))
                   .c_str(),
               stdout);
  return code;
}

ExitCode run(const RecordOptions& options) {
  const size_t count = options.records.size();
  if (options.out.empty() && count > 2)
    return wrong_use(fmt::format(
        "{} records: allowed is one, to write it; two, to compare them; or "
        "--out ALL.jsonl, to join shards",
        count));
  if (options.out.empty() && count == 2 && options.files.any())
    return wrong_use(options.records[1] +
                     ": two records are compared on stdout alone; --out joins "
                     "shards");
  std::string error;
  std::vector<RunRecord> records;
  for (const std::string& file : options.records) {
    auto record = read_record(file, &error);
    if (!record) return wrong_use(error);
    records.push_back(std::move(*record));
  }
  if (!options.out.empty()) return join(std::move(records), options);
  if (count == 2) return compare(records[0], records[1]);
  if (error = write_reports(records[0], options.files); !error.empty())
    return wrong_use(error);
  if (!options.files.any())
    std::fputs(markdown_report(records[0]).c_str(), stdout);
  return kConforms;
}

void add_flags(CLI::App& command, RecordOptions& options) {
  command
      .add_option(
          "record", options.records,
          "Record of `qkvet check --json`: one to convert, two to compare")
      ->type_name("RUN.jsonl")
      ->required();
  add_output(command, "-o,--out", options.out,
             "Merge the records of all shards into one record");
  add_report_files(command, options.files);
}

}  // namespace

void add_report(CLI::App& app, Chosen& chosen) {
  add_command<RecordOptions>(app, chosen, "report",
                             "Convert a record, compare two, or merge shards",
                             add_flags, run);
}

}  // namespace qkvet::cli
