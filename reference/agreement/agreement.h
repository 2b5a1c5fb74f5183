// SPDX-License-Identifier: Apache-2.0
// The reference on trial: whether the oracle and its twin agree.
//
// plain_forward is itself a kernel of declared arithmetic: double, sequential
// sums, exp within 1 ulp (what glibc documents), weights divided one by one. So
// the distance that it may have from the twin is the bound evaluated for that
// model, with the facts taken from the twin. Nothing is tuned: the same
// formulas judge f32 kernels, with u = 2^-24 for 2^-53.
#ifndef QKVET_REFERENCE_AGREEMENT_AGREEMENT_H_
#define QKVET_REFERENCE_AGREEMENT_AGREEMENT_H_

#include <vector>

#include "core/base/floors.h"
#include "reference/arithmetic/linear.h"
#include "reference/arithmetic/oracle.h"
#include "reference/bound/bound.h"
#include "reference/gradient/gradient.h"
#include "reference/layer/layer.h"

namespace qkvet::reference {

// The arithmetic of plain_forward.
PrecisionModel double_precision();

// max |got - want| / bound; +infinity for a NaN, an infinity that is not there,
// or any error where the bound is 0. Unjudged elements count as 0.
double worst_ratio(const std::vector<double>& got,
                   const std::vector<double>& want,
                   const std::vector<double>& bound);

// The largest over all members.
double worst_ratio(const GradientOutput& got, const GradientOutput& want,
                   const GradientBound& bound);

// The worst ratio over o, lse and weights of `plain` against `twin`: the two
// agree if it is at most 1.
double reference_ratio(const Problem& problem, const OracleOutput& plain,
                       const OracleOutput& twin);

// The same for a projection, and over all stages of a layer: each reference
// feeds its own stages, so the end-to-end bound is what they may differ by.
double linear_ratio(const LinearProblem& problem,
                    const std::vector<double>& plain,
                    const std::vector<double>& twin);
double layer_ratio(const LayerProblem& problem, const LayerOutput& plain,
                   const LayerOutput& twin);

// The same for a gradient: plain_backward is given the o and lse that it uses.
// o and lse of `problem` are not read.
double gradient_ratio(const GradientProblem& problem,
                      const GradientOutput& plain, const GradientOutput& twin);

}  // namespace qkvet::reference

#endif  // QKVET_REFERENCE_AGREEMENT_AGREEMENT_H_
