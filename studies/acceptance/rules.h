// SPDX-License-Identifier: Apache-2.0
// The acceptance rules of published suites, each with the data, storage type
// and widths of its suite; and that of the bound.
#ifndef QKVET_STUDIES_ACCEPTANCE_RULES_H_
#define QKVET_STUDIES_ACCEPTANCE_RULES_H_

#include <span>
#include <vector>

#include "reference/arithmetic/precision.h"
#include "reference/bound/bound.h"
#include "studies/acceptance/acceptance.h"

namespace qkvet::studies {

// The inputs of a rule besides the output. Framework and magnitude are computed
// for the first rule that reads them.
class Evidence {
 public:
  // Both outlive this.
  Evidence(const CallData& call, const OracleOutput& oracle);
  const CallData& call;
  std::vector<double> expected;  // o of the oracle, rounded to storage
  const std::vector<double>& framework() const;  // framework_run()
  const std::vector<double>& magnitude() const;  // sum_j p_j |v_j|

 private:
  const OracleOutput& oracle_;
  mutable std::vector<double> framework_, magnitude_;
};

struct Rule {
  const char* name;
  const char* source;  // repository, snapshot, file
  const char* text;    // the rule
  Setting setting;
  bool (*accepts)(const Evidence& evidence, const std::vector<double>& o);
};

std::span<const Rule> rules();
const Rule& rule_named(const char* name);

// The truth and the derived bound of one call.
class Truth {
 public:
  Truth(const CallData& call, const PrecisionModel& model);
  // Whether every element is within the bound; with lse: every lse, too.
  bool accepts(const Output& output, bool with_lse) const;
  const OracleOutput& oracle() const { return oracle_; }

 private:
  Dtype dtype_;
  OracleOutput oracle_;
  Bound bound_;
};

// The model that the kernel of acceptance.h declares: flash_half for half
// storage, cpu_f32 for f32.
PrecisionModel declared_model(Dtype dtype);

}  // namespace qkvet::studies

#endif  // QKVET_STUDIES_ACCEPTANCE_RULES_H_
