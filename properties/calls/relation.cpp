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

template <class Pair>
Pair pair_of(const Relation& relation, size_t call) {
  Pair pair;
  pair.second = call;
  pair.first_name = relation.first;
  pair.second_name = relation.second;
  pair.looks = relation.looks;
  return pair;
}

void compare_gradients(const JudgeInput& input, const Relation& relation,
                       size_t call, Judgement& judgement) {
  auto pair = pair_of<GradientPair>(relation, call);
  if (relation.gradient_pair) relation.gradient_pair(input, pair);
  if (is_bitwise(relation, input.value, input.kernel))
    compare_gradients_bit_for_bit(input, pair, judgement);
  else
    compare_gradients_within_bounds(input, pair, judgement);
}

void compare_outputs(const JudgeInput& input, const Relation& relation,
                     size_t call, Judgement& judgement) {
  auto pair = pair_of<CallPair>(relation, call);
  if (relation.pair) relation.pair(input, pair);
  if (!pair.second_text.empty()) pair.second_name = pair.second_text.c_str();
  const bool bitwise = is_bitwise(relation, input.value, input.kernel);
  const auto compare = bitwise              ? compare_bit_for_bit
                       : relation.same_rows ? compare_within_first_bound
                                            : compare_within_bounds;
  compare(input, pair, judgement, relation.weights ? kAllOutputs : kOAndLse);
}

}  // namespace

Plan Law::plan(const Case& value, const KernelInfo& kernel) const {
  return own_plan ? own_plan(value, kernel)
                  : plan_relation(relation, value, kernel);
}

Judgement Law::judge(const JudgeInput& input) const {
  if (own_judge) return own_judge(input);
  Judgement judgement;
  const bool gradients = input.value.subject() == Subject::kBackward;
  const auto compare = gradients ? compare_gradients : compare_outputs;
  for (size_t call = 1; call < input.calls.size(); ++call)
    compare(input, relation, call, judgement);
  return judgement;
}

}  // namespace qkvet::properties
