// SPDX-License-Identifier: Apache-2.0
// What a record adds up to.
#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "tools/base/exit_code.h"
#include "tools/base/lines.h"
#include "tools/record/run_record.h"

namespace qkvet::tools {
namespace {

// What failures of one cause have in common: its name or, of a cause that is
// not known, all that was found out; "" where it was not looked for.
std::string cause_key(const Json& failure) {
  const Json& diagnosis = part_of(failure, "diagnosis");
  if (text_of(diagnosis, "certainty") != "unknown")
    return text_of(diagnosis, "cause");
  std::string found = text_of(diagnosis, "text");
  for (const char* part : {"where", "stage", "instead"})
    found += text_of(part_of(diagnosis, part), "text");
  return found.empty() ? ""
                       : text_of(diagnosis, "reported_with") + ": " + found;
}

int64_t failing_laws(const RunRecord& record) {
  std::set<std::string> laws;
  for (const Json& result : record.results)
    if (is_bad(state_of(result))) laws.insert(text_of(result, "law"));
  return std::ssize(laws);
}

std::vector<std::string> failing_kernels(const RunRecord& record) {
  std::vector<std::string> kernels;
  for (const Json& result : record.results) {
    const std::string kernel = text_of(result, "kernel");
    if (is_bad(state_of(result)) &&
        std::find(kernels.begin(), kernels.end(), kernel) == kernels.end())
      kernels.push_back(kernel);
  }
  return kernels;
}

std::string subject_words(const RunRecord& record) {
  return record.kernels.size() == 1
             ? text_of(record.kernels[0], "kernel")
             : counted(std::ssize(record.kernels), "kernel");
}

std::string failed_sentence(const RunRecord& record) {
  const std::vector<std::string> kernels = failing_kernels(record);
  const std::string who =
      kernels.size() == 1
          ? kernels[0]
          : fmt::format("{} of {}", kernels.size(),
                        counted(std::ssize(record.kernels), "kernel"));
  const bool died = count_of(record.end, "exit") == kKernelDied;
  const int64_t failing = failing_laws(record);
  return fmt::format("Not ready: {} {}{} of {} asked.", who,
                     died                 ? "crashed; failing: "
                     : kernels.size() > 1 ? "fail "
                                          : "fails ",
                     failing, counted(laws_asked(record), row_word(record)));
}

}  // namespace

RecordCounts counts_of(const RunRecord& record, std::string_view kernel) {
  RecordCounts counts;
  const struct {
    const char* state;
    int64_t* count;
  } rows[] = {{"passed", &counts.passed},          {"failed", &counts.failed},
              {"crash", &counts.failed},           {"known", &counts.known},
              {"undeclared", &counts.undeclared},  {"open", &counts.open},
              {"unsupported", &counts.unsupported}};
  for (const Json& result : record.results) {
    if (!kernel.empty() && text_of(result, "kernel") != kernel) continue;
    const std::string_view state = state_of(result);
    for (const auto& row : rows)
      if (state == row.state) ++*row.count;
    counts.checked += count_of(result, "checked");
    counts.seconds += number_of(result, "seconds");
    counts.worst =
        std::max(counts.worst, number_of(result, "worst_error_over_bound"));
  }
  return counts;
}

const char* verdict_word(int64_t exit_code) {
  return exit_code == kConforms         ? "PASSED"
         : exit_code == kNothingChecked ? "INCOMPLETE"
                                        : "FAILED";
}

const char* verdict_word(const RunRecord& record) {
  return verdict_word(count_of(record.end, "exit"));
}

std::string verdict_sentence(const RunRecord& record) {
  const RecordCounts counts = counts_of(record);
  const int64_t code = count_of(record.end, "exit");
  if (code == kNothingChecked)
    return fmt::format("No verdict on {}: {}.", subject_words(record),
                       text_of(record.end, "why"));
  if (const auto gone = texts_of(record.end, "baseline_gone");
      code == kLawFailed && failing_kernels(record).empty() && !gone.empty())
    return "Not ready: judged in the baseline, and not in this run: " +
           joined(gone, ", ") + ".";
  if (code != kConforms) return failed_sentence(record);
  const bool one = record.kernels.size() == 1;
  return fmt::format(
      "{} {} to every {} that {} be asked about: {} passed in {}{}.",
      subject_words(record), one ? "conforms" : "conform", row_word(record),
      one ? "it can" : "they can", counts.passed,
      counted(counts.checked, "checked case"),
      counts.known > 0 ? fmt::format(", {} failed as is accepted", counts.known)
                       : "");
}

bool is_asked(const RunRecord& record, const std::string& law) {
  return std::any_of(
      record.kernels.begin(), record.kernels.end(), [&](const Json& kernel) {
        const Json* result = record.result(text_of(kernel, "kernel"), law);
        return result != nullptr &&
               std::string_view(state_of(*result)) != "undeclared";
      });
}

int64_t laws_asked(const RunRecord& record) {
  return std::count_if(
      record.laws.begin(), record.laws.end(),
      [&](const Json& law) { return is_asked(record, text_of(law, "law")); });
}

std::string figures_text(const RunRecord& record) {
  const RecordCounts counts = counts_of(record);
  std::string out = fmt::format("{}, {} asked: {} passed, {} failed",
                                counted(std::ssize(record.kernels), "kernel"),
                                counted(laws_asked(record), row_word(record)),
                                counts.passed, counts.failed);
  const struct {
    int64_t count;
    const char* what;
  } rows[] = {{counts.known, "known"},
              {counts.undeclared, "not declared"},
              {counts.unsupported, "unsupported"},
              {counts.open, "open"}};
  for (const auto& row : rows)
    if (row.count > 0) out += fmt::format(", {} {}", row.count, row.what);
  return out + fmt::format("; {}, {:.1f} s",
                           counted(counts.checked, "checked case"),
                           number_of(record.end, "wall_seconds"));
}

std::string plan_words(const RunRecord& record) {
  const Json& start = record.start;
  const int64_t cases = count_of(record.end, "planned_cases");
  std::string out =
      is_set(start, "exhaustive")
          ? fmt::format("all {} of the small scope", counted(cases, "case"))
      : row_word(record) != std::string_view("law")
          ? counted(cases, row_word(record)) + " per kernel"
          : fmt::format("seed {}, {} per kernel", count_of(start, "seed"),
                        counted(cases, "case"));
  if (const Json& shard = part_of(start, "shard"); shard.is_object())
    out += fmt::format(", of these shard {} of {}", count_of(shard, "number"),
                       count_of(shard, "of"));
  if (is_set(record.end, "interrupted")) out += ", then interrupted";
  return out;
}

std::vector<Reported> reported_failures(const RunRecord& record) {
  std::vector<Reported> out;
  const auto same_cause = [](const Reported& one, const Json& result,
                             const std::string& cause) {
    return !cause.empty() && cause_key(*one.failure) == cause &&
           text_of(*one.result, "kernel") == text_of(result, "kernel");
  };
  for (const Json& result : record.results) {
    if (!is_bad(state_of(result))) continue;
    for (const Json* failure : failures_of(result)) {
      const std::string cause = cause_key(*failure);
      const auto group = std::find_if(
          out.begin(), out.end(),
          [&](const Reported& one) { return same_cause(one, result, cause); });
      if (group == out.end()) {
        out.push_back({&result, failure, {}});
        continue;
      }
      group->also.emplace_back(&result, failure);
      // The law that says most about the cause stands in front.
      const bool best = text_of(part_of(*failure, "diagnosis"),
                                "reported_with") == text_of(result, "law");
      const bool better =
          text_of(part_of(*group->failure, "diagnosis"), "reported_with") !=
          text_of(*group->result, "law");
      if (!best || !better) continue;
      std::swap(group->result, group->also.back().first);
      std::swap(group->failure, group->also.back().second);
    }
  }
  return out;
}

}  // namespace qkvet::tools
