// SPDX-License-Identifier: Apache-2.0
// qkvet diff: what has changed from one recorded run to another.
#include <cstdio>

#include "tools/commands/flags.h"
#include "tools/record/run_compare.h"
#include "tools/report/select.h"

namespace qkvet::tools {
namespace {

struct DiffOptions {
  std::string before, after;
};

ExitCode run(const DiffOptions& options) {
  std::string error;
  const auto before = read_record(options.before, &error);
  if (!before) return wrong_use(error);
  const auto after = read_record(options.after, &error);
  if (!after) return wrong_use(error);
  const RunComparison comparison = compare_records(*before, *after);
  std::fputs(comparison_text(comparison, screen_width()).c_str(), stdout);
  return comparison.worse.empty() ? kConforms : kLawFailed;
}

void add_flags(CLI::App& command, DiffOptions& options) {
  command
      .add_option("before", options.before,
                  "What `qkvet check --json` has written")
      ->type_name("A.jsonl")
      ->required();
  command.add_option("after", options.after, "The same of another run")
      ->type_name("B.jsonl")
      ->required();
}

}  // namespace

void add_diff(CLI::App& app, Chosen& chosen) {
  add_command<DiffOptions>(
      app, chosen, "diff",
      "What has changed from one recorded run to another; exit 1 if a law is "
      "worse",
      add_flags, run);
}

}  // namespace qkvet::tools
