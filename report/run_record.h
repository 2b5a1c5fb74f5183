// SPDX-License-Identifier: Apache-2.0
// The record of a run, the model of all reports: the one on the terminal, those
// in files, comparisons, baselines and merged shards. `qkvet check --json`
// writes it as JSON Lines, and run.schema.json describes these.
#ifndef QKVET_REPORT_RUN_RECORD_H_
#define QKVET_REPORT_RUN_RECORD_H_

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "properties/run/tally.h"
#include "report/exit_code.h"
#include "report/failure_line.h"

namespace qkvet::report {

// Every shard that is missing is named.
inline constexpr int64_t kMostShards = 100'000;

// --- the first line

struct Environment {
  std::string qkvet;     // its version
  std::string compiler;  // that built it
  std::string cpu;       // "" if the system does not provide it
  int64_t cores = 0;
  std::string system, machine;
  std::string began;  // UTC

  void fields(auto& v) {
    v.must("qkvet", qkvet, "compiler", compiler);
    v.may("cpu", cpu);
    v.must("cores", cores, "system", system, "machine", machine, "began",
           began);
  }
};

struct ShardLine {
  int64_t number = 0, of = 0;

  void fields(auto& v) { v.must("number", number, "of", of); }
};

struct MergedShards {
  int64_t of = 0;
  std::vector<int64_t> merged, missing;

  void fields(auto& v) {
    v.must("of", of, "merged", merged, "missing", missing);
  }
};

// The subject of a result: a law, or a golden set that is verified.
enum class RowKind : uint8_t { kLaw, kSet };

struct StartLine {
  uint64_t seed = 1;
  std::optional<double> budget_seconds;
  int64_t cases = 0;  // 0 with a budget
  int64_t cases_per_law = 0;
  bool exhaustive = false;
  std::optional<ShardLine> shard;
  std::optional<MergedShards> shards;
  RowKind rows = RowKind::kLaw;
  std::string sizes;
  std::map<std::string, int64_t> pin;
  int64_t jobs = 1;
  Environment environment;
  Texts laws;

  void fields(auto& v) {
    v.must("seed", seed);
    v.may("budget_seconds", budget_seconds, "cases", cases, "cases_per_law",
          cases_per_law, "exhaustive", exhaustive, "shard", shard, "shards",
          shards, "rows", rows);
    v.must("sizes", sizes);
    v.may("pin", pin);
    v.must("jobs", jobs, "environment", environment, "laws", laws);
  }
};

// --- laws and kernels of the results

struct LawLine {
  std::string law, subject, sentence, formula, precondition, reason, rounding;

  void fields(auto& v) {
    v.must("law", law, "subject", subject, "sentence", sentence, "formula",
           formula);
    v.may("precondition", precondition, "reason", reason, "rounding", rounding);
  }
};

struct SourcePlace {
  std::string file;
  int64_t line = 0;

  void fields(auto& v) { v.must("file", file, "line", line); }
};

struct AssumedField {
  std::string field, value, word;

  void fields(auto& v) { v.must("field", field, "value", value, "word", word); }
};

struct NearHint {
  std::string path, from;
  int64_t calls = 0;

  void fields(auto& v) { v.must("path", path, "from", from, "calls", calls); }
};

// "windows" in 812 calls.
struct DrawnCalls {
  std::string what;
  int64_t calls = 0;

  void fields(auto& v) { v.must("what", what, "calls", calls); }
};

struct KernelLine {
  std::string kernel, description;
  std::optional<SourcePlace> source;
  std::string library;
  bool device = false;
  std::vector<AssumedField> assumed;
  bool precision_declared = false;
  Texts precision;
  std::string paths;
  std::string looser;    // "" or the aspects in which its declaration is looser
  std::string mistrust;  // "" or why no pass of it is believed
  Texts hollow;
  std::vector<DrawnCalls> drawn;
  Texts never_drawn;
  properties::MetPairs pairs;
  std::vector<NearHint> hints;

  void fields(auto& v) {
    v.must("kernel", kernel);
    v.may("description", description, "source", source, "library", library);
    v.must("device", device, "assumed", assumed, "precision_declared",
           precision_declared);
    v.may("precision", precision, "paths", paths, "looser", looser, "mistrust",
          mistrust);
    v.must("hollow", hollow, "drawn", drawn, "never_drawn", never_drawn);
    v.may("pairs", pairs, "hints", hints);
  }
};

// --- results

// The verdict of a run, with crashes as a verdict of their own.
enum class RowVerdict : uint8_t {
  kPassed,
  kFailed,
  kSkipped,
  kUnsupported,
  kGaveUp,
  kMistrusted,
  kCrash
};
inline RowVerdict row_verdict(Verdict verdict, bool crashed) {
  static_assert(static_cast<int>(RowVerdict::kMistrusted) ==
                static_cast<int>(Verdict::kMistrusted));
  return crashed ? RowVerdict::kCrash : static_cast<RowVerdict>(verdict);
}
inline bool is_failing(RowVerdict verdict) {
  return verdict == RowVerdict::kFailed || verdict == RowVerdict::kCrash;
}
inline bool is_judged(RowVerdict verdict) {
  return verdict == RowVerdict::kPassed || is_failing(verdict);
}

// The state of a result for a reader: "open" is gave up, mistrusted, skipped.
enum class RowState : uint8_t {
  kPassed,
  kFailed,
  kCrash,
  kKnown,
  kOpen,
  kUnsupported,
  kUndeclared
};
inline constexpr int kRowStates = 7;
inline bool is_bad(RowState state) {
  return state == RowState::kFailed || state == RowState::kCrash;
}

// The line of a file of known failures for a result.
struct KnownLine {
  int64_t line = 0;
  std::string since, why, until;
  bool holds = false, gone = false;
  std::string reason;
  Texts problems;

