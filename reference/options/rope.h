// SPDX-License-Identifier: Apache-2.0
// A call with a rotation of q and k, as the same call without one on inputs
// that are rotated beforehand, and its gradient, as that of this call turned
// back. Derivation: bounds.md, "Rotations".
#ifndef QKVET_REFERENCE_OPTIONS_ROPE_H_
#define QKVET_REFERENCE_OPTIONS_ROPE_H_

#include <vector>

#include "reference/arithmetic/oracle.h"
#include "reference/arithmetic/precision.h"
#include "reference/attention/plain_rope.h"
#include "reference/bound/bound.h"
#include "reference/gradient/gradient.h"

namespace qkvet::reference {

// `problem` without its rotation; it points to the rotated `q` and `k`.
struct RotatedProblem {
  std::vector<double> q;  // [B,H,Tq,d], in double
  std::vector<double> k;  // [B,Hkv,Tk,d]
  Problem problem;
};
RotatedProblem rotated(const Problem& problem);

// The largest errors of a kernel's rotated q and k, relative to those of
// rotated(), if it reads q and k that are off by `before`. 1e200 means an
// overflow.
struct RotationErrors {
  std::vector<double> q;
  std::vector<double> k;
};
RotationErrors rotation_errors(const Problem& problem,
                               const PrecisionModel& model,
                               const InputErrors& before = {},
                               TurnWay way = TurnWay::kForth);

// The facts of a problem with a rotation. They depend on the model, and serve
// no other.
BoundFacts rotated_facts(const Problem& problem, const OracleOutput& oracle,
                         const PrecisionModel& model,
                         const InputErrors& before = {});

// Any problem's bound.
Bound bound_of(const Problem& problem, const OracleOutput& oracle,
               const PrecisionModel& model, bool want_weights);

// Any problem's bound of its gradient.
GradientBound gradient_bound_of(const GradientProblem& problem,
                                const OracleOutput& forward,
                                const GradientOutput& truth,
                                const PrecisionModel& model);

}  // namespace qkvet::reference

#endif  // QKVET_REFERENCE_OPTIONS_ROPE_H_
