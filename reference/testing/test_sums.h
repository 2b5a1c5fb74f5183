// SPDX-License-Identifier: Apache-2.0
// Sums and dot products of the test kernels of projections and gradients, in
// any of their orders. Contraction is off in the whole project: std::fma alone
// rounds once.
#ifndef QKVET_REFERENCE_TESTING_TEST_SUMS_H_
#define QKVET_REFERENCE_TESTING_TEST_SUMS_H_

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/base/half.h"
#include "reference/testing/test_problems.h"

namespace qkvet::reference {

// In which order any sum is taken.
enum class TestOrder : uint8_t {
  kAscending,
  kDescending,
  kHalves,  // recursively
  kLanes,   // eight of them
  kAtomic,  // pieces of three, added in another order
  kRandom   // a random binary tree over all terms
};

template <class Real>
class TestSums {
 public:
  using Reals = std::vector<Real>;
  // Products are fused in kAscending and kLanes. Partial sums are rounded to
  // `stored`, unless that is f32.
  TestSums(TestOrder order, bool fma, bool ftz, Dtype stored = Dtype::kF32,
           uint64_t seed = 0)
      : order_(order), fma_(fma), ftz_(ftz), stored_(stored), random_(seed) {}
  Real flush(Real x) const {
    const bool small = std::fabs(x) < std::numeric_limits<Real>::min();
    return ftz_ && small ? Real(0) : x;
  }
  Real sum(Reals terms);
  // start + sum x y + end.
  Real dot(const Reals& x, const Reals& y, Real start = 0, Real end = 0);

 private:
  Real kept(Real x) const {
    if (stored_ != Dtype::kF32) x = static_cast<Real>(round_to(stored_, x));
    return flush(x);
  }
  // sum + x y.
  Real added(Real sum, Real x, Real y) const {
    return kept(fma_ ? std::fma(x, y, sum) : sum + kept(x * y));
  }
  Real in_order(const Reals& terms) const {
    Real total = 0;
    for (const Real x : terms) total = kept(total + x);
    return total;
  }
  Real halves(const Real* x, int64_t n) const;
  Real atomic(const Reals& x) const;
  Real random_tree(Reals terms);

  TestOrder order_;
  bool fma_;
  bool ftz_;
  Dtype stored_;
  TestRandom random_;
};

template <class Real>
Real TestSums<Real>::halves(const Real* x, int64_t n) const {
  if (n == 0) return 0;
  if (n == 1) return x[0];
  const int64_t half = n / 2;
  return kept(halves(x, half) + halves(x + half, n - half));
}

template <class Real>
Real TestSums<Real>::atomic(const Reals& x) const {
  constexpr size_t kPiece = 3;
  Reals pieces;
  for (size_t i = 0; i < x.size(); ++i) {
    if (i % kPiece == 0) pieces.push_back(0);
    pieces.back() = kept(pieces.back() + x[i]);
  }
  // Odd ones first, from the end.
  Reals turned;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const size_t from_end = pieces.size() - 1 - i;
    if (from_end % 2 != 0) turned.push_back(pieces[from_end]);
  }
  for (size_t i = 0; i < pieces.size(); i += 2) turned.push_back(pieces[i]);
  return in_order(turned);
}

template <class Real>
Real TestSums<Real>::random_tree(Reals terms) {
  if (terms.empty()) return 0;
  while (terms.size() > 1) {
    const auto n = static_cast<int64_t>(terms.size());
    std::swap(terms[random_.below(n)], terms.back());
    const Real last = terms.back();
    terms.pop_back();
    Real& other = terms[random_.below(n - 1)];
    other = kept(other + last);
  }
  return terms[0];
}

template <class Real>
Real TestSums<Real>::sum(Reals terms) {
  switch (order_) {
    case TestOrder::kHalves:
      return halves(terms.data(), std::ssize(terms));
    case TestOrder::kLanes:
      return dot(terms, Reals(terms.size(), 1));
    case TestOrder::kAtomic:
      return atomic(terms);
    case TestOrder::kRandom:
      return random_tree(std::move(terms));
    case TestOrder::kDescending:
      std::reverse(terms.begin(), terms.end());
      break;
    case TestOrder::kAscending:
      break;
  }
  return in_order(terms);
}

template <class Real>
Real TestSums<Real>::dot(const Reals& x, const Reals& y, Real start, Real end) {
  const bool in_lanes = order_ == TestOrder::kLanes;
  if (in_lanes || (fma_ && order_ == TestOrder::kAscending)) {
    const size_t lanes = in_lanes ? 8 : 1;
    Reals lane(lanes);
    lane[0] = start;
    for (size_t i = 0; i < x.size(); ++i)
      lane[i % lanes] = added(lane[i % lanes], x[i], y[i]);
    const Real total = halves(lane.data(), std::ssize(lane));
    return end != 0 ? kept(total + end) : total;
  }
  Reals terms;
  if (start != 0) terms.push_back(start);
  for (size_t i = 0; i < x.size(); ++i) terms.push_back(kept(x[i] * y[i]));
  if (end != 0) terms.push_back(end);
  return sum(std::move(terms));
}

}  // namespace qkvet::reference

#endif  // QKVET_REFERENCE_TESTING_TEST_SUMS_H_
