// SPDX-License-Identifier: Apache-2.0
// Two runs held against each other: two days, two versions of a library.
#ifndef QKVET_TOOLS_RECORD_RUN_COMPARE_H_
#define QKVET_TOOLS_RECORD_RUN_COMPARE_H_

#include <string>
#include <string_view>
#include <vector>

#include "tools/record/run_record.h"

namespace qkvet::tools {

// Passed, FAILED or crash.
bool is_judged(std::string_view verdict);

// How a verdict has changed. "" stands for a law that was not in the run.
enum class Change : uint8_t { kSame, kBetter, kWorse, kOther };
// Worse: what passed does not any more, what failed crashes, what was not there
// fails, what was judged is not judged any more. Better: what failed passes,
// what crashed fails. Other: neither.
Change change_of(std::string_view before, std::string_view after);

struct ChangedResult {
  std::string kernel;
  std::string law;  // "" for a kernel that is in one of the runs alone, and
                    // "60 laws" for those that the second run lacks
  std::string before, after;  // verdicts; "" where it is not in the run
  double ratio_before = 0, ratio_after = 0;  // largest error/bound
  int64_t laws = 1;
};

struct RunComparison {
  std::vector<ChangedResult> worse, better, other;
  // Same verdict, and a largest error/bound that is more than kMostNoise times
  // the other.
  std::vector<ChangedResult> larger, smaller;
  // Seconds of a checked case, kernel by kernel: what, before, after.
  struct Speed {
    std::string kernel;
    double before = 0, after = 0;
  };
  std::vector<Speed> speed;
  const char* row = "law";  // what a result is of
  std::string other_plan;   // "" or in what the plans differ
};

// The largest of many errors moves with the cases that a run happens to have: a
// change by less than this is none.
inline constexpr double kMostNoise = 2;

RunComparison compare_records(const RunRecord& before, const RunRecord& after);
std::string comparison_text(const RunComparison& comparison, size_t width);

}  // namespace qkvet::tools

#endif  // QKVET_TOOLS_RECORD_RUN_COMPARE_H_
