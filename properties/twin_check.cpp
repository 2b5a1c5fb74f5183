// SPDX-License-Identifier: Apache-2.0
#include "properties/twin_check.h"

#include "reference/agreement.h"

namespace qkvet {

std::string twin_disagreement(const Problem& problem,
                              const OracleOutput& oracle) {
  const double ratio = reference_ratio(problem, oracle, twin_forward(problem));
  if (ratio <= 1) return "";
  return "oracle and twin are " + std::to_string(ratio) +
         " times farther apart than double allows: a defect of QKVet, please "
         "report";
}

}  // namespace qkvet
