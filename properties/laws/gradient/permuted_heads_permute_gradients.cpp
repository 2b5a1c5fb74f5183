// SPDX-License-Identifier: Apache-2.0
// Heads and batch members at once, with their data.
#include "properties/calls/call_pairs.h"
#include "properties/calls/gradient_calls.h"
#include "properties/calls/permutations.h"
#include "properties/conventions/constrain.h"

namespace qkvet::properties {
namespace of_permuted_heads_permute_gradients {

// Lengths stay where they are, and so do the members that they belong to; a
// packed batch is one member.
bool members_move(const Case& value) {
  return value.shape.B > 1 && value.q_len.empty() && value.kv_len.empty();
}

void permute_where_owned(const Case& value, Inputs& inputs) {
  const auto [members, heads, rows, columns] =
      tensor_extents(value, TensorName::kBias);
  if (heads > 1)
    permute_heads(value, value.shape.group(), rows * columns, inputs.bias);
  if (members > 1 && members_move(value)) permute_members(value, inputs.bias);
  permute_heads(value, value.shape.group(), 1, inputs.sink);
  permute_heads(value, value.shape.group(), 1, inputs.slopes);
  if (value.member_slopes && members_move(value))
    permute_members(value, inputs.slopes);
}

void permute(const Case& value, int64_t, Inputs& inputs) {
  const Shape& s = value.shape;
  permute_heads(value, s.group(), s.Tq * s.d, inputs.q);
  permute_heads(value, 1, s.Tk * s.d, inputs.k);
  permute_heads(value, 1, s.Tk * s.dv, inputs.v);
  permute_heads(value, s.group(), s.Tq * s.dv, inputs.d_o);
  if (members_move(value))
    for (auto* tensor : {&inputs.q, &inputs.k, &inputs.v, &inputs.d_o})
      permute_members(value, *tensor);
  permute_where_owned(value, inputs);
}

// Bounds are wide for gradients of sums that cancel, and of one weight that is
// nearly 1.
Case constrain(Case value) {
  value = with_moderate_data(std::move(value));
  for (Recipe* recipe : {&value.v, &value.d_o})
    if (recipe->kind == RecipeKind::kCancellingN)
      *recipe = make_recipe(RecipeKind::kNormal);
  if (value.slopes) value.slopes = make_recipe(RecipeKind::kSmall);
  return members_move(value) ? value : with_two_kv_heads(std::move(value));
}

bool claimed(const Case& value, const KernelInfo& kernel) {
  return claims_same_bits(kernel, QKVET_FLAG_HEAD_ORDER_INVARIANT) &&
         (!members_move(value) ||
          claims_same_bits(kernel, QKVET_FLAG_BATCH_INVARIANT));
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  const bool truth = !claimed(value, kernel);
  Plan plan;
  plan.calls = {backward_call(truth), backward_call(truth, permute)};
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const Case& value = input.value;
  const bool bitwise = claimed(value, input.kernel);
  CallPair pair;
  pair.first_name = "heads in order";
  pair.second_name = "heads permuted";
  pair.map = [&](const Element& at) -> std::optional<Element> {
    const bool of_keys =
        at.tensor == TensorName::kDK || at.tensor == TensorName::kDV;
    Element to = at;
    to.h = of_keys ? place_of_kv_head(value, at.h) : place_of_head(value, at.h);
    if (!members_move(value)) return to;
    if (at.tensor != TensorName::kDSink)
      to.b = place_of_member(value, at.b);
    else if (bitwise)
      return std::nullopt;  // a sum over members, in another order
    return to;
  };
  pair.looks = "where a head or member stands decides what its gradient is";
  if (bitwise)
    compare_bit_for_bit(input, pair, judgement);
  else
    compare_within_bounds(input, pair, judgement);
  return judgement;
}

}  // namespace of_permuted_heads_permute_gradients

extern constinit const Law permuted_heads_permute_gradients{
    "permuted_heads_permute_gradients",
    "Heads and batch members permuted together permute the gradients: none is "
    "special.",
    "backward(P q, P k, P v, P dO) = P backward(q, k, v, dO), P over heads and "
    "members",
    "two members or two key/value heads; no mask",
    "Every head of every member is computed by the same formula from its own "
    "data.",
    "Bit for bit where the kernel declares head_order_invariant and, where "
    "members move, batch_invariant; else each side within its own bound.",
    "(d) it needs no oracle: a wrong map from query heads to key/value heads "
    "does not commute with permutations",
    40,
    Domain{.subject = Subject::kBackward,
           .free_data = false,
           .allows = QKVET_OPTION_WINDOW | QKVET_OPTION_LENGTHS |
                     QKVET_OPTION_PACKED | kAllowScores | kOptionLayout},
    of_permuted_heads_permute_gradients::constrain,
    of_permuted_heads_permute_gradients::plan,
    of_permuted_heads_permute_gradients::judge};

}  // namespace qkvet::properties
