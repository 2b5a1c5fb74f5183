// SPDX-License-Identifier: Apache-2.0
// A comparison of two runs: two days, or two versions of a library.
#ifndef QKVET_REPORT_RUN_COMPARE_H_
#define QKVET_REPORT_RUN_COMPARE_H_

#include <string>
#include <string_view>
#include <vector>

#include "report/run_record.h"

namespace qkvet::report {

// The verdict of a law; absent if the kernel is not in the run.
using PerhapsVerdict = std::optional<RowVerdict>;

enum class Change : uint8_t { kSame, kBetter, kWorse, kOther };
// Worse: a pass is gone, a failure became a crash, a new result fails, a judged
// result is not judged any more. Better: a failure passes, a crash became a
// failure. Other: neither.
Change change_of(PerhapsVerdict before, PerhapsVerdict after);

// "FAILED -> passed", with "not in the run" for an absent result.
std::string change_text(PerhapsVerdict before, PerhapsVerdict after);

// Fields in which two plans differ; `whole`: those of shards, which have to
// have all of their cases in common.
Texts other_plan(const StartLine& before, const StartLine& after, bool whole);

struct ChangedResult {
  std::string name;    // "mine/fast weights_sum_to_one", "mine/fast 60 laws"
  std::string change;  // "FAILED -> passed", "0.5 -> 1.1"
  int64_t laws = 1;
};

struct RunComparison {
  std::vector<ChangedResult> worse, better, other;
  // Same verdict, and a largest error/bound that is more than kMostNoise times
  // the other.
  std::vector<ChangedResult> larger, smaller;
  // Seconds per checked case, kernel by kernel: name, before, after.
  struct Speed {
    std::string kernel;
    double before = 0, after = 0;
  };
  std::vector<Speed> speed;
  const char* row = "law";  // the subject of a result
  std::string other_plan;   // "" or the difference of the plans
};

// The largest of many errors depends on the cases that a run happens to have:
// smaller changes than this are ignored.
inline constexpr double kMostNoise = 2;

RunComparison compare_records(const RunRecord& before, const RunRecord& after);
std::string comparison_text(const RunComparison& comparison, size_t width);

}  // namespace qkvet::report

#endif  // QKVET_REPORT_RUN_COMPARE_H_
