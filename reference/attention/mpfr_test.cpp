// SPDX-License-Identifier: Apache-2.0
// Both references against MPFR. QKVET_MPFR_PROBLEMS sets how many problems;
// ci/long.sh takes a thousand.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>

#include "reference/agreement/agreement.h"
#include "reference/attention/mpfr_forward.h"
#include "reference/attention/plain.h"
#include "reference/attention/twin.h"
#include "reference/options/rope.h"
#include "reference/seeded/seeded.h"
#include "reference/testing/test_options.h"

namespace qkvet::reference::mpfr_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The error of the twin's own arithmetic, relative to the sizes that it adds
// up: 2^-96 for an exponential, 2^-104 for every other operation. A problem of
// these tests needs less than 2^10 operations for a number.
constexpr double kTwinU = 0x1p-92;
// Products and weights of the twin that underflow.
constexpr double kTwinFloor = 0x1p-1066;

int problem_count() {
  constexpr int kShort = 51;
  const char* count = std::getenv("QKVET_MPFR_PROBLEMS");
  return count != nullptr ? std::atoi(count) : kShort;
}

// Four products of each pair, times the sizes of two entries of the tables.
double turned_size(const Problem& p, const double* q, const double* k) {
  const Shape& s = p.shape;
  const Rotation& turn = p.rotation;
  const int64_t pairs = turn.channels / 2;
  double largest = 1;
  const auto look_at = [&](const int64_t* positions, int64_t rows) {
    for (int64_t n = 0; n < rows * pairs; ++n) {
      const int64_t at = positions[n / pairs] * pairs + n % pairs;
      largest =
          std::max({largest, std::fabs(turn.cos[at]), std::fabs(turn.sin[at])});
    }
  };
  look_at(turn.q_positions, s.B * s.Tq);
  look_at(turn.k_positions, s.B * s.Tk);
  double q_sum = 0, k_max = 0;
  for (int64_t c = 0; c < s.d; ++c) {
    q_sum += std::fabs(q[c]);
    k_max = std::max(k_max, std::fabs(k[c]));
  }
  return 4 * q_sum * k_max * largest * largest;
}

// The sum of sizes that the score of a pair comes from.
double score_size(const Problem& p, int64_t row, int64_t j) {
  const Shape& s = p.shape;
  const double* q = p.q + row * s.d;
  const double* k = p.k + (row / (s.group() * s.Tq) * s.Tk + j) * s.d;
  double dot = 0;
  for (int64_t c = 0; c < s.d; ++c) dot += std::fabs(q[c] * k[c]);
  if (p.rotation.style != RopeStyle::kNone) dot = turned_size(p, q, k);
  double size = 1 + std::fabs(p.scale) * dot;
  if (p.bias != nullptr) size += std::fabs(p.bias[row * s.Tk + j]);
  if (p.slopes == nullptr) return size;
  const double largest = *std::max_element(p.slopes, p.slopes + slope_count(p));
  const int64_t far = p.places == nullptr ? s.Tq + s.Tk : p.places[s.Tk - 1];
  return size + largest * static_cast<double>(far);
}

struct Distance {
  double ulps = 0;  // beyond what double-double may be off by
  int64_t numbers = 0;
  int64_t exact = 0;  // correctly rounded

  // `slack`: what double-double may be off by.
  void add(double twin, double truth, double bound, double slack) {
    if (!std::isfinite(truth) || bound == kInfinity) return;
    ++numbers;
    exact += twin == truth;
    const double size = std::fabs(truth);
    const double ulp = std::nextafter(size, kInfinity) - size;
    const double far = (std::fabs(twin - truth) - slack) / ulp;
    // Not <, so that a NaN is far.
    if (!(far <= ulps)) ulps = std::isnan(far) ? kInfinity : far;
  }
};

