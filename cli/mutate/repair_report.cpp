// SPDX-License-Identifier: Apache-2.0
// Reports of a search for a repair, for people and for programs.
#include <fmt/core.h>

#include <algorithm>

#include "cli/mutate/repair.h"
#include "cli/terminal/report.h"
#include "core/base/json.h"
#include "report/json_lines.h"
#include "report/lines.h"

namespace qkvet::cli {
namespace {

size_t repairs_in(const RepairRun& run) {
  return static_cast<size_t>(
      std::count_if(run.edits.begin(), run.edits.end(),
                    [](const RepairEdit& edit) { return edit.conforms; }));
}

std::string edit_text(const RepairWords& words, const RepairRun& run,
                      const RepairEdit& edit) {
  std::string out =
      fmt::format("{}  {}:{}   {}\n", edit.conforms ? "REPAIR" : "better",
                  words.selection.sources[0], edit.id, edit.operation);
  out += edit.diff;
  out += field("mends",
               fmt::format("{} of {}", edit.mends,
                           counted(std::ssize(run.failing), "failing case")));
  if (edit.conforms)
    out += field("passes", fmt::format("the plan that the kernel fails, {}",
                                       counted(edit.checked, "checked case")));
  else if (!edit.fails.empty())
    out += wrapped_field("still fails", edit.fails);
  return out + "\n";
}

// "52-54, 60: run by all of 18 failing cases, and by 2 of 24 that pass".
std::string lines_text(const RepairRun& run) {
  const std::vector<LineCount> telling = telling_lines(run);
  if (telling.empty()) return "";
  std::vector<int> lines;
  for (const LineCount& one : telling) lines.push_back(one.line);
  std::sort(lines.begin(), lines.end());
  std::string text;
  for (size_t n = 0; n < lines.size();) {
    size_t last = n;
    while (last + 1 < lines.size() && lines[last + 1] == lines[last] + 1)
      ++last;
    text += (text.empty() ? "" : ", ") + std::to_string(lines[n]);
    if (last > n) text += "-" + std::to_string(lines[last]);
    n = last + 1;
  }
  const std::string passing =
      telling[0].passing == 0 ? "none" : std::to_string(telling[0].passing);
  return fmt::format("{}: run by all of {}, and by {} of {} that pass{}", text,
                     counted(run.asked_failing, "failing case"), passing,
                     run.asked_passing,
                     telling[0].passing == 0 ? "" : "; other lines by more");
}

std::string verdict_line(const RepairRun& run) {
  const size_t repairs = repairs_in(run);
  if (run.failing.empty()) return "CONFORMS  as it is: nothing to repair";
  if (repairs > 0)
    return fmt::format("FOUND     {} that {} it conform",
                       counted(static_cast<int64_t>(repairs), "single edit"),
                       repairs == 1 ? "makes" : "make");
  return run.edits.empty()
             ? "NOT FOUND no edit mends any of what fails"
             : fmt::format(
                   "NOT FOUND no single edit makes it conform; {} mend{} "
                   "some of what fails",
                   run.edits.size(), run.edits.size() == 1 ? "s" : "");
}

}  // namespace

ExitCode repair_exit(const RepairRun& run) {
  if (run.interrupted && repairs_in(run) == 0) return kNothingChecked;
  if (run.failing.empty() || repairs_in(run) > 0) return kConforms;
  return run.out_of_time ? kNothingChecked : kLawFailed;
}

std::string repair_text(const RepairWords& words, const RepairRun& run,
                        size_t most) {
  std::string out;
  const std::string lines = lines_text(run);
  if (!lines.empty() && repairs_in(run) == 0)
    out += wrapped_field("lines", lines) + "\n";
  const size_t shown = std::min(most, run.edits.size());
  for (size_t n = 0; n < shown; ++n) out += edit_text(words, run, run.edits[n]);
  out += fmt::format("{}   exit {}\n", verdict_line(run),
                     static_cast<int>(repair_exit(run)));
  if (shown < run.edits.size())
    out +=
        field("", fmt::format("{} more (--verbose shows them, --json has all)",
                              run.edits.size() - shown));
  for (const FailingCase& one : run.failing)
    out += field(&one == run.failing.data() ? "fails" : "",
                 fmt::format("{}   {}", one.law->id, to_string(one.value)));
  if (!lines.empty() && repairs_in(run) > 0)
    out += wrapped_field("lines", lines);
  out +=
      field("edits", fmt::format("{} of {} tried{}", run.tried, run.generated,
                                 run.interrupted   ? "; interrupted"
                                 : run.out_of_time ? "; the budget is spent"
                                 : run.tried < run.generated
                                     ? "; it ends where one is found"
                                     : ""));
  return out + field("plan", fmt::format("seed {}, {}; {:.1f} s on {} threads",
                                         words.run.seed,
                                         counted(words.run.cases, "case"),
                                         run.wall_seconds, words.run.jobs));
}

std::string repair_json(const RepairWords& words, const RepairRun& run) {
  std::string out;
  for (const RepairEdit& edit : run.edits)
    out += line_of({{"type", "edit"},
                    {"id", edit.id},
                    {"operation", edit.operation},
                    {"line", edit.line},
                    {"diff", edit.diff},
                    {"mends", edit.mends},
                    {"conforms", edit.conforms},
                    {"checked", edit.checked},
                    {"fails", edit.fails}});
  Json failing = Json::array(), lines = Json::array();
  for (const FailingCase& one : run.failing)
    failing.push_back({{"law", one.law->id}, {"case", to_string(one.value)}});
  for (const LineCount& one : run.lines)
    lines.push_back({{"line", one.line},
                     {"failing", one.failing},
                     {"passing", one.passing}});
  return out + line_of({{"type", "summary"},
                        {"schema", kSchema},
                        {"source", words.selection.sources[0]},
                        {"failing", failing},
                        {"asked_failing", run.asked_failing},
                        {"asked_passing", run.asked_passing},
                        {"lines", lines},
                        {"edits", run.generated},
                        {"tried", run.tried},
                        {"repairs", repairs_in(run)},
                        {"interrupted", run.interrupted},
                        {"out_of_time", run.out_of_time},
                        {"seconds", run.wall_seconds},
                        {"exit", static_cast<int>(repair_exit(run))}});
}

}  // namespace qkvet::cli
