// SPDX-License-Identifier: Apache-2.0
// What is known of a mutant, and the line of JSON that keeps it.
#ifndef QKVET_CLI_MUTATE_MUTANT_RECORD_H_
#define QKVET_CLI_MUTATE_MUTANT_RECORD_H_

#include <cstdint>
#include <optional>
#include <string>

#include "report/run_record.h"

namespace qkvet::cli {

enum class MutantFate : uint8_t {
  kKilled,
  kSurvived,
  kInvalid,   // it does not compile
  kSameCode,  // its code is the original's
  kTwin       // its code is another mutant's, which speaks for both
};
inline Words words_of(MutantFate) {
  static constexpr const char* kWords[] = {"killed", "survived", "invalid",
                                           "same code", "twin"};
  return kWords;
}

// A surviving mutant compared with the original in the calls of the plan.
struct Survival {
  int64_t cases = 0;      // judged, with a comparison that could have failed
  int64_t calls = 0;      // that the original answered
  int64_t differ = 0;     // of these: the mutant's bits differ
  int64_t refused = 0;    // of these: the mutant refused
  double most_ulps = 0;   // largest difference where a bound is known, in units
                          // of the last place of the output's type
  double most_bound = 0;  // and in units of the bound
  double worst_error = 0;  // the mutant's largest error/bound
  double time_ratio = 0;   // its time inside of the kernel, over the original's
  // "" or why its answers were not compared with the original's.
  std::string declares, assumes;
  // Whether a call reaches the place; absent if not asked, or if no trap could
  // be put there.
  std::optional<bool> reached;

  void fields(auto& v) {
    v.must("cases", cases, "calls", calls, "differ", differ, "refused", refused,
           "most_ulps", most_ulps, "most_bound", most_bound, "worst_error",
           worst_error, "time_ratio", time_ratio);
    v.may("declares", declares, "assumes", assumes, "reached", reached);
  }
};

struct MutantRecord {
  std::string id, operation;
  int line = 0;
  std::string before, after;  // the changed line
  MutantFate fate = MutantFate::kInvalid;
  std::string code;  // hash of its loaded library
  std::string of;    // a twin's: the id of the other
  // For a killed one "wrong", "crash", "timeout", "not opened", "no verdict";
  // the law, the number of the case in the plan, and its text or the message.
  // For an invalid one the compiler's first line.
  std::string how, law, text;
  int64_t number = 0;
  double seconds = 0;
  Survival survival;

  const std::string& key() const { return id; }
  void fields(auto& v) {
    v.must("id", id, "operator", operation, "line", line, "before", before,
           "after", after, "fate", fate);
    v.may("code", code, "of", of, "how", how, "law", law, "text", text,
          "number", number);
    v.must("seconds", seconds);
    if (fate == MutantFate::kSurvived) survival.fields(v);
  }
};

}  // namespace qkvet::cli

#endif  // QKVET_CLI_MUTATE_MUTANT_RECORD_H_
