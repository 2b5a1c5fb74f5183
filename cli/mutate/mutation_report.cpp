// SPDX-License-Identifier: Apache-2.0
#include "cli/mutate/mutation_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "cli/terminal/report.h"
#include "core/base/read_file.h"
#include "report/json_fields.h"
#include "report/json_lines.h"
#include "report/lines.h"

namespace qkvet::cli {
namespace {

// Less is not significant: other work runs at the same time.
constexpr double kMuchSlower = 2;

struct Counts {
  int64_t all = 0, invalid = 0, same = 0, twins = 0, killed = 0, survived = 0;

  void add(const MutantRecord& record) {
    ++all;
    invalid += record.fate == MutantFate::kInvalid;
    same += record.fate == MutantFate::kSameCode;
    twins += record.fate == MutantFate::kTwin;
    killed += record.fate == MutantFate::kKilled;
    survived += record.fate == MutantFate::kSurvived;
  }
  int64_t judged() const { return killed + survived; }
  double score() const {
    return judged() == 0
               ? 0
               : static_cast<double>(killed) / static_cast<double>(judged());
  }
};

Counts count(const MutationRun& run) {
  Counts counts;
  for (const MutantRecord& record : run.records) counts.add(record);
  return counts;
}

constexpr const char* kRow = "{:<12} {:>7} {:>9} {:>10} {:>6} {:>7} {:>9}\n";

std::string operator_rows(const MutationRun& run) {
  std::string out = fmt::format(kRow, "operator", "mutants", "no build",
                                "same code", "twins", "killed", "survived");
  const auto row = [&](const std::string& name, const Counts& c) {
    out += fmt::format(kRow, name, c.all, c.invalid, c.same, c.twins, c.killed,
                       c.survived);
  };
  for (const Operator& one : mutation_operators()) {
    Counts counts;
    for (const MutantRecord& record : run.records)
      if (record.operation == one.name) counts.add(record);
    if (counts.all > 0) row(one.name, counts);
  }
  row("all", count(run));
  return out;
}

// The first killers, the most frequent first.
std::vector<std::pair<std::string, int64_t>> killers(const MutationRun& run) {
  std::map<std::string, int64_t> counts;
  for (const MutantRecord& record : run.records) {
    if (record.fate != MutantFate::kKilled) continue;
    const bool by_law = record.how == "wrong";
    ++counts[by_law ? record.law : "(" + record.how + ")"];
  }
  std::vector<std::pair<std::string, int64_t>> sorted(counts.begin(),
                                                      counts.end());
  std::stable_sort(
      sorted.begin(), sorted.end(),
      [](const auto& a, const auto& b) { return a.second > b.second; });
  return sorted;
}

std::string calls(int64_t n) {
  return fmt::format("{} call{}", n, n == 1 ? "" : "s");
}

std::string small_number(double value) {
  return std::isfinite(value) ? fmt::format("{:.2g}", value) : "inf";
}

// The command that makes the mutant again.
std::string again(const MutationWords& words, const std::string& id) {
  std::string line = "qkvet mutate " + shell_quoted(words.selection.sources[0]);
  if (!words.selection.cflags.empty())
    line += " --cflags " + shell_quoted(words.selection.cflags);
  for (const auto& [flag, file] :
       {std::pair(" --dialect ", &words.selection.dialect),
        std::pair(" --precision ", &words.selection.precision)})
    if (!file->empty()) line += flag + shell_quoted(*file);
  return line + words.flags + " --only " + id + " -o FILE";
}

std::string survivor_lines(const MutationWords& words,
                           const MutantRecord& record, const std::string& why) {
  std::string out = fmt::format(
      "SURVIVED  {}:{}   {}{}\n", words.selection.sources[0], record.id,
      record.operation, why.empty() ? "" : "   explained");
  out += field("line", record.before);
  out += field("mutant", record.after.empty() ? "(nothing)" : record.after);
  out += wrapped_field("seen", seen_text(record.survival));
  out += why.empty() ? wrapped_field("needed", needed_text(record.survival))
                     : wrapped_field("why", why);
  return out + field("again", again(words, record.id)) + "\n";
}

std::vector<std::string> mended(const MutationRun& run,
                                const Explained& explained) {
  std::vector<std::string> ids;
  for (const MutantRecord& record : run.records)
    if (record.fate != MutantFate::kSurvived &&
        record.fate != MutantFate::kTwin && explained.count(record.id) != 0)
      ids.push_back(record.id);
  return ids;
}

std::string plan_text(const MutationWords& words) {
  return words.run.budget ? fmt::format("{:.3g} s a mutant", *words.run.budget)
                          : fmt::format("{} cases a mutant", words.run.cases);
}

}  // namespace

std::string seen_text(const Survival& s) {
  std::string text;
  if (!s.declares.empty())
    return fmt::format(
        "it declares {} than the original, and is judged by "
        "that in {} cases",
        s.declares, s.cases);
  if (!s.assumes.empty())
    return "nothing is declared, and of the mutant is assumed: " + s.assumes;
  if (s.refused > 0)
    text = fmt::format("it refuses {} of {} that the original answers",
                       s.refused, calls(s.calls));
  if (s.differ > 0) {
    text += text.empty() ? "" : "; ";
    text += fmt::format("other bits in {} of {}", s.differ, calls(s.calls));
    text += s.most_bound > 0
                ? fmt::format(
                      ": by at most {} of the bound ({} ulps there); its "
                      "largest error/bound is {}",
                      small_number(s.most_bound), small_number(s.most_ulps),
                      small_number(s.worst_error))
                : ", all of them undefined";
  }
  if (text.empty()) {
    text = "the same bits in all " + calls(s.calls);
    if (s.reached)
      text += *s.reached ? "; the line is reached"
                         : "; none of them reaches the line";
  }
  if (s.time_ratio >= kMuchSlower && s.reached.value_or(true))
    text += fmt::format("; takes {:.1f} times as long", s.time_ratio);
  return text;
}

std::string needed_text(const Survival& s) {
  if (!s.declares.empty())
    return "a declaration that must be there: what a kernel does not declare "
           "is not asked";
  if (!s.assumes.empty())
    return "the dialect declared as it is meant: what is assumed follows the "
           "kernel";
  if (s.refused > 0)
    return "a test of what must be taken: a refusal is no failure";
  if (s.differ > 0)
    return s.most_bound > 0
               ? "a tighter precision, if the kernel has one to declare: the "
                 "difference lies within the arithmetic that is declared"
               : "nothing for a law to check: these elements are undefined";
  if (s.reached && !*s.reached)
    return "a call that gets there: an option or an extent that was not "
           "declared or not drawn, or more cases";
  return "other calls, or none: it may do the same as the original";
}

std::string read_explained(const std::string& path, const std::string& source,
                           Explained* explained) {
  std::string text;
  if (std::string wrong = read_file(path, &text); !wrong.empty()) return wrong;
  std::istringstream file(text);
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    std::istringstream words(line);
    std::string id, why;
    words >> id;
    if (id.empty() || id[0] == '#') continue;
    std::getline(words >> std::ws, why);
    const std::string place = fmt::format("{}:{}: ", path, number);
    if (why.empty()) return place + "no reason; a line is ID WHY";
    if (!one_mutant(source, id).error.empty())
      return place + "\"" + id + "\" is no mutant of " + source;
    (*explained)[id] = why;
  }
  return "";
}

