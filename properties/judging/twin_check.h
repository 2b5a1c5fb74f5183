// SPDX-License-Identifier: Apache-2.0
// Tests of the reference: the definitions compared with their twins.
#ifndef QKVET_PROPERTIES_JUDGING_TWIN_CHECK_H_
#define QKVET_PROPERTIES_JUDGING_TWIN_CHECK_H_

#include <string>

#include "reference/arithmetic/oracle.h"
#include "reference/gradient/gradient.h"
#include "reference/layer/layer.h"

namespace qkvet::properties {

// The definitions that a case is judged by. A test puts a wrong one here.
struct References {
  using Forward = OracleOutput (*)(const Problem&);

  References(Forward oracle = plain_forward) : forward(oracle) {}

  Forward forward;
  GradientOutput (*backward)(const GradientProblem&) = plain_backward;
  LayerOutput (*layer)(const LayerProblem&) = plain_layer;
};

// "", or one line if the oracle is farther from its twin than the bound of
// double arithmetic allows.
std::string twin_disagreement(const Problem& problem,
                              const OracleOutput& oracle,
                              const OracleOutput& twin);

// The same for gradients.
std::string twin_disagreement(const GradientProblem& problem,
                              const GradientOutput& plain,
                              const GradientOutput& twin);

// The same for a layer, over all of its stages.
std::string twin_disagreement(const LayerProblem& problem,
                              const LayerOutput& plain,
                              const LayerOutput& twin);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_JUDGING_TWIN_CHECK_H_