  void fields(auto& v) {
    v.must("line", line, "since", since, "why", why, "holds", holds, "gone",
           gone, "reason", reason);
    v.may("until", until, "problems", problems);
  }
};

struct BaselineLine {
  RowVerdict verdict = RowVerdict::kPassed;
  bool worse = false;

  void fields(auto& v) { v.must("verdict", verdict, "worse", worse); }
};

// A kernel under a law.
struct ResultLine {
  std::string kernel, law;
  size_t row = 0;  // of the kernel: two libraries may have one of a name
  RowVerdict verdict = RowVerdict::kGaveUp;
  Tally counts;  // with the texts of its cases; without candidates
  std::optional<FailureLine> failure;
  std::vector<FailureLine> others;  // for other causes
  std::optional<BaselineLine> baseline;
  std::optional<KnownLine> known;

  RowState state() const;
  // Unsupported, because it is not declared.
  bool is_undeclared() const {
    return counts.reason.about == About::kDeclaration;
  }
  // The failures, the first one first.
  std::vector<const FailureLine*> failures() const;
  // It was no better in the baseline.
  bool is_as_before() const { return baseline && !baseline->worse; }
  // Why a failure of state kKnown is accepted.
  std::string known_reason() const;

  void fields(auto& v) {
    v.must("kernel", kernel, "law", law, "verdict", verdict);
    v.may("planned", counts.planned);
    v.must("checked", counts.checked, "unsupported", counts.unsupported);
    v.may("refused", counts.refused);
    v.must("not_applicable", counts.not_applicable);
    v.flat(counts.elements);
    v.part("long", counts.long_cases > 0, [this](auto& part) {
      part.must("cases", counts.long_cases);
      part.flat(counts.of_long);
    });
    v.part("emptiest", counts.emptiest.vacuous > 0,
           [this](auto& part) { part.flat(counts.emptiest); });
    v.must("worst_error_over_bound", counts.worst_ratio,
           "error_over_bound_powers", counts.ratios);
    v.may("bound_over_error", counts.sharpness);
    v.must("seconds", counts.seconds);
    v.may("refusal", counts.refusal.text, "warned", counts.warned, "warning",
          counts.warning.text, "warning_number", counts.warning.number,
          "reason", counts.reason.text, "reason_is_about", counts.reason.about,
          "failure", failure, "other_failures", others, "baseline", baseline,
          "known", known);
  }
};

// --- the last line

struct SuspectedOracle {
  std::string value, at;
  Texts kernels;
  int64_t cases = 0;

  void fields(auto& v) {
    v.must("case", value, "at", at, "kernels", kernels, "cases", cases);
  }
};

struct EndLine {
  ExitCode exit = kNothingChecked;
  std::string why;
  bool interrupted = false;
  // Every law of attention was asked, over all shards together.
  bool whole_plan = false;
  bool by_default = false;  // no kernel was named
  std::string baseline;
  std::optional<ExitCode> baseline_exit;
  Texts baseline_gone;
  int64_t planned_cases = 0, replaced_cases = 0, added_cases = 0, rounds = 0;
  double wall_seconds = 0;
  Texts not_judged, notes;
  std::optional<SuspectedOracle> oracle_suspected;
  TimeUse thread_seconds;
  int64_t sets = 0;

  void fields(auto& v) {
    v.must("exit", exit);
    v.may("why", why);
    v.must("interrupted", interrupted, "whole_plan", whole_plan, "by_default",
           by_default);
    v.may("baseline", baseline, "baseline_exit", baseline_exit, "baseline_gone",
          baseline_gone);
    v.must("planned_cases", planned_cases);
    v.may("replaced_cases", replaced_cases, "added_cases", added_cases);
    v.must("rounds", rounds, "wall_seconds", wall_seconds, "not_judged",
           not_judged, "notes", notes);
    v.may("oracle_suspected", oracle_suspected);
    v.must("thread_seconds", thread_seconds);
    v.may("sets", sets);
  }
};

// How records spell enumerators, in their order.
using Words = std::span<const char* const>;
Words words_of(RowVerdict);
Words words_of(About);
Words words_of(Certainty);
Words words_of(ReachKind);
Words words_of(RowKind);
template <class T>
const char* word_of(T value) {
  return words_of(value)[static_cast<size_t>(value)];
}

struct RunRecord {
  std::string name;  // of the file, "" for a run that has just ended
  StartLine start;
  std::vector<LawLine> laws;        // of the results, in their order
  std::vector<KernelLine> kernels;  // with or without results
  std::vector<ResultLine> results;  // kernel by kernel
  EndLine end;
  // Index of the first result of each pair of a kernel and a law.
  std::map<std::pair<std::string, std::string>, size_t> places;

