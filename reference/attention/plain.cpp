// SPDX-License-Identifier: Apache-2.0
// The oracle: the definition of plain.h with nothing replaced. Compiled without
// contraction and without fast-math, so that it is the same double arithmetic
// everywhere.
#include "reference/attention/plain.h"

namespace qkvet::reference {

double default_scale(int64_t d) {
  return 1.0 / std::sqrt(static_cast<double>(d));
}

int64_t slope_count(const Problem& problem) {
  const Shape& s = problem.shape;
  const int64_t members = problem.cu_q != nullptr ? problem.members : s.B;
  return s.H * (problem.member_slopes ? members : 1);
}

double slope_of(const Problem& problem, int64_t b, int64_t h, int64_t i) {
  return PlainHooks::slope(problem, PlainHooks::place(problem, b, h, i));
}

Problem make_problem(const Shape& shape, Causal causal,
                     std::optional<float> scale, const double* q,
                     const double* k, const double* v) {
  Problem problem;
  problem.shape = shape;
  problem.causal = causal;
  problem.scale = scale ? static_cast<double>(*scale) : default_scale(shape.d);
  problem.scale_given = scale.has_value();
  problem.q = q;
  problem.k = k;
  problem.v = v;
  return problem;
}

OracleOutput plain_forward(const Problem& problem) {
  return plain_forward_with<PlainHooks>(problem);
}

}  // namespace qkvet::reference
