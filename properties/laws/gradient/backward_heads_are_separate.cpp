// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/call_pairs.h"
#include "properties/calls/gradient_calls.h"
#include "properties/calls/other_data.h"
#include "properties/conventions/constrain.h"

namespace qkvet::properties {
namespace of_backward_heads_are_separate {

struct Kept {
  int64_t member, head;  // a key/value head
};

Kept kept_one(const Case& value) {
  const Shape& s = value.shape;
  return {pick_by_seed(value.seed / 7, std::max<int64_t>(s.B, 1)),
          pick_by_seed(value.seed, s.Hkv)};
}

void other_data(const Case& value, int64_t, Inputs& inputs) {
  const Kept kept = kept_one(value);
  put_other_data(
      value,
      [&](int64_t b, int64_t h) { return b != kept.member || h != kept.head; },
      inputs);
}

// Two members, or two heads.
Case constrain(Case value) {
  return value.shape.B > 1 ? value : with_two_kv_heads(std::move(value));
}

Plan plan(const Case&, const KernelInfo& kernel) {
  Plan plan;
  const bool truth = !claims_same_bits(kernel, QKVET_FLAG_OTHER_DATA_INVARIANT);
  plan.calls = {backward_call(truth), backward_call(truth, other_data)};
  return plan;
}

// A sink belongs to all members.
Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const Kept kept = kept_one(input.value);
  CallPair pair;
  pair.first_name = "before";
  pair.second_name = "after the others changed";
  pair.map = [&](const Element& at) -> std::optional<Element> {
    const bool of_keys =
        at.tensor == TensorName::kDK || at.tensor == TensorName::kDV;
    const int64_t head = of_keys ? at.h : at.h / input.value.shape.group();
    if (at.b != kept.member || head != kept.head) return std::nullopt;
    if (at.tensor == TensorName::kDSink && input.value.shape.B > 1)
      return std::nullopt;
    return at;
  };
  pair.looks = "data of another head or member reaches this one";
  compare_as_claimed(input, pair, QKVET_FLAG_OTHER_DATA_INVARIANT, judgement);
  return judgement;
}

}  // namespace of_backward_heads_are_separate

extern constinit const Law backward_heads_are_separate{
    "backward_heads_are_separate",
    "Other heads and batch mates change no gradient: other data in all of them "
    "leaves those of a key/value head and its queries as they are.",
    "(dq, dk, dv)[b, h] = f(q, k, v, o, lse, dO)[b, h]",
    "two members or two key/value heads",
    "Data of other heads and members does not occur in the formula.",
    "Bit for bit where the kernel declares other_data_invariant; else each "
    "side within its own bound.",
    "(a) it is bitwise where that is claimed, (d) it needs no oracle",
    30,
    Domain{.subject = Subject::kBackward, .allows = kAllowGradients},
    of_backward_heads_are_separate::constrain,
    of_backward_heads_are_separate::plan,
    of_backward_heads_are_separate::judge};

}  // namespace qkvet::properties
