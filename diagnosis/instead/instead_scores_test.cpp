// SPDX-License-Identifier: Apache-2.0
// How often descriptions of wrong numbers are true: for all known faults of
// attention and its gradients, each judged by failing answers of a seed that no
// search used.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>

#include "core/base/at_night.h"
#include "diagnosis/instead/instead.h"
#include "diagnosis/test_faults.h"

namespace qkvet::diagnosis::instead_scores_test {
namespace {

constexpr int64_t kCases = 600;
// Enough to distinguish one in twenty from one in ten.
constexpr int kFresh = 180;
constexpr int kFreshAnswers = 40;
constexpr uint64_t kJudgesSeed = 0x4A55;

struct Scores {
  int faults = 0, described = 0, wrong = 0;
  int staged = 0;
  std::vector<double> seconds;
};

void score(const KernelUnderTest& kernel, Executor& executor, Scores& scores) {
  std::vector<const Law*> laws;
  for (const std::string& id : kernel.judged.info.fault->killed_by) {
    const Law* law = find_law(id);
    if (law != nullptr && (law->domain.subject == Subject::kAttention ||
                           law->domain.subject == Subject::kBackward))
      laws.push_back(law);
  }
  if (laws.empty()) return;
  const std::vector<Failure> failures =
      failures_for_test(kernel, open_faults, laws, kCases);
  if (failures.empty() || failures[0].judgement.kind == FailureKind::kHang ||
      failures[0].repeats_failed < failures[0].repeats)
    return;
  ++scores.faults;
  TimeUse time;
  const FailsWhere where =
      look_where_it_fails(failures[0], {kernel, executor, time});
  time = {};
  const std::clock_t start = std::clock();
  const Instead instead =
      look_what_it_is_instead(failures[0], where, {kernel, executor, time});
  scores.seconds.push_back(
      static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC + time.kernel);
  const InsteadScore fresh =
      score_instead(instead, failures[0], where, {kernel, executor, time},
                    kJudgesSeed, kFresh, kFreshAnswers);
  const bool is_described =
      std::any_of(instead.outputs.begin(), instead.outputs.end(),
                  [](const OutputInstead& one) { return !one.text.empty(); });
  const bool is_wrong =
      is_described && !(fresh.all > 0 && 20 * fresh.right >= 19 * fresh.all);
  scores.described += is_described;
  scores.wrong += is_wrong;
  scores.staged += !instead.stage_sentence().empty();
  std::printf("  %-40s %s %2d/%2d %3d calls %.2f s  [%s] %s\n",
              kernel.judged.info.name.c_str(),
              !is_described ? "----"
              : is_wrong    ? "BAD "
                            : "ok  ",
              fresh.right, fresh.all, instead.calls, scores.seconds.back(),
              instead.stage_sentence().c_str(), instead.text().c_str());
  std::fflush(stdout);
}

// By day one in twelve; at night the others follow in turns.
TEST(InsteadScores, OfAllKnownFaults) {
  constexpr int kShare = 20;
  const Opened opened = open_for_test(QKVET_FAULTY);
  ASSERT_NE(opened.executor, nullptr) << opened.error;
  const std::vector<KernelUnderTest> kernels =
      kernels_for_test(*opened.executor);
  for (int turn = 0; turn < (at_night() ? kShare : 1); ++turn) {
    Scores scores;
    for (const KernelUnderTest& kernel : kernels)
      if (kernel.index % kShare == turn)
        score(kernel, *opened.executor, scores);
    ASSERT_FALSE(scores.seconds.empty());
    std::sort(scores.seconds.begin(), scores.seconds.end());
    std::printf(
        "%d faults that fail: described %d, of fresh answers falsely %d, a "
        "stage for %d; median %.2f s, slowest %.2f s\n",
        scores.faults, scores.described, scores.wrong, scores.staged,
        scores.seconds[scores.seconds.size() / 2], scores.seconds.back());
    // No description is allowed; a false one is not, except for one in twenty.
    EXPECT_GE(6 * scores.described, scores.faults);
    EXPECT_GE(4 * scores.staged, scores.faults);
    EXPECT_LE(20 * scores.wrong, scores.described);
  }
}

}  // namespace
}  // namespace qkvet::diagnosis::instead_scores_test
