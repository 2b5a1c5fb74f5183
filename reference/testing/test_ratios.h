// SPDX-License-Identifier: Apache-2.0
// What the tests that run kernels against their bound share.
#ifndef QKVET_REFERENCE_TESTING_TEST_RATIOS_H_
#define QKVET_REFERENCE_TESTING_TEST_RATIOS_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <vector>

#include "core/base/half.h"
#include "reference/agreement/agreement.h"
#include "reference/testing/test_controls.h"
#include "reference/testing/test_problems.h"

namespace qkvet::reference {

// The largest error in units of the bound.
struct Ratios {
  double o = 0;
  double lse = 0;
  double weights = 0;
  double row_sum = 0;
  // o, in rows of at least four keys with inexact sums.
  double several = 0;
  double worst() const { return std::max({o, lse, weights, row_sum}); }
  // Whether random data comes near the bounds beside that of o as well.
  bool near_beside_o() const {
    return lse > 0.1 && weights > 0.3 && row_sum > 0.05;
  }
  friend std::ostream& operator<<(std::ostream& out, const Ratios& r) {
    return out << "o " << r.o << " lse " << r.lse << " weights " << r.weights
               << " sum " << r.row_sum;
  }
};

inline void keep_larger(Ratios& all, const Ratios& one) {
  all.o = std::max(all.o, one.o);
  all.lse = std::max(all.lse, one.lse);
  all.weights = std::max(all.weights, one.weights);
  all.row_sum = std::max(all.row_sum, one.row_sum);
}

inline Ratios ratios(const OracleOutput& oracle, const Bound& bound,
                     const TestOutput& got, const Shape& shape) {
  Ratios r;
  r.o = worst_ratio(got.o, oracle.o, bound.o);
  r.lse = worst_ratio(got.lse, oracle.lse, bound.lse);
  r.weights = worst_ratio(got.weights, oracle.weights, bound.weights);
  std::vector<double> sums(shape.lse_elements());
  std::vector<double> wanted(shape.lse_elements());
  for (int64_t row = 0; row < shape.lse_elements(); ++row) {
    for (int64_t j = 0; j < shape.Tk; ++j) {
      sums[row] += got.weights[row * shape.Tk + j];
      wanted[row] += oracle.weights[row * shape.Tk + j];
    }
  }
  r.row_sum = worst_ratio(sums, wanted, bound.row_sum);
  std::vector<double> masked = bound.o;
  for (int64_t a = 0; a < shape.o_elements(); ++a) {
    if (oracle.visible[a / shape.dv] < 4) masked[a] = HUGE_VAL;
  }
  r.several = worst_ratio(got.o, oracle.o, masked);
  return r;
}

// Short rows, where the bound bites, and some long ones.
inline int64_t largest_extent(int problem) {
  return problem % 8 == 0 ? 40 : 10;
}

// Makes q, k and v numbers of the type.
inline void store(TestProblem& p, Dtype storage) {
  for (auto* tensor : {&p.q, &p.k, &p.v})
    for (double& x : *tensor) x = round_to(storage, x);
}

inline Bound bound_of(TestProblem& p, const PrecisionModel& model) {
  const BoundFacts facts(p.get(), plain_forward(p.get()));
  return compute_bound(facts, model, /*want_weights=*/true);
}

inline PrecisionModel naive() {
  return declared_precision(control_named("naive"));
}

// The criterion of the judge: is the stored output between the stored ends?
inline bool accepted(const std::vector<double>& truth,
                     const std::vector<double>& bound,
                     const std::vector<double>& got, Dtype storage) {
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(truth[i]) || std::isinf(bound[i])) continue;
    const double y = round_to(storage, got[i]);
    if (!(round_to(storage, truth[i] - bound[i]) <= y &&
          y <= round_to(storage, truth[i] + bound[i])))
      return false;
  }
  return true;
}

// The inputs of a kernel and those of the oracle, which differ by at most dq,
// dk and dv; or not at all, if these are empty.
struct TestTrial {
  TestProblem read;
  TestProblem truth = read;
  std::vector<double> dq = {}, dk = {}, dv = {};

  InputErrors errors() const {
    if (dq.empty()) return {};
    return {dq.data(), dk.data(), dv.data()};
  }
};

// Expects that the kernel stays within the bound of its declaration, and of the
// generic model where that covers it, and comes as near to it as `near`, on
// problems draw(random, regime, shape). Returns how near to the former.
template <class Draw>
Ratios expect_within_and_near(const TestControl& kernel, int problems,
                              double near, Draw draw) {
  const PrecisionModel declared = declared_precision(kernel);
  const PrecisionModel generic =
      for_storage(generic_precision(), kernel.storage, kernel.storage);
  TestRandom random(kernel.name());
  Ratios all, all_generic;
  double several = 0;
  // Coming near the bound needs luck, so the search is extended.
  for (int i = 0; i < problems || (several <= near && i < 4 * problems); ++i) {
    const auto regime = static_cast<Regime>(i % kRegimeCount);
    TestTrial trial =
        draw(random, regime, random_shape(random, largest_extent(i)));
    const Problem& problem = trial.truth.get();
    const OracleOutput oracle = plain_forward(problem);
    const BoundFacts facts(problem, oracle, trial.errors());
    const TestOutput got = run_control(kernel, trial.read.get());
    const Bound bound = compute_bound(facts, declared, true);
    const Ratios own = ratios(oracle, bound, got, problem.shape);
    EXPECT_TRUE(own.worst() <= 1)
        << kernel.name() << ", problem " << i << ": " << own;
    EXPECT_TRUE(accepted(oracle.o, bound.o, got.o, kernel.storage));
    if (within_generic(kernel)) {
      const Ratios loose = ratios(oracle, compute_bound(facts, generic, true),
                                  got, problem.shape);
      EXPECT_TRUE(loose.worst() <= 1)
          << kernel.name() << ", problem " << i << ", generic: " << loose;
      keep_larger(all_generic, loose);
    }
    if (testing::Test::HasFailure()) return all;
    keep_larger(all, own);
    if (regime != Regime::kCount && regime != Regime::kTiny)
      several = std::max(several, own.several);
  }
  EXPECT_GT(several, near) << kernel.name();
  std::printf(
      "%-20s declared o %.3f (4 keys or more %.3f) lse %.3f weights %.3f sum "
      "%.3f | generic o %.3f lse %.3f\n",
      kernel.name().c_str(), all.o, several, all.lse, all.weights, all.row_sum,
      all_generic.o, all_generic.lse);
  return all;
}

// Truncated sums come near their cost if all terms have one sign, which
// block_adder_test checks.
inline bool cut_off_alone(const TestControl& kernel) {
  const PrecisionModel declared = declared_precision(kernel);
  return declared.block_u > 0 && declared.p_u == 0;
}

}  // namespace qkvet::reference

#endif  // QKVET_REFERENCE_TESTING_TEST_RATIOS_H_
