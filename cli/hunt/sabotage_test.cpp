// SPDX-License-Identifier: Apache-2.0
// An oracle that shares a kernel's mistake blinds only agreement.
#include "cli/hunt/sabotage.h"

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "core/base/at_night.h"

namespace qkvet::cli {
// Otherwise the name of a test would contain addresses, which differ in every
// run.
static void PrintTo(const SabotagePair& pair, std::ostream* out) {
  *out << pair.fault;
}
}  // namespace qkvet::cli

namespace qkvet::cli::sabotage_test {
namespace {

constexpr int64_t kCases = 400;        // of agreement
constexpr int64_t kCasesOfEach = 100;  // of every other law

const Law& agreement() { return *find_law("agrees_with_oracle"); }

std::string name_of(const SabotagePair& pair) {
  return std::string(pair.fault) + "_with_" +
         std::string(seeded_fault_name(pair.seeded));
}

class SabotageTest : public testing::TestWithParam<SabotagePair> {
 protected:
  static void SetUpTestSuite() { sabotage_ = new Sabotage; }
  static void TearDownTestSuite() {
    delete sabotage_;
    sabotage_ = nullptr;
  }
  void SetUp() override { ASSERT_EQ(sabotage_->error(), ""); }

  static SabotageResult run(Oracle oracle, const Law& law) {
    return sabotage_->run(GetParam(), oracle, law,
                          &law == &agreement() ? kCases : kCasesOfEach);
  }

 private:
  static Sabotage* sabotage_;
};
Sabotage* SabotageTest::sabotage_ = nullptr;

TEST_P(SabotageTest, TheRightOracleShowsTheFault) {
  EXPECT_TRUE(run(plain_forward, agreement()).killed);
}

// The control: without it the pairs would be no pairs.
TEST_P(SabotageTest, AgreementSeesNothingWhereTheOracleSharesTheFault) {
  const SabotageResult result = run(GetParam().oracle, agreement());
  EXPECT_FALSE(result.killed) << result.by;
  EXPECT_GE(result.checked, kCases / 8);
}

TEST_P(SabotageTest, SomeOtherLawStillSeesIt) {
  const Law* killer = nullptr;
  for (const Law* law : Sabotage::laws()) {
    if (killer != nullptr || law == &agreement()) continue;
    if (run(GetParam().oracle, *law).killed) killer = law;
  }
  EXPECT_EQ(killer == nullptr, GetParam().agreement_alone[0] != '\0')
      << (killer != nullptr ? killer->id : "no law");
}

INSTANTIATE_TEST_SUITE_P(Pairs, SabotageTest,
                         testing::ValuesIn(sampled(
                             std::vector<SabotagePair>(sabotage_pairs().begin(),
                                                       sabotage_pairs().end()),
                             3)),
                         [](const auto& test) { return name_of(test.param); });

TEST(Sabotage, APairThatLivesUnderItsOracleNeedsAReason) {
  SabotagePair pair{"synthetic", SeededFault::kPlainTopLeft, plain_forward,
                    nullptr};
  const auto lines = [&pair](bool other_kills) {
    return std::vector<SabotageLine>{
        {&pair, false, find_law("weights_sum_to_one"), {true, 1}},
        {&pair, true, find_law("weights_sum_to_one"), {other_kills, 1}},
        {&pair, true, find_law("agrees_with_oracle"), {true, 1}}};
  };
  EXPECT_EQ(sabotage_exit(lines(true)), kConforms);
  EXPECT_NE(sabotage_text(lines(true)).find("weights_sum_to_one"),
            std::string::npos);
  EXPECT_EQ(sabotage_exit(lines(false)), kLawFailed);
  pair.agreement_alone = "a convention";
  EXPECT_EQ(sabotage_exit(lines(false)), kConforms);
  EXPECT_NE(sabotage_text(lines(false)).find("a convention"),
            std::string::npos);
}

}  // namespace
}  // namespace qkvet::cli::sabotage_test
