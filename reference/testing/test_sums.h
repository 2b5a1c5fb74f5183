// SPDX-License-Identifier: Apache-2.0
// Sums and dot products of the test gradients, in any of their orders.
// Contraction is off in the whole project: std::fma alone rounds once.
#ifndef QKVET_REFERENCE_TESTING_TEST_SUMS_H_
#define QKVET_REFERENCE_TESTING_TEST_SUMS_H_

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "reference/testing/test_backward.h"

namespace qkvet::reference {

template <class Real>
class TestSums {
 public:
  using Reals = std::vector<Real>;
  explicit TestSums(const BackwardKernel& kernel)
      : order_(kernel.order), fma_(kernel.fma), ftz_(kernel.ftz) {}
  Real flush(Real x) const {
    const bool small = std::fabs(x) < std::numeric_limits<Real>::min();
    return ftz_ && small ? Real(0) : x;
  }
  Real sum(Reals terms) const;
  // start + sum x y.
  Real dot(const Reals& x, const Reals& y, Real start = 0) const;

 private:
  Real halves(const Real* x, int64_t n) const;
  Real lanes(const Reals& x) const;
  Real atomic(const Reals& x) const;
  BackwardOrder order_;
  bool fma_;
  bool ftz_;
};

template <class Real>
Real TestSums<Real>::halves(const Real* x, int64_t n) const {
  if (n == 0) return 0;
  if (n == 1) return x[0];
  const int64_t half = n / 2;
  return flush(halves(x, half) + halves(x + half, n - half));
}

template <class Real>
Real TestSums<Real>::lanes(const Reals& x) const {
  constexpr size_t kLanes = 8;
  Reals lane(kLanes);
  for (size_t i = 0; i < x.size(); ++i) {
    lane[i % kLanes] = flush(lane[i % kLanes] + x[i]);
  }
  return halves(lane.data(), kLanes);
}

template <class Real>
Real TestSums<Real>::atomic(const Reals& x) const {
  constexpr size_t kPiece = 3;
  Reals pieces;
  for (size_t i = 0; i < x.size(); ++i) {
    if (i % kPiece == 0) pieces.push_back(0);
    pieces.back() = flush(pieces.back() + x[i]);
  }
  Real total = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    // Odd ones first, from the end.
    const size_t from_end = pieces.size() - 1 - i;
    if (from_end % 2 != 0) total = flush(total + pieces[from_end]);
  }
  for (size_t i = 0; i < pieces.size(); i += 2) {
    total = flush(total + pieces[i]);
  }
  return total;
}

template <class Real>
Real TestSums<Real>::sum(Reals terms) const {
  switch (order_) {
    case BackwardOrder::kHalves:
      return halves(terms.data(), static_cast<int64_t>(terms.size()));
    case BackwardOrder::kLanes:
      return lanes(terms);
    case BackwardOrder::kAtomic:
      return atomic(terms);
    case BackwardOrder::kDescending:
      std::reverse(terms.begin(), terms.end());
      break;
    case BackwardOrder::kAscending:
      break;
  }
  Real total = 0;
  for (const Real x : terms) total = flush(total + x);
  return total;
}

template <class Real>
Real TestSums<Real>::dot(const Reals& x, const Reals& y, Real start) const {
  if (fma_ && order_ == BackwardOrder::kAscending) {
    Real total = start;
    for (size_t i = 0; i < x.size(); ++i) {
      total = flush(std::fma(x[i], y[i], total));
    }
    return total;
  }
  Reals terms;
  if (start != 0) terms.push_back(start);
  for (size_t i = 0; i < x.size(); ++i) terms.push_back(flush(x[i] * y[i]));
  return sum(terms);
}

}  // namespace qkvet::reference

#endif  // QKVET_REFERENCE_TESTING_TEST_SUMS_H_
