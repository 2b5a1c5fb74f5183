// SPDX-License-Identifier: Apache-2.0
// Each seeded fault is caught by the other reference, under the comparison that
// the correct pair passes.
#include "reference/seeded/seeded.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "reference/agreement/agreement.h"
#include "reference/testing/test_options.h"
#include "reference/testing/test_rope.h"

namespace qkvet::reference::seeded_test {
namespace {

// Every second one with options, every fourth with a rotation, and every fourth
// with lists of keys.
constexpr int kProblems = 680;

class SeededTest : public testing::TestWithParam<int> {};

TEST_P(SeededTest, IsCaughtByTheOtherReference) {
  const auto fault = static_cast<SeededFault>(GetParam());
  TestRandom random(7);
  int caught = 0;
  for (int i = 0; i < kProblems; ++i) {
    const auto regime = static_cast<Regime>(i % kRegimeCount);
    const Shape shape = random_shape(random, 10);
    TestProblem p = i % 2 == 0 ? random_problem(random, regime, shape)
                               : random_option_problem(random, regime, shape);
    const bool turned = i % 4 < 2 && shape.d % 2 == 0;
    if (turned) add_rotation(random, p);
    if (i % 4 == 2) add_key_lists(random, p);
    const Problem& problem = p.get();
    const OracleOutput faulty = seeded_forward(fault, problem);
    const double ratio =
        seeded_in_plain(fault)
            ? reference_ratio(problem, faulty, twin_forward(problem))
            : reference_ratio(problem, plain_forward(problem), faulty);
    caught += !(ratio <= 1);
    const double control =
        reference_ratio(problem, plain_forward(problem), twin_forward(problem));
    ASSERT_TRUE(control <= 1) << "the correct pair, problem " << i;
  }
  EXPECT_GT(caught, 0) << seeded_fault_name(fault);
  std::printf("%s: caught in %d of %d problems\n",
              std::string(seeded_fault_name(fault)).c_str(), caught, kProblems);
}

INSTANTIATE_TEST_SUITE_P(AllFaults, SeededTest,
                         testing::Range(0, kSeededFaultCount),
                         [](const testing::TestParamInfo<int>& fault) {
                           return std::string(seeded_fault_name(
                               static_cast<SeededFault>(fault.param)));
                         });

TEST(SeededListTest, HoldsAsManyFaultsOfEachReferenceUnderDistinctNames) {
  std::set<std::string_view> names;
  int in_plain = 0;
  for (int i = 0; i < kSeededFaultCount; ++i) {
    const auto fault = static_cast<SeededFault>(i);
    names.insert(seeded_fault_name(fault));
    in_plain += seeded_in_plain(fault);
  }
  EXPECT_EQ(names.size(), size_t{kSeededFaultCount});
  EXPECT_EQ(in_plain, kSeededFaultCount / 2);
}

}  // namespace
}  // namespace qkvet::reference::seeded_test
