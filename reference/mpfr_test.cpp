// SPDX-License-Identifier: Apache-2.0
// Both references against MPFR. QKVET_MPFR_PROBLEMS sets how many problems;
// ci/long.sh takes a thousand.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

#include "reference/agreement.h"
#include "reference/mpfr_forward.h"
#include "reference/plain.h"
#include "reference/seeded.h"
#include "reference/test_options.h"
#include "reference/twin.h"

namespace qkvet {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// What the twin's own arithmetic may be off by, relative to the sizes that it
// adds up: 2^-96 of an exponential, 2^-104 of every other operation, of which a
// problem of these tests has less than 2^10 on the way to a number.
constexpr double kTwinU = 0x1p-92;
// Products and weights of the twin that underflow.
constexpr double kTwinFloor = 0x1p-1066;

int problem_count() {
  constexpr int kShort = 51;
  const char* count = std::getenv("QKVET_MPFR_PROBLEMS");
  return count != nullptr ? std::atoi(count) : kShort;
}

TestProblem problem_number(TestRandom& random, int i) {
  const auto regime = static_cast<Regime>(i % kRegimeCount);
  const Shape shape = random_shape(random, 12);
  return i % 3 == 0 ? random_problem(random, regime, shape)
                    : random_option_problem(random, regime, shape);
}

// The largest sum of sizes that a score of the problem comes from.
double score_size(const Problem& p) {
  const Shape& s = p.shape;
  const auto largest = [](const double* x, int64_t count) {
    double size = 0;
    for (int64_t i = 0; x != nullptr && i < count; ++i) {
      if (std::isfinite(x[i])) size = std::max(size, std::fabs(x[i]));
    }
    return size;
  };
  const double dot = static_cast<double>(s.d) * largest(p.q, s.q_elements()) *
                     largest(p.k, s.k_elements());
  return std::fabs(p.scale) * dot + largest(p.sink, s.H) +
         largest(p.bias, s.weights_elements()) +
         largest(p.slopes, s.H) * static_cast<double>(s.Tk + s.Tq) + 1;
}

// Half of the distance between the doubles next to x.
double half_ulp(double x) {
  return (std::nextafter(std::fabs(x), kInfinity) - std::fabs(x)) / 2;
}

struct Distance {
  double ulps = 0;  // beyond what double-double may be off by
  int64_t numbers = 0;
  int64_t exact = 0;  // correctly rounded
};

// `slack`: what double-double may be off by.
void compare(const std::vector<double>& twin, const std::vector<double>& truth,
             const std::vector<double>& bound, double slack, Distance& all) {
  for (size_t n = 0; n < truth.size(); ++n) {
    if (!std::isfinite(truth[n]) || bound[n] == kInfinity) continue;
    ++all.numbers;
    if (twin[n] == truth[n]) {
      ++all.exact;
      continue;
    }
    const double far = std::fabs(twin[n] - truth[n]) - slack;
    // Not <, so that a NaN is far.
    const double ulps = far <= 0 ? 0 : far / (2 * half_ulp(truth[n]));
    all.ulps = std::isnan(ulps) ? kInfinity : std::max(all.ulps, ulps);
  }
}

void compare_twin(const Problem& p, const OracleOutput& twin,
                  const OracleOutput& truth, Distance& all) {
  if (twin.visible != truth.visible || twin.sees != truth.sees) {
    all.ulps = kInfinity;
    return;
  }
  const Bound bound =
      compute_bound(BoundFacts(p, truth), double_precision(), true);
  const double relative = kTwinU * score_size(p);
  double v_max = 0;
  for (int64_t i = 0; i < p.shape.v_elements(); ++i) {
    if (std::isfinite(p.v[i])) v_max = std::max(v_max, std::fabs(p.v[i]));
  }
  compare(twin.o, truth.o, bound.o, relative * v_max + kTwinFloor, all);
  compare(twin.lse, truth.lse, bound.lse, relative, all);
  compare(twin.weights, truth.weights, bound.weights, relative + kTwinFloor,
          all);
}

// Double-double rounds to a double in two steps of its own: one ulp.
bool twin_passes(const Problem& p, const OracleOutput& twin,
                 const OracleOutput& truth) {
  Distance distance;
  compare_twin(p, twin, truth, distance);
  return distance.ulps <= 1;
}

bool plain_passes(const Problem& p, const OracleOutput& plain,
                  const OracleOutput& truth) {
  return reference_ratio(p, plain, truth) <= 1;
}

TEST(MpfrTest, BothReferencesAgreeWithMpfr) {
  const int problems = problem_count();
  TestRandom random(90);
  Distance twin;
  double plain = 0;
  for (int i = 0; i < problems; ++i) {
    TestProblem p = problem_number(random, i);
    const OracleOutput truth = mpfr_forward(p.get());
    const double ratio =
        reference_ratio(p.get(), plain_forward(p.get()), truth);
    ASSERT_TRUE(ratio <= 1) << "problem " << i << ", ratio " << ratio;
    plain = std::max(plain, ratio);
    compare_twin(p.get(), twin_forward(p.get()), truth, twin);
    ASSERT_LE(twin.ulps, 1) << "problem " << i;
  }
  EXPECT_GT(twin.numbers, 10 * problems);
  std::printf(
      "MPFR, %d problems, %lld numbers: plain at most %.3f of its bound; twin "
      "at most %.3f ulp away, %.4f %% correctly rounded\n",
      problems, static_cast<long long>(twin.numbers), plain, twin.ulps,
      100 * static_cast<double>(twin.exact) /
          static_cast<double>(twin.numbers));
}

class MpfrSeededTest : public testing::TestWithParam<int> {};

TEST_P(MpfrSeededTest, IsCaught) {
  const auto fault = static_cast<SeededFault>(GetParam());
  constexpr int kMost = 680;
  TestRandom random(91);
  bool caught = false;
  for (int i = 0; i < kMost && !caught; ++i) {
    TestProblem p = problem_number(random, i);
    const OracleOutput truth = mpfr_forward(p.get());
    const OracleOutput faulty = seeded_forward(fault, p.get());
    caught = seeded_in_plain(fault) ? !plain_passes(p.get(), faulty, truth)
                                    : !twin_passes(p.get(), faulty, truth);
  }
  EXPECT_TRUE(caught) << seeded_fault_name(fault);
}

INSTANTIATE_TEST_SUITE_P(AllFaults, MpfrSeededTest,
                         testing::Range(0, kSeededFaultCount),
                         [](const testing::TestParamInfo<int>& fault) {
                           return std::string(seeded_fault_name(
                               static_cast<SeededFault>(fault.param)));
                         });

// A twin that is no better than double agrees with the definition, and only
// something finer than both can tell.
struct ExpOfDouble : TwinSeams {
  static DoubleDouble exponential(DoubleDouble x) { return std::exp(x.hi); }
};

TEST(MpfrTest, SeesATwinThatIsNoBetterThanDouble) {
  TestRandom random(92);
  int seen = 0;
  int by_plain = 0;
  for (int i = 0; i < 2 * kRegimeCount; ++i) {
    TestProblem p = problem_number(random, i);
    const OracleOutput faulty = twin_forward_with<ExpOfDouble>(p.get());
    seen += !twin_passes(p.get(), faulty, mpfr_forward(p.get()));
    const OracleOutput plain = plain_forward(p.get());
    by_plain += !(reference_ratio(p.get(), plain, faulty) <= 1);
  }
  EXPECT_GT(seen, 0);
  EXPECT_LT(by_plain, seen);
}

// 2^-44 of the small weights.
struct ExpSlightlyOff : PlainSeams {
  static double exponential(double x) {
    return std::exp(x) * (x < -1 ? 1 + 0x1p-44 : 1);
  }
};

TEST(MpfrTest, SeesAPlainExponentialThatIsSlightlyOff) {
  TestRandom random(93);
  int seen = 0;
  for (int i = 0; i < 2 * kRegimeCount; ++i) {
    TestProblem p = problem_number(random, i);
    seen += !plain_passes(p.get(), plain_forward_with<ExpSlightlyOff>(p.get()),
                          mpfr_forward(p.get()));
  }
  EXPECT_GT(seen, 0);
}

}  // namespace
}  // namespace qkvet