// A key of weight 0 adds nothing, however uncertain its score.
void compare_row(const Problem& p, int64_t row, const OracleOutput& twin,
                 const OracleOutput& truth, const Bound& bound, Distance& all) {
  const Shape& s = p.shape;
  const int64_t kv = row / (s.group() * s.Tq);
  double size = 1 + std::fabs(truth.lse[row]);
  if (p.sink != nullptr) size += std::fabs(p.sink[row / s.Tq % s.H]);
  std::vector<double> v_max(s.dv);
  for (int64_t j = 0; j < s.Tk; ++j) {
    const int64_t pair = row * s.Tk + j;
    if (truth.sees[pair] == 0) continue;
    if (truth.weights[pair] > 0) size = std::max(size, score_size(p, row, j));
    for (int64_t t = 0; t < s.dv; ++t) {
      const double v = p.v[(kv * s.Tk + j) * s.dv + t];
      v_max[t] = std::max(v_max[t], std::fabs(v));
    }
  }
  const double relative = kTwinU * size;
  for (int64_t t = 0; t < s.dv; ++t) {
    const int64_t n = row * s.dv + t;
    all.add(twin.o[n], truth.o[n], bound.o[n],
            relative * v_max[t] + kTwinFloor);
  }
  all.add(twin.lse[row], truth.lse[row], bound.lse[row], relative);
  for (int64_t n = row * s.Tk; n < (row + 1) * s.Tk; ++n) {
    all.add(twin.weights[n], truth.weights[n], bound.weights[n],
            relative * truth.weights[n] + kTwinFloor);
  }
}

void compare_twin(const Problem& p, const OracleOutput& twin,
                  const OracleOutput& truth, Distance& all) {
  if (twin.visible != truth.visible || twin.sees != truth.sees) {
    all.ulps = kInfinity;
    return;
  }
  const Bound bound = bound_of(p, truth, double_precision(), true);
  for (int64_t row = 0; row < p.shape.lse_elements(); ++row) {
    const bool judged = truth.visible[row] > 0 && bound.lse[row] < kInfinity;
    if (judged) compare_row(p, row, twin, truth, bound, all);
  }
}

// If the exact number is halfway between two doubles except for a rest that 104
// bits do not hold, either of them is right: one ulp.
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
    TestProblem p = problem_of_all(random, i);
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
    TestProblem p = problem_of_all(random, i);
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

// ALiBi between keys with gaps.
TEST(MpfrTest, PlacesWithGapsAreTheSame) {
  TestRandom random(94);
  for (int i = 0; i < 2 * kRegimeCount; ++i) {
    Shape shape = random_shape(random, 8);
    shape.B = 1;
    shape.Tq = std::min(shape.Tq, shape.Tk);
    TestProblem p =
        random_problem(random, static_cast<Regime>(i % kRegimeCount), shape);
    p.problem.causal = Causal::kBottomRight;
    for (int64_t h = 0; h < shape.H; ++h)
      p.slopes.push_back(std::fabs(random.normal()));
    std::vector<int64_t> places;
    for (int64_t j = 0; j < shape.Tk; ++j) places.push_back(j + j / 2 * 3);
    p.problem.places = places.data();
    const OracleOutput truth = mpfr_forward(p.get());
    EXPECT_TRUE(plain_passes(p.get(), plain_forward(p.get()), truth)) << i;
    EXPECT_TRUE(twin_passes(p.get(), twin_forward(p.get()), truth)) << i;
  }
}

// A twin that is no better than double agrees with the definition; only
// something finer than both shows the difference.
struct ExpOfDouble : TwinHooks {
  static DoubleDouble exponential(DoubleDouble x) { return std::exp(x.hi); }
};

TEST(MpfrTest, SeesATwinThatIsNoBetterThanDouble) {
  TestRandom random(92);
  int seen = 0;
  int by_plain = 0;
  for (int i = 0; i < 2 * kRegimeCount; ++i) {
    TestProblem p = problem_of_all(random, i);
    const OracleOutput faulty = twin_forward_with<ExpOfDouble>(p.get());
    seen += !twin_passes(p.get(), faulty, mpfr_forward(p.get()));
    const OracleOutput plain = plain_forward(p.get());
    by_plain += !(reference_ratio(p.get(), plain, faulty) <= 1);
  }
  EXPECT_GT(seen, 0);
  EXPECT_LT(by_plain, seen);
}

// 2^-44 of the small weights.
struct ExpSlightlyOff : PlainHooks {
  static double exponential(double x) {
    return std::exp(x) * (x < -1 ? 1 + 0x1p-44 : 1);
  }
};

TEST(MpfrTest, SeesAPlainExponentialThatIsSlightlyOff) {
  TestRandom random(93);
  int seen = 0;
  for (int i = 0; i < 2 * kRegimeCount; ++i) {
    TestProblem p = problem_of_all(random, i);
    seen += !plain_passes(p.get(), plain_forward_with<ExpSlightlyOff>(p.get()),
                          mpfr_forward(p.get()));
  }
  EXPECT_GT(seen, 0);
}

}  // namespace
}  // namespace qkvet::reference::mpfr_test