  // Null if there is none.
  const LawLine* law(std::string_view id) const;
  const KernelLine* kernel(std::string_view name) const;
  const ResultLine* result(const std::string& kernel,
                           const std::string& law) const;
  // The results of a kernel, of all kernels with a name; "": all.
  std::vector<const ResultLine*> results_of(const KernelLine& kernel) const;
  std::vector<const ResultLine*> results_of(std::string_view name = "") const;
  // False if there was one already.
  bool add_result(ResultLine result);
};

// On failure *error is one line that begins with the name and the line's
// number, and names the field.
std::optional<RunRecord> parse_record(std::string_view text,
                                      const std::string& name,
                                      std::string* error);
std::optional<RunRecord> read_record(const std::string& file,
                                     std::string* error);

// As lines again: the first one, all others with `more` before the last, and
// all.
std::string start_text(const StartLine& start);
std::string result_lines(const RunRecord& record, const std::string& more = "");
std::string record_lines(const RunRecord& record);

// The name of a row of results: "law" or "set".
inline const char* row_word(const RunRecord& record) {
  return word_of(record.start.rows);
}

// Numbers of results per state, and sums.
struct RecordCounts {
  int64_t states[kRowStates] = {};
  int64_t checked = 0;  // cases
  int64_t refused = 0;  // cases of laws that others were judged by
  double seconds = 0, worst = 0;

  int64_t of(RowState state) const { return states[static_cast<int>(state)]; }
  int64_t passed() const { return of(RowState::kPassed); }
  int64_t failed() const {
    return of(RowState::kFailed) + of(RowState::kCrash);
  }
};
RecordCounts counts_of(const std::vector<const ResultLine*>& results);

// How a run ends and, if nothing failed but it is no pass, why: the first
// kernel with an open result, and that result. 2 > 4 > 1 > 3 > 0; a finished
// run never yields 2. A kernel that this machine cannot run counts as not
// checked only if it was selected by name.
struct RunVerdict {
  ExitCode code = kNothingChecked;
  std::string why_open;
};
RunVerdict verdict_of(const RunRecord& record);
// The end of the record as its results have it.
void set_verdict(RunRecord& record);
// "checked in 32 of its 300 cases" if a kernel with these results was checked
// in less than half of the planned cases of its laws; otherwise "".
std::string too_few_checked(const RunRecord& record,
                            const std::vector<const ResultLine*>& results);
// A text to follow a kernel's name: how many of its declared cases it refused,
// if they are too many for a pass, over all laws or for one; otherwise "".
std::string refused_too_much(const std::vector<const ResultLine*>& results);
// "shards 3, 4 of 8 are missing"; "" if none is.
std::string missing_shards(const RunRecord& record);
// Whether a declared option that was never drawn prevents a pass: a single
// shard does not decide.
inline bool is_whole_plan(const RunRecord& record) {
  return record.end.whole_plan && !record.start.shard;
}

// "FAILED", "PASSED", or of a run that leaves something open "INCOMPLETE".
const char* verdict_word(ExitCode code);
// "Not ready: scalar/plain fails 2 of 70 laws asked." and the like.
std::string verdict_sentence(const RunRecord& record);
// Whether a kernel has a result of the law other than undeclared; and the
// number of such laws.
bool is_asked(const RunRecord& record, const std::string& law);
int64_t laws_asked(const RunRecord& record);
// "2 kernels, 70 laws asked: 88 passed, 7 failed; 33,810 checked cases, 437.7
// s"
std::string figures_text(const RunRecord& record);
// "seed 1, 16,384 cases per kernel"
std::string plan_words(const RunRecord& record);

// Failures that are reported as one: the best of those of one kernel with the
// same cause, and the others.
struct Reported {
  const ResultLine* result = nullptr;
  const FailureLine* failure = nullptr;
  // Further ones: result, failure.
  std::vector<std::pair<const ResultLine*, const FailureLine*>> also = {};

  // Laws of the others, each once.
  Texts also_laws() const;
};
// Failures that are not accepted, kernel by kernel.
std::vector<Reported> reported_failures(const RunRecord& record);

}  // namespace qkvet::report

#endif  // QKVET_REPORT_RUN_RECORD_H_
