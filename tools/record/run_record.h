// SPDX-License-Identifier: Apache-2.0
// The record of a run: what `qkvet check --json` wrote, read back. All reports
// for people and systems but the one on the terminal are written from it, at
// once or later (run.schema.json says what stands in it).
#ifndef QKVET_TOOLS_RECORD_RUN_RECORD_H_
#define QKVET_TOOLS_RECORD_RUN_RECORD_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/json.h"
#include "tools/base/exit_code.h"

namespace qkvet::tools {

struct RunRecord {
  std::string name;  // of the file, "" for a run that has just ended
  Json start = Json::object(), end = Json::object();
  std::vector<Json> laws;     // of the results, in their order
  std::vector<Json> kernels;  // with what the lines "declared" say of them
  std::vector<Json> results;  // a kernel under a law, each pair once
  std::map<std::pair<std::string, std::string>, size_t> places;  // of results

  // Empty objects where there is no such line.
  const Json& law(std::string_view id) const;
  const Json& kernel(std::string_view name) const;
  // Null where there is none.
  const Json* result(const std::string& kernel, const std::string& law) const;
  // Those of a kernel.
  std::vector<const Json*> results_of(const std::string& kernel) const;
  // False if there is one already.
  bool add_result(Json result);
};

// On failure *error is one line that begins with the name and the line's
// number.
std::optional<RunRecord> parse_record(std::string_view text,
                                      const std::string& name,
                                      std::string* error);
std::optional<RunRecord> read_record(const std::string& file,
                                     std::string* error);

// As lines again.
std::string record_lines(const RunRecord& record);

// What a row of results is: "law", or "set" where golden sets were verified.
const char* row_word(const RunRecord& record);

// A field of an object that may lack it or have another type in its place: "",
// 0 and null then. Infinity is a text in JSON.
std::string text_of(const Json& json, const char* field);
double number_of(const Json& json, const char* field);
int64_t count_of(const Json& json, const char* field);
bool is_set(const Json& json, const char* field);
// An array of texts.
std::vector<std::string> texts_of(const Json& json, const char* field);
const Json& part_of(const Json& json, const char* field);

// What a result is to a reader: "passed", "failed", "crash", "known",
// "undeclared", "unsupported", "open" (gave up, mistrusted, skipped).
const char* state_of(const Json& result);
inline bool is_bad(std::string_view state) {
  return state == "failed" || state == "crash";
}
// Why a failure of state "known" is accepted.
std::string known_reason_of(const Json& result);
// Checked cases by the power of two below their largest error/bound.
std::map<int, int64_t> ratio_powers(const Json& result);
// The failures of a result, the first one first.
std::vector<const Json*> failures_of(const Json& result);

// How many results have which state, and what they add up to.
struct RecordCounts {
  int64_t passed = 0, failed = 0, known = 0, undeclared = 0, unsupported = 0,
          open = 0;
  int64_t checked = 0;
  double seconds = 0, worst = 0;
};
RecordCounts counts_of(const RunRecord& record, std::string_view kernel = "");

// How a run ends and, where nothing failed and it is no pass, why: the first
// kernel that leaves something open, and what. 2 > 4 > 1 > 3 > 0; a run that
// was made never yields 2. A kernel that this machine cannot run counts as not
// checked only if it was asked for by name.
struct RunVerdict {
  ExitCode code = kNothingChecked;
  std::string why_open;
};
RunVerdict verdict_of(const RunRecord& record);
// "" or, where a kernel with these results was checked in less than half of the
// cases that its laws have in the plan, "checked in 32 of its 300 cases".
std::string too_few_checked(const std::vector<const Json*>& results);
// "" or, to be written after a kernel's name, how many of the cases that it
// declares it refused, where these are too many for a pass: of all laws, or of
// one.
std::string refused_too_much(const std::vector<const Json*>& results);
// "shards 3, 4 of 8 are missing"; "" where none is.
std::string missing_shards(const RunRecord& record);

// "FAILED", "PASSED", or of a run that leaves something open "INCOMPLETE".
const char* verdict_word(int64_t exit_code);
// By the exit code of the record.
const char* verdict_word(const RunRecord& record);
// "Not ready: scalar/plain fails 2 of 70 laws asked." and the like.
std::string verdict_sentence(const RunRecord& record);
// Whether the record has more of a law than that no kernel declares what it is
// about; and how many such laws there are.
bool is_asked(const RunRecord& record, const std::string& law);
int64_t laws_asked(const RunRecord& record);
// "2 kernels, 70 laws asked: 88 passed, 7 failed; 33,810 checked cases, 437.7
// s"
std::string figures_text(const RunRecord& record);
// "seed 1, 16,384 cases per kernel"
std::string plan_words(const RunRecord& record);

// A failure that is reported as one: the best of those of one kernel with the
// same cause, and the others.
struct Reported {
  const Json* result = nullptr;
  const Json* failure = nullptr;
  // Further ones: result, failure.
  std::vector<std::pair<const Json*, const Json*>> also;
};
// Those that are not accepted, kernel by kernel.
std::vector<Reported> reported_failures(const RunRecord& record);

}  // namespace qkvet::tools

#endif  // QKVET_TOOLS_RECORD_RUN_RECORD_H_
