// SPDX-License-Identifier: Apache-2.0
// What a record adds up to.
#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "report/lines.h"
#include "report/run_record.h"

namespace qkvet::report {
namespace {

// The key by which failures are grouped: the name of the cause or, if it is
// unknown, all findings; "" if it was not looked for.
std::string cause_key(const FailureLine& failure) {
  const DiagnosisFound& cause = failure.cause();
  if (cause.certainty != Certainty::kUnknown) return cause.cause;
  const std::string found = cause.text +
                            (cause.where ? cause.where->text : "") +
                            (cause.stage ? cause.stage->text : "") +
                            (cause.instead ? cause.instead->text : "");
  return found.empty() ? "" : cause.reported_with + ": " + found;
}

// Names of the rows that fail, each once.
std::set<std::string> failing(const RunRecord& record,
                              std::string ResultLine::*name) {
  std::set<std::string> out;
  for (const ResultLine& result : record.results)
    if (is_bad(result.state())) out.insert(result.*name);
  return out;
}

std::string subject_words(const RunRecord& record) {
  return record.kernels.size() == 1
             ? record.kernels[0].kernel
             : counted(std::ssize(record.kernels), "kernel");
}

std::string failed_sentence(const RunRecord& record) {
  const auto kernels = failing(record, &ResultLine::kernel);
  const std::string who =
      kernels.size() == 1
          ? *kernels.begin()
          : fmt::format("{} of {}", kernels.size(),
                        counted(std::ssize(record.kernels), "kernel"));
  return fmt::format("Not ready: {} {}{} of {} asked.", who,
                     record.end.exit == kKernelDied ? "crashed; failing: "
                     : kernels.size() > 1           ? "fail "
                                                    : "fails ",
                     failing(record, &ResultLine::law).size(),
                     counted(laws_asked(record), row_word(record)));
}

}  // namespace

RecordCounts counts_of(const std::vector<const ResultLine*>& results) {
  RecordCounts counts;
  for (const ResultLine* result : results) {
    const Tally& tally = result->counts;
    ++counts.states[static_cast<size_t>(result->state())];
    counts.checked += tally.checked;
    if (result->verdict != RowVerdict::kUnsupported)
      counts.refused += tally.unsupported;
    counts.seconds += tally.seconds;
    counts.worst = std::max(counts.worst, tally.worst_ratio);
  }
  return counts;
}

const char* verdict_word(ExitCode code) {
  return code == kConforms         ? "PASSED"
         : code == kNothingChecked ? "INCOMPLETE"
                                   : "FAILED";
}

std::string verdict_sentence(const RunRecord& record) {
  const EndLine& end = record.end;
  if (end.exit == kNothingChecked)
    return fmt::format("No verdict on {}: {}.", subject_words(record), end.why);
  if (end.exit == kLawFailed && !end.baseline_gone.empty() &&
      failing(record, &ResultLine::kernel).empty())
    return "Not ready: judged in the baseline, and not in this run: " +
           joined(end.baseline_gone, ", ") + ".";
  if (end.exit != kConforms) return failed_sentence(record);
  const RecordCounts counts = counts_of(record.results_of());
  const int64_t known = counts.of(RowState::kKnown);
  const bool one = record.kernels.size() == 1;
  return fmt::format(
      "{} {} to every {} that {} be asked about: {} passed in {}{}.",
      subject_words(record), one ? "conforms" : "conform", row_word(record),
      one ? "it can" : "they can", counts.passed(),
      counted(counts.checked, "checked case"),
      known > 0 ? fmt::format(", {} failed as is accepted", known) : "");
}

bool is_asked(const RunRecord& record, const std::string& law) {
  return std::any_of(
      record.kernels.begin(), record.kernels.end(),
      [&](const KernelLine& kernel) {
        const ResultLine* result = record.result(kernel.kernel, law);
        return result != nullptr && result->state() != RowState::kUndeclared;
      });
}

int64_t laws_asked(const RunRecord& record) {
  return std::count_if(
      record.laws.begin(), record.laws.end(),
      [&](const LawLine& law) { return is_asked(record, law.law); });
}

std::string figures_text(const RunRecord& record) {
  const RecordCounts counts = counts_of(record.results_of());
  std::string out = fmt::format("{}, {} asked: {} passed, {} failed",
                                counted(std::ssize(record.kernels), "kernel"),
                                counted(laws_asked(record), row_word(record)),
                                counts.passed(), counts.failed());
  const std::pair<RowState, const char*> rows[] = {
      {RowState::kKnown, "known"},
      {RowState::kUndeclared, "not declared"},
      {RowState::kUnsupported, "unsupported"},
      {RowState::kOpen, "open"}};
  for (const auto& [state, what] : rows)
    if (counts.of(state) > 0)
      out += fmt::format(", {} {}", counts.of(state), what);
  return out + fmt::format("; {}, {:.1f} s",
                           counted(counts.checked, "checked case"),
                           record.end.wall_seconds);
}

std::string plan_words(const RunRecord& record) {
  const StartLine& start = record.start;
  const int64_t cases = record.end.planned_cases;
  std::string out = start.exhaustive ? fmt::format("all {} of the small scope",
                                                   counted(cases, "case"))
                    : start.rows != RowKind::kLaw
                        ? counted(cases, row_word(record)) + " per kernel"
                        : fmt::format("seed {}, {} per kernel", start.seed,
                                      counted(cases, "case"));
  if (start.shard)
    out += fmt::format(", of these shard {} of {}", start.shard->number,
                       start.shard->of);
  if (record.end.interrupted) out += ", then interrupted";
  return out;
}

Texts Reported::also_laws() const {
  Texts laws;
  for (const auto& [other, at] : also)
    if (std::find(laws.begin(), laws.end(), other->law) == laws.end())
      laws.push_back(other->law);
  return laws;
}

std::vector<Reported> reported_failures(const RunRecord& record) {
  std::vector<Reported> out;
  for (const ResultLine& result : record.results) {
    if (!is_bad(result.state())) continue;
    for (const FailureLine* failure : result.failures()) {
      const std::string cause = cause_key(*failure);
      const auto group =
          std::find_if(out.begin(), out.end(), [&](const Reported& one) {
            return !cause.empty() && cause_key(*one.failure) == cause &&
                   one.result->kernel == result.kernel;
          });
      if (group == out.end()) {
        out.push_back({&result, failure});
        continue;
      }
      group->also.emplace_back(&result, failure);
      // The law that is most informative about the cause comes first.
      if (failure->cause().reported_with != result.law ||
          group->failure->cause().reported_with == group->result->law)
        continue;
      std::swap(group->result, group->also.back().first);
      std::swap(group->failure, group->also.back().second);
    }
  }
  return out;
}

}  // namespace qkvet::report
