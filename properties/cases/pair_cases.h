// SPDX-License-Identifier: Apache-2.0
// Cases for pairs and triples of settings that the cases of a plan did not
// have. First the pairs that a kernel can meet at all, under its declaration
// and the laws; then few cases that have many of the missing ones.
#ifndef QKVET_PROPERTIES_CASES_PAIR_CASES_H_
#define QKVET_PROPERTIES_CASES_PAIR_CASES_H_

#include <optional>
#include <span>
#include <vector>

#include "core/capability/kernel_info.h"
#include "properties/cases/draw.h"
#include "properties/cases/pair_settings.h"
#include "properties/cases/scope.h"
#include "properties/judging/law.h"

namespace qkvet::properties {

// Whether cases of the scope may have it.
bool may_have(const Scope& scope, const SettingRow& row);

// A case of the law, drawn to have these settings, if law and declaration allow
// them. Its calls show whether it has them. `wanted`: numbers of
// setting_rows(), one of a kind.
std::optional<Case> draw_with(Draw& draw, const Law& law, const Scope& scope,
                              std::vector<size_t> wanted);

struct PairCase {
  const Law* law = nullptr;
  Case value;
  // For each kernel, whether it gets the case: its declaration allows all of
  // the calls.
  std::vector<bool> kernels;
};

// The cost of a case, in approximate products of two numbers: the work of its
// scores, and a constant for every case.
int64_t cost_of(const Case& value);

struct PairCases {
  std::vector<PairCase> cases;
  // For each kernel: pairs that some case of the laws has, these and others, as
  // far as the draws of the plan found; empty if there are too many kinds.
  std::vector<PairTable> can;
};

struct PairPlan {
  std::vector<const Law*> laws;  // of attention
  uint64_t seed = 1;
  const Scope& scope;
  std::vector<const KernelInfo*> kernels;
  std::vector<PairTable> met;  // of each kernel, by the cases before
  int64_t most_cases = 0;
  int64_t most_cost = 0;
};

// Whether the kernel gets the law of the case, and declares all of its calls.
bool is_asked(const Law& law, const Case& value, const KernelInfo& kernel);

// A pure function of the plan. Empty for kernels with too many different
// declarations: it would take longer than their plan.
PairCases cases_for_pairs(const PairPlan& plan);

// Cases for triples that no case of the plan and no case for pairs had. There
// are too many for all of them: triples of options come first, and another seed
// tries others. A pure function of the plan, in which all pairs that can be met
// have been met, and of the triples that each kernel has met.
std::vector<PairCase> cases_for_triples(const PairPlan& plan,
                                        const std::vector<TripleSet>& met);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CASES_PAIR_CASES_H_
