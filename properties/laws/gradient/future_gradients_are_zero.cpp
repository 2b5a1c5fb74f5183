// SPDX-License-Identifier: Apache-2.0
// One key is chosen that some rows see and others do not. dO is zero in the
// rows that see it: then neither the key nor q of those rows has a gradient.
#include "properties/calls/gradient_calls.h"
#include "properties/conventions/constrain.h"
#include "properties/judging/visibility.h"

namespace qkvet::properties {
namespace of_future_gradients_are_zero {

// Whether some row that counts does not see key j: something could leak there.
bool hidden_somewhere(const Case& value, const Visibility& visibility,
                      int64_t j) {
  const Shape& s = value.shape;
  for (int64_t b = 0; b < s.B; ++b)
    for (int64_t i = 0; i < s.Tq && j < counted_keys(value, b); ++i)
      for (int64_t h = 0; h < s.H; ++h)
        if (visibility.counted(b, i) && !visibility.sees(b, h, i, j))
          return true;
  return false;
}

// The first such key from a random one on; -1: there is none.
int64_t chosen_key(const Case& value, const Visibility& visibility) {
  const int64_t Tk = value.shape.Tk;
  const int64_t first = pick_by_seed(value.seed, Tk);
  for (int64_t n = 0; n < Tk; ++n)
    if (hidden_somewhere(value, visibility, (first + n) % Tk))
      return (first + n) % Tk;
  return -1;
}

void silence_rows(const Case& value, int64_t, Inputs& inputs) {
  const Shape& s = value.shape;
  const Visibility visibility(value, inputs);
  const int64_t key = chosen_key(value, visibility);
  for (int64_t b = 0; b < s.B; ++b)
    for (int64_t h = 0; h < s.H; ++h)
      for (int64_t i = 0; i < s.Tq; ++i)
        if (visibility.counted(b, i) && visibility.sees(b, h, i, key))
          std::fill_n(inputs.d_o.begin() + ((b * s.H + h) * s.Tq + i) * s.dv,
                      s.dv, 0.0);
}

Case constrain(Case value) {
  return with_masked_key(with_moderate_data(std::move(value)));
}

Plan plan(const Case& value, const KernelInfo&) {
  Plan plan;
  if (chosen_key(value, Visibility(value)) < 0) {
    plan.not_applicable = "every row sees every key";
    return plan;
  }
  plan.calls.push_back(backward_call(/*truth=*/false, silence_rows));
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const Visibility& visibility = *input.visibility;
  const int64_t key = chosen_key(input.value, visibility);
  const auto must_be_zero = [&](const Element& at) {
    if (!counts(input, at)) return false;
    const bool of_keys =
        at.tensor == TensorName::kDK || at.tensor == TensorName::kDV;
    if (of_keys) return at.i == key;
    return visibility.counted(at.b, at.i) &&
           visibility.sees(at.b, at.h, at.i, key);
  };
  compare_with_zero(
      input, input.calls[0],
      {TensorName::kDQ, TensorName::kDK, TensorName::kDV, TensorName::kDBias},
      must_be_zero,
      "dO is zero in every row that sees this key: what flows here comes from "
      "a row that must not see it, or from another row's dO",
      judgement);
  return judgement;
}

}  // namespace of_future_gradients_are_zero

extern constinit const Law future_gradients_are_zero{
    "future_gradients_are_zero",
    "No gradient flows into the future: rows that must not see a key add "
    "nothing to it.",
    "dO[i] = 0 wherever row i sees key j => dk[j] = 0, dv[j] = 0, dq[i] = 0",
    "causal, with a key that some row must not see; data of moderate size",
    "Only rows that see key j have terms with it, and every term of a row has "
    "dO of that row as a factor.",
    "0 times anything finite is 0, and sums of zeros are zero in any order.",
    "(a) it is exact, (d) it needs no oracle",
    20,
    Domain{.subject = Subject::kBackward,
           .causal = true,
           .free_data = false,
           .allows = kAllowGradients},
    of_future_gradients_are_zero::constrain,
    of_future_gradients_are_zero::plan,
    of_future_gradients_are_zero::judge};

}  // namespace qkvet::properties
