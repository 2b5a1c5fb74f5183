// SPDX-License-Identifier: Apache-2.0
// One projection of a layer, y = x W + b: the definition (plain_linear, in
// double), a twin that shares no function with it (double-double, another
// order), and how far a correct kernel may be from either. Derivation:
// bounds.md, "A linear stage".
#ifndef QKVET_REFERENCE_ARITHMETIC_LINEAR_H_
#define QKVET_REFERENCE_ARITHMETIC_LINEAR_H_

#include <cstdint>
#include <vector>

#include "core/base/floors.h"
#include "reference/arithmetic/precision.h"

namespace qkvet::reference {

// Every input exact in double, contiguous, row-major.
struct LinearProblem {
  int64_t rows = 0;
  int64_t in = 0;
  int64_t out = 0;
  const double* x = nullptr;     // [rows,in]
  const double* w = nullptr;     // [in,out]
  const double* bias = nullptr;  // [out], or null
};

std::vector<double> plain_linear(const LinearProblem& problem);  // [rows,out]
std::vector<double> twin_linear(const LinearProblem& problem);   // [rows,out]

struct LinearBound {
  // [rows,out]: before the rounding to the output format; a value y is accepted
  // iff RN(o - bound) <= y <= RN(o + bound). 0 where every order of additions
  // is exact, +infinity where an infinity is legitimate.
  std::vector<double> bound;
  // [rows,out]: sum_i |x_i w_ij| + |b_j|, what lost terms could change. An
  // element is vacuous if the bound is at least half of it, and uninformative
  // if it is 0.
  std::vector<double> reach;
};

// `oracle` is the output of either reference. `x_error` [rows,in], if given, is
// the largest difference of the kernel's x from the problem's.
LinearBound linear_bound(const LinearProblem& problem,
                         const std::vector<double>& oracle,
                         const PrecisionModel& model,
                         const double* x_error = nullptr);

}  // namespace qkvet::reference

#endif  // QKVET_REFERENCE_ARITHMETIC_LINEAR_H_
