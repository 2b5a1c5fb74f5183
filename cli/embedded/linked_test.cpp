// SPDX-License-Identifier: Apache-2.0
// <qkvet/linked.h> as C++17 programs use it: kernels of this program.
#include <algorithm>
#include <cfenv>
#include <csignal>

#include "qkvet/gtest.h"

extern "C" {
qkvet_status good_open(const qkvet_host* host, const char* config,
                       qkvet_library* out, qkvet_text* why);
qkvet_status broken_open(const qkvet_host* host, const char* config,
                         qkvet_library* out, qkvet_text* why);
qkvet_status aborts_open(const qkvet_host* host, const char* config,
                         qkvet_library* out, qkvet_text* why);
}

// One test per law, named Laws/Good.Holds/<law>.
QKVET_LINKED_CONFORMANCE_TEST(Good, qkvet::Linked(good_open).cases(60));

namespace {

using qkvet::judge_linked;
using qkvet::LawOutcome;
using qkvet::Linked;

constexpr const char* kScale = "scale_is_one_over_sqrt_d";

TEST(Linked, ALawHoldsFailsOrIsSkipped) {
  EXPECT_EQ(judge_linked(Linked(good_open).cases(200), kScale).outcome,
            LawOutcome::kHolds);
  const auto failed = judge_linked(Linked(broken_open).cases(200), kScale);
  EXPECT_EQ(failed.outcome, LawOutcome::kFails);
  for (const char* part :
       {"FAIL  scale_is_one_over_sqrt_d   consumer/attention   attention.c",
        "again       this test, with .only(\"f32,B1,H1,", "error/bound"})
    EXPECT_NE(failed.text.find(part), std::string::npos) << failed.text;
  const auto skipped =
      judge_linked(Linked(broken_open).cases(60), "cache_length_grows");
  EXPECT_EQ(skipped.outcome, LawOutcome::kSkipped);
  EXPECT_EQ(skipped.text, "the law is about nothing that the kernel declares");
}

TEST(Linked, ConfigAndKernelsCount) {
  const auto text = [](const Linked& linked) {
    return judge_linked(linked, kScale).text;
  };
  EXPECT_EQ(text(Linked(good_open).config("mine").cases(60)), "");
  EXPECT_EQ(text(Linked(good_open).config("yours")),
            "qkvet: the linked library: qkvet_open() returned "
            "INVALID_ARGUMENT\n");
  EXPECT_EQ(text(Linked(good_open).kernel("consumer/*").cases(60)), "");
  EXPECT_EQ(text(Linked(good_open).kernel("consumer/*").kernel("mine/x")),
            "qkvet: the linked library: holds no kernel named \"mine/x\"\n");
}

TEST(Linked, TheCaseOfAReportFailsAgain) {
  const auto failed = judge_linked(Linked(broken_open).cases(200), kScale);
  const size_t from = failed.text.find(".only(\"") + 7;
  const std::string text =
      failed.text.substr(from, failed.text.find('"', from) - from);
  const auto again = judge_linked(Linked(broken_open).only(text), kScale);
  EXPECT_EQ(again.outcome, LawOutcome::kFails);
  EXPECT_NE(again.text.find("case        " + text + "\n"), std::string::npos)
      << again.text;
  EXPECT_EQ(judge_linked(Linked(good_open).only(text), kScale).outcome,
            LawOutcome::kHolds);
  EXPECT_EQ(
      judge_linked(Linked(good_open).only(text), "cache_length_grows").outcome,
      LawOutcome::kSkipped);
}

// As in linked.h: anything that ends such a kernel ends its program.
TEST(LinkedDeathTest, AKernelThatAbortsEndsTheTestProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(judge_linked(Linked(aborts_open).cases(4), kScale),
              testing::KilledBySignal(SIGABRT), "");
}

TEST(Linked, WrongUseFailsInOneLine) {
  EXPECT_EQ(judge_linked(nullptr, kScale).text,
            "qkvet: the linked library has no entry\n");
  EXPECT_EQ(judge_linked(Linked(good_open).cases(0), kScale).text,
            "qkvet: a law needs at least one case\n");
  EXPECT_EQ(judge_linked(Linked(good_open).only("f32,"), kScale).outcome,
            LawOutcome::kFails);
  EXPECT_EQ(judge_linked(good_open, "cache_*").text,
            "qkvet: one law at a time\n");
  const auto unknown = judge_linked(good_open, "no_law");
  EXPECT_EQ(unknown.outcome, LawOutcome::kFails);
  EXPECT_EQ(unknown.text.rfind("qkvet: no law is named \"no_law\"", 0), 0u);
}

TEST(Linked, LawsHaveNames) {
  const std::vector<std::string> laws = qkvet::linked_law_names();
  EXPECT_GE(laws.size(), 8u);
  EXPECT_EQ(std::count(laws.begin(), laws.end(), kScale), 1);
}

// As in a program that was linked with -ffast-math, or rounds otherwise.
TEST(Linked, TheFloatingPointEnvironmentOfTheProgramIsNotTheOracles) {
  ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
  const auto result =
      judge_linked(Linked(good_open).cases(60), "agrees_with_oracle");
  const int after = std::fegetround();
  std::fesetround(FE_TONEAREST);
  EXPECT_EQ(result.outcome, LawOutcome::kHolds) << result.text;
  EXPECT_EQ(after, FE_UPWARD);
}

}  // namespace
