// SPDX-License-Identifier: Apache-2.0
// What the tests that run kernels against their bound share.
#ifndef QKVET_REFERENCE_TESTING_TEST_RATIOS_H_
#define QKVET_REFERENCE_TESTING_TEST_RATIOS_H_

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/base/half.h"
#include "reference/agreement/agreement.h"
#include "reference/testing/test_controls.h"

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

}  // namespace qkvet::reference

#endif  // QKVET_REFERENCE_TESTING_TEST_RATIOS_H_
