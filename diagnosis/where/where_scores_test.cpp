// SPDX-License-Identifier: Apache-2.0
// How often the sentence about where a kernel fails is true: for all known
// faults, each judged by cases of a seed that no search used.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>

#include "core/base/at_night.h"
#include "diagnosis/test_faults.h"
#include "diagnosis/where/fails_where.h"

namespace qkvet::diagnosis::where_scores_test {
namespace {

constexpr int64_t kCases = 600;
constexpr int kFresh = 200;
constexpr uint64_t kJudgesSeed = 0x4A55;

struct Scores {
  int faults = 0, known = 0, right = 0, claimed_wrong = 0;
  std::vector<double> seconds;
};

void score(const KernelUnderTest& kernel, Executor& executor, Scores& scores) {
  std::vector<const Law*> laws;
  for (const std::string& id : kernel.judged.info.fault->killed_by)
    if (const Law* law = find_law(id)) laws.push_back(law);
  const std::vector<Failure> failures =
      failures_for_test(kernel, open_faults, laws, kCases);
  if (failures.empty() || failures[0].judgement.kind == FailureKind::kHang ||
      failures[0].repeats_failed < failures[0].repeats)
    return;
  ++scores.faults;
  TimeUse time;
  const std::clock_t start = std::clock();
  const FailsWhere where =
      look_where_it_fails(failures[0], {kernel, executor, time});
  scores.seconds.push_back(
      static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC + time.kernel);
  const FreshVerdicts fresh =
      predict_fresh(where, kJudgesSeed, kFresh, {kernel, executor, time});
  scores.known += where.is_known();
  scores.right += where.is_known() && fresh.are_right();
  scores.claimed_wrong += where.is_known() && !fresh.are_right();
  std::printf("  %-40s %s %3d/%3d %4d calls %.2f s  %s   [%s | %s]\n",
              kernel.judged.info.name.c_str(),
              !where.is_known()   ? "----"
              : fresh.are_right() ? "ok  "
                                  : "BAD ",
              fresh.right, fresh.all, where.calls, scores.seconds.back(),
              where.text().c_str(), failures[0].law->id,
              kernel.judged.info.fault->when.c_str());
  std::fflush(stdout);
}

void print(Scores scores) {
  std::sort(scores.seconds.begin(), scores.seconds.end());
  std::printf(
      "%d faults that fail: a sentence for %d, right for %d on %d fresh cases; "
      "median %.2f s, slowest %.2f s\n",
      scores.faults, scores.known, scores.right, kFresh,
      scores.seconds[scores.seconds.size() / 2], scores.seconds.back());
}

// By day one in sixteen; at night the others follow in turns, so that each line
// of totals is of a fair sample.
TEST(WhereScores, OfAllKnownFaults) {
  constexpr int kShare = 16;
  const Opened opened = open_for_test(QKVET_FAULTY);
  ASSERT_NE(opened.executor, nullptr) << opened.error;
  const std::vector<KernelUnderTest> kernels =
      kernels_for_test(*opened.executor);
  Scores scores;
  for (int turn = 0; turn < (at_night() ? kShare : 1); ++turn) {
    for (const KernelUnderTest& kernel : kernels)
      if (kernel.index % kShare == turn)
        score(kernel, *opened.executor, scores);
    ASSERT_FALSE(scores.seconds.empty());
    print(scores);
  }
  // The limit for all kernels; a sample of 25 is off by one in ten now and
  // then.
  const int least = at_night() ? 6 : 5;
  EXPECT_GE(10 * scores.right, least * scores.faults);
  // Checked against 200 cases, a sentence that holds for 95 % of all is
  // sometimes below that.
  EXPECT_LE(8 * scores.claimed_wrong, scores.known + 8);
}

}  // namespace
}  // namespace qkvet::diagnosis::where_scores_test
