// SPDX-License-Identifier: Apache-2.0
// Causality by perturbation: two calls that differ only in K and V at keys
// that the first rows must not see. Those rows must not change by a single bit
// (+0 and -0 count as one). The new values are finite and overflow nothing, so
// no rule about NaN or Inf behind a mask is involved.
#include <bit>
#include <cmath>

#include "properties/compare.h"
#include "properties/fit.h"
#include "properties/law.h"
#include "properties/visibility.h"

namespace qkvet {
namespace {

// plan() sees to it that there is a row with masked keys.
int64_t last_row(const Case& value) {
  return pick_by_seed(value.seed, rows_with_masked_keys(value));
}

void other_future(const Case& value, int64_t, Inputs& inputs) {
  const Shape& s = value.shape;
  const int64_t from = visible_keys(value, last_row(value));
  // Eight times a normal: scores and values that would show.
  const Recipe recipe{RecipeKind::kLargeN, 3};
  const uint64_t seed = ~value.seed;
  const auto d = static_cast<size_t>(s.d), dv = static_cast<size_t>(s.dv);
  for (int64_t b = 0; b < s.B; ++b)
    for (int64_t h = 0; h < s.Hkv; ++h)
      for (int64_t t = from; t < s.Tk; ++t) {
        const auto row = static_cast<size_t>((b * s.Hkv + h) * s.Tk + t);
        recipe_row(recipe, seed, TensorName::kK, b, h, t,
                   {inputs.k.data() + row * d, d});
        recipe_row(recipe, seed, TensorName::kV, b, h, t,
                   {inputs.v.data() + row * dv, dv});
      }
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan;
  if (rows_with_masked_keys(value) == 0) {
    plan.not_applicable = "the case masks no key: it needs causal and Tk > 1";
    return plan;
  }
  if (kernel.has_flag(QKVET_FLAG_NONDETERMINISTIC)) {
    plan.unsupported = "the kernel declares itself nondeterministic";
    return plan;
  }
  PlannedCall call;
  call.want_lse = wants_lse(kernel);
  plan.calls.push_back(call);
  call.edit = other_future;
  plan.calls.push_back(call);
  return plan;
}

bool same_bits(double a, double b) {
  if (a == 0 && b == 0) return true;
  if (std::isnan(a) && std::isnan(b)) return true;
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

void compare_rows(const JudgeInput& input, TensorName tensor,
                  Judgement& judgement) {
  const Shape& s = input.value.shape;
  const bool is_o = tensor == TensorName::kO;
  const Dtype dtype =
      is_o ? input.value.o_dtype : lse_dtype(input.value.o_dtype);
  const auto read = [&](size_t call) {
    const CallOutcome& outcome = *input.calls[call].outcome;
    return as_doubles(is_o ? outcome.o : outcome.lse, dtype);
  };
  const std::vector<double> before = read(0), after = read(1);
  const int64_t width = is_o ? s.dv : 1;
  const int64_t last = last_row(input.value);
  for (size_t n = 0; n < before.size(); ++n) {
    const int64_t i = static_cast<int64_t>(n) / width % s.Tq;
    if (i > last || visible_keys(input.value, i) == 0) continue;
    ++judgement.compared;
    if (same_bits(before[n], after[n])) continue;
    Finding finding;
    finding.where = element_name(tensor, s, static_cast<int64_t>(n));
    finding.expected = number_text(before[n], dtype) + ", bit for bit";
    finding.actual = number_text(after[n], dtype) +
                     " after K and V changed at keys >= " +
                     std::to_string(visible_keys(input.value, last));
    finding.looks = "the row depends on keys that it must not see";
    add_failure(judgement, std::move(finding));
  }
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  compare_rows(input, TensorName::kO, judgement);
  compare_rows(input, TensorName::kLse, judgement);
  return judgement;
}

}  // namespace

extern constinit const Law future_changes_nothing{
    "future_changes_nothing",
    "The future changes nothing: other K and V at keys that a row must not "
    "see leave its output the same, bit for bit.",
    "o[i] = f(q[i], k[j], v[j] : j visible to i)",
    "causal, with at least one masked key; a deterministic kernel",
    "Masked keys do not occur in the formula of the row.",
    "The same operations on the same numbers give the same bits.",
    "(a) it is bitwise, (d) it needs no oracle",
    Aim{.causal = true, .admits = kAdmitScores | kAdmitLayout},
    with_masked_key,
    plan,
    judge};

}  // namespace qkvet