ExitCode mutation_exit(const MutationRun& run, const Explained& explained) {
  bool lives = !mended(run, explained).empty();
  for (const MutantRecord& record : run.records)
    lives |=
        record.fate == MutantFate::kSurvived && explained.count(record.id) == 0;
  if (lives) return kLawFailed;
  return count(run).judged() == 0 || run.interrupted ? kNothingChecked
                                                     : kConforms;
}

std::string mutation_text(const MutationWords& words, const MutationRun& run,
                          const Explained& explained) {
  std::string out;
  int64_t unexplained = 0;
  for (const MutantRecord& record : run.records) {
    if (record.fate != MutantFate::kSurvived) continue;
    const auto why = explained.find(record.id);
    unexplained += why == explained.end();
    out += survivor_lines(words, record,
                          why == explained.end() ? "" : why->second);
  }
  out += operator_rows(run);
  const auto first = killers(run);
  if (!first.empty()) out += "\nfirst killed by\n";
  for (const auto& [name, times] : first)
    out += fmt::format("{:>7}  {}\n", times, name);
  out += "\n";
  for (const std::string& id : mended(run, explained))
    out += "explained, and does not survive: " + id + "\n";
  const Counts counts = count(run);
  const ExitCode exit = mutation_exit(run, explained);
  if (counts.judged() == 0)
    out += "SCORE   none: no mutant was judged";
  else
    out += fmt::format("SCORE   {:.1f} %: {} of {} killed, {} survived",
                       100 * counts.score(), counts.killed, counts.judged(),
                       counts.survived);
  if (unexplained < counts.survived)
    out += fmt::format(" ({} explained)", counts.survived - unexplained);
  out += fmt::format("   exit {}\n", static_cast<int>(exit));
  out += field("mutants",
               fmt::format("{} of {} in {}", run.records.size(), run.generated,
                           words.selection.sources[0]) +
                   (run.kept > 0 ? fmt::format(", {} of them known from {}",
                                               run.kept, words.out)
                                 : "") +
                   (run.interrupted ? "; interrupted" : ""));
  out += field(
      "plan", fmt::format("seed {}, {}; {:.1f} s on {} threads", words.run.seed,
                          plan_text(words), run.wall_seconds, words.run.jobs));
  return out;
}

std::string mutation_json(const MutationWords& words, const MutationRun& run,
                          const Explained& explained) {
  std::string out;
  for (const MutantRecord& record : run.records) {
    Json line = with_fields({{"type", "mutant"}}, record);
    if (const auto why = explained.find(record.id); why != explained.end())
      line["explained"] = why->second;
    out += line_of(line);
  }
  const Counts counts = count(run);
  Json first = Json::object();
  for (const auto& [name, times] : killers(run)) first[name] = times;
  return out +
         line_of({{"type", "summary"},
                  {"schema", kSchema},
                  {"source", words.selection.sources[0]},
                  {"generated", run.generated},
                  {"mutants", counts.all},
                  {"invalid", counts.invalid},
                  {"same_code", counts.same},
                  {"twins", counts.twins},
                  {"killed", counts.killed},
                  {"survived", counts.survived},
                  {"score",
                   counts.judged() == 0 ? Json(nullptr) : Json(counts.score())},
                  {"seed", words.run.seed},
                  {"cases", words.run.cases},
                  {"first_killed_by", first},
                  {"interrupted", run.interrupted},
                  {"seconds", run.wall_seconds},
                  {"exit", static_cast<int>(mutation_exit(run, explained))}});
}

}  // namespace qkvet::cli
