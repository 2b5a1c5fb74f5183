// SPDX-License-Identifier: Apache-2.0
// The calls of a relation (judging/law.h), and their comparison.
#include "properties/calls/gradient_calls.h"
#include "properties/calls/subject_calls.h"

namespace qkvet::properties {
namespace {

uint64_t claim_of(const Relation& relation, const Case& value) {
  if (relation.same_rows) return QKVET_FLAG_OTHER_DATA_INVARIANT;
  return relation.claim |
         (relation.also_claim ? relation.also_claim(value) : 0);
}

// Whether the kernel claims the same bits for both calls.
bool is_bitwise(const Relation& relation, const Case& value,
                const KernelInfo& kernel) {
  const uint64_t claim = claim_of(relation, value);
  return claim != 0 && claims_same_bits(kernel, claim);
}

Plan plan_relation(const Relation& relation, const Case& value,
                   const KernelInfo& kernel) {
  Plan plan;
  PlannedCall call = plain_call(value, kernel);
  call.needs_truth = !is_bitwise(relation, value, kernel);
  call.want_weights = relation.weights && wants_weights(kernel);
  plan.calls = {call, call};
  PlannedCall& second = plan.calls[1];
  second.edit = relation.edit;
  if (relation.same_rows) second.needs_truth = false;
  if (relation.variant) relation.variant(second.variant.emplace(value));
  if (relation.needs != 0 && !kernel.has_option(relation.needs))
    plan.unsupported = relation.missing;
  if (relation.more_plan) relation.more_plan(value, kernel, plan);
  return plan;
}

void compare(const JudgeInput& input, const Relation& relation, size_t call,
             Judgement& judgement) {
  CallPair pair;
  pair.second = call;
  pair.first_name = relation.first;
  pair.second_name = relation.second;
  pair.looks = relation.looks;
  if (relation.pair) relation.pair(input, pair);
  if (!pair.second_text.empty()) pair.second_name = pair.second_text.c_str();
  const bool bitwise = is_bitwise(relation, input.value, input.kernel);
  const auto compare_pair = bitwise              ? compare_bit_for_bit
                            : relation.same_rows ? compare_within_first_bound
                                                 : compare_within_bounds;
  const bool some =
      input.value.subject() == Subject::kAttention && !relation.weights;
  compare_pair(input, pair, judgement, some ? kOAndLse : Outputs{});
}

}  // namespace

Plan Law::plan(const Case& value, const KernelInfo& kernel) const {
  return own_plan ? own_plan(value, kernel)
                  : plan_relation(relation, value, kernel);
}

Judgement Law::judge(const JudgeInput& input) const {
  if (own_judge) return own_judge(input);
  Judgement judgement;
  for (size_t call = 1; call < input.calls.size(); ++call)
    compare(input, relation, call, judgement);
  return judgement;
}

}  // namespace qkvet::properties
