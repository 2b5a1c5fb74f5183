// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "properties/call_pairs.h"
#include "properties/fit.h"

namespace qkvet {
namespace {

// Where key j goes: the keys are rotated, and turned round for odd seeds.
int64_t place_of(const Case& value, int64_t j) {
  const int64_t Tk = value.shape.Tk;
  const int64_t by = 1 + pick_by_seed(value.seed >> 1, Tk);
  const int64_t rotated = (j + by) % Tk;
  return value.seed % 2 == 0 ? rotated : Tk - 1 - rotated;
}

void permute(const Case& value, int64_t width, std::vector<double>& rows) {
  const std::vector<double> from = rows;
  const int64_t Tk = value.shape.Tk;
  for (size_t n = 0; n < from.size(); ++n) {
    const auto at = static_cast<int64_t>(n);
    const int64_t head = at / width / Tk;
    const int64_t place = place_of(value, at / width % Tk);
    rows[static_cast<size_t>((head * Tk + place) * width + at % width)] =
        from[n];
  }
}

void permute_keys(const Case& value, int64_t, Inputs& inputs) {
  permute(value, value.shape.d, inputs.k);
  permute(value, value.shape.dv, inputs.v);
}

Case fit(Case value) {
  value.causal = Causal::kNone;
  value.shape.Tk = std::max<int64_t>(value.shape.Tk, 2);
  return value;
}

Plan plan(const Case&, const KernelInfo& kernel) {
  Plan plan = plan_pair(kernel, permute_keys);
  for (PlannedCall& call : plan.calls)
    call.want_weights = wants_weights(kernel);
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "keys in order";
  pair.second_name = "keys permuted";
  pair.map = [&](const Element& at) {
    Element to = at;
    if (at.tensor == TensorName::kWeights) to.x = place_of(input.value, at.x);
    return std::optional(to);
  };
  pair.looks = "where a key stands decides what it is worth";
  compare_within_bounds(
      input, pair, judgement,
      {TensorName::kO, TensorName::kLse, TensorName::kWeights});
  return judgement;
}

}  // namespace

extern constinit const Law permuted_keys_change_nothing{
    "permuted_keys_change_nothing",
    "Without a mask the order of the keys is nothing: keys and values "
    "permuted together give the same.",
    "forward(q, P k, P v) = forward(q, k, v)",
    "nothing depends on positions; at least two keys",
    "Sums over keys do not depend on their order.",
    "Each side is within its own bound of the same number; never "
    "bitwise.",
    "(d) it needs no oracle: it kills what oracle and kernel get wrong "
    "alike",
    Aim{.admits = kAdmitSoftcap | kAdmitSink | kAdmitMemory},
    fit,
    plan,
    judge};

}  // namespace qkvet
