// SPDX-License-Identifier: Apache-2.0
#include "properties/judging/twin_check.h"

#include "reference/agreement/agreement.h"

namespace qkvet::properties {

namespace {

std::string disagreement(double ratio) {
  if (ratio <= 1) return "";
  return "oracle and twin are " + std::to_string(ratio) +
         " times farther apart than double allows: a defect of QKVet, please "
         "report";
}

}  // namespace

std::string twin_disagreement(const Problem& problem,
                              const OracleOutput& oracle,
                              const OracleOutput& twin) {
  return disagreement(reference_ratio(problem, oracle, twin));
}

std::string twin_disagreement(const GradientProblem& problem,
                              const GradientOutput& plain,
                              const GradientOutput& twin) {
  return disagreement(gradient_ratio(problem, plain, twin));
}

std::string twin_disagreement(const LayerProblem& problem,
                              const LayerOutput& plain,
                              const LayerOutput& twin) {
  return disagreement(layer_ratio(problem, plain, twin));
}

}  // namespace qkvet::properties
