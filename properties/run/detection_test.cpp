// SPDX-License-Identifier: Apache-2.0
// The smallest mistakes that are still found.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "properties/conventions/domain.h"
#include "properties/run/shrink.h"
#include "properties/testing/fake_executor.h"

namespace qkvet::properties::detection_test {
namespace {

// A kernel that declares QKVET_PRECISION_CPU_F32.
JudgedKernel declared_f32() {
  qkvet_precision precision{};
  precision.struct_size = sizeof precision;
  precision.preset = QKVET_PRECISION_CPU_F32;
  JudgedKernel kernel = FakeExecutor::under_test().judged;
  kernel.model = resolve_precision(precision).model;
  return kernel;
}

Judgement check(const char* law_id, const std::string& text,
                FakeExecutor& executor) {
  const ParsedCase parsed = parse_case(text);
  EXPECT_EQ(parsed.error, "");
  const Law& law = *find_law(law_id);
  TimeUse time;
  return check_case(law, constrained(law, *parsed.value), declared_f32(), 0,
                    executor, false, time);
}

// The answer is the number of ones over the number of keys: after a loss it is
// the same for all keys with a one, and for all with a zero.
TEST(Detection, EveryLostOrDoubledKeyAmong131072) {
  constexpr int64_t kKeys = 131072;
  const std::string text = "f32,B1,H1,Tq1,Tk131072,d1";
  for (const int times : {0, 1, 2}) {
    std::set<float> answers;
    for (int64_t key = 0; key < kKeys; ++key) {
      const double keys = static_cast<double>(kKeys + times - 1);
      const double ones =
          static_cast<double>(kKeys / 2 + (times - 1) * (key % 2));
      answers.insert(static_cast<float>(ones / keys));
    }
    for (const float answer : answers) {
      FakeExecutor fake(
          {}, [&](const KernelCall&, OracleOutput& oracle, CallOutcome&) {
            oracle.o[0] = static_cast<double>(answer);
          });
      const Judgement judgement = check("every_key_counts_once", text, fake);
      EXPECT_EQ(judgement.verdict,
                times == 1 ? Verdict::kPassed : Verdict::kFailed)
          << times << " " << answer;
    }
  }
}

// How far off a scale is still seen, by any law about the scale.
class ScaleError
    : public testing::TestWithParam<std::pair<const char*, double>> {};

TEST_P(ScaleError, IsSeen) {
  const auto& [dtype, error] = GetParam();
  for (const double factor : {1 + error, 1 - error, 1.0}) {
    FakeExecutor fake([factor = factor](KernelCall&, Problem& problem) {
      problem.scale *= factor;
    });
    int failed = 0;
    for (const char* data :
         {"q=lattice,k=lattice", "q=lead,k=ascending8", "q=zero,k=zero"})
      for (const char* law : {"scale_is_one_over_sqrt_d", "agrees_with_oracle"})
        failed +=
            check(law, std::string(dtype) + ",B1,H1,Tq4,Tk24,d16," + data, fake)
                .verdict == Verdict::kFailed;
    EXPECT_EQ(failed > 0, factor != 1) << dtype << " " << factor;
  }
}

INSTANTIATE_TEST_SUITE_P(Storage, ScaleError,
                         testing::Values(std::pair{"f32", 1e-4},
                                         std::pair{"bf16", 1e-3},
                                         std::pair{"f16", 1e-3}),
                         [](const auto& test) {
                           return std::string(test.param.first);
                         });

// The largest score without one lane, and how far that of the lane is above it.
double overhang(const Problem& problem, int64_t lane) {
  const Shape& s = problem.shape;
  double rest = -INFINITY, own = 0;
  for (int64_t j = 0; j < s.Tk; ++j) {
    double dot = 0;
    for (int64_t c = 0; c < s.d; ++c)
      dot += problem.q[c] * problem.k[j * s.d + c];
    if (j == lane)
      own = problem.scale * dot;
    else
      rest = std::max(rest, problem.scale * dot);
  }
  return own - rest;
}

// A maximum that misses one lane of a tile: exp overflows in f32 if the lane is
// more than 88.7 above all others. Data with one dominant key has that at every
// lane.
TEST(Detection, AMaximumThatMissesOneLaneOfSixtyFour) {
  constexpr double kLargestF32Exponent = 88.7;
  for (int64_t lane = 0; lane < 64; ++lane) {
    bool overflows = false;
    FakeExecutor fake(
        [&](KernelCall&, Problem& problem) {
          overflows = overhang(problem, lane) > kLargestF32Exponent;
        },
        [&](const KernelCall&, OracleOutput& oracle, CallOutcome&) {
          for (double& o : oracle.o)
            if (overflows) o = std::nan("");
        });
    int failed = 0;
    for (int seed = 1; seed <= 8; ++seed)
      failed +=
          check("agrees_with_oracle",
                "f32,B1,H1,Tq1,Tk64,d4,q=large4,k=dominant" +
                    std::to_string(lane) + ",seed=" + std::to_string(seed),
                fake)
              .verdict == Verdict::kFailed;
    EXPECT_GT(failed, 0) << lane;
  }
}

}  // namespace
}  // namespace qkvet::properties::detection_test
