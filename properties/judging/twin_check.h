// SPDX-License-Identifier: Apache-2.0
// The reference on trial: the oracle against its twin.
#ifndef QKVET_PROPERTIES_JUDGING_TWIN_CHECK_H_
#define QKVET_PROPERTIES_JUDGING_TWIN_CHECK_H_

#include <string>

#include "reference/arithmetic/oracle.h"
#include "reference/gradient/gradient.h"
#include "reference/layer/layer.h"

namespace qkvet::properties {

// "" or one line that says that the oracle is farther from its twin than the
// bound of double arithmetic allows.
std::string twin_disagreement(const Problem& problem,
                              const OracleOutput& oracle,
                              const OracleOutput& twin);

// The same for gradients.
std::string twin_disagreement(const GradientProblem& problem,
                              const GradientOutput& plain,
                              const GradientOutput& twin);

// The same for a layer, over all of its stages.
std::string twin_disagreement(const LayerProblem& problem);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_JUDGING_TWIN_CHECK_H_
