// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/base/half.h"
#include "properties/conventions/constrain.h"
#include "properties/judging/compare.h"
#include "properties/judging/law.h"

namespace qkvet::properties {
namespace of_split_and_merge_by_lse {

// Keys [from, to) as the argument of a call.
int64_t range_of(int64_t from, int64_t to) { return from << 32 | to; }

void keep_keys(int64_t all, int64_t width, int64_t range,
               std::vector<double>& rows) {
  const int64_t from = range >> 32, to = range & 0xFFFFFFFF;
  std::vector<double> kept;
  for (auto head = rows.begin(); head != rows.end(); head += all * width)
    kept.insert(kept.end(), head + from * width, head + to * width);
  rows = std::move(kept);
}

void part_of_keys(const Case& value, int64_t range, Inputs& inputs) {
  keep_keys(value.shape.Tk, value.shape.d, range, inputs.k);
  keep_keys(value.shape.Tk, value.shape.dv, range, inputs.v);
}

Case constrain(Case value) {
  value.causal = Causal::kNone;
  value.shape.Tk = std::max<int64_t>(value.shape.Tk, 2);
  return value;
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan;
  if (!wants_lse(kernel)) {
    plan.unsupported = "lse is not returned";
    return plan;
  }
  PlannedCall call;
  call.want_lse = true;
  call.needs_truth = true;
  plan.calls.push_back(call);
  const int64_t Tk = value.shape.Tk;
  const int64_t cut = 1 + pick_by_seed(value.seed, Tk - 1);
  const std::pair<int64_t, int64_t> parts[] = {{0, cut}, {cut, Tk}};
  for (const auto& [from, to] : parts) {
    call.edit = part_of_keys;
    call.argument = range_of(from, to);
    call.variant = value;
    call.variant->shape.Tk = to - from;
    plan.calls.push_back(call);
  }
  return plan;
}

// One call, as far as the merge needs it.
struct Part {
  std::vector<double> o, lse;  // lse is natural
  double unit;                 // of the kernel's lse
  const Truth* truth;
};

Part read(const JudgeInput& input, size_t call) {
  const CallView& view = input.calls[call];
  Part part = {as_doubles(view.outcome->o, input.value.o_dtype),
               as_doubles(view.outcome->lse, lse_dtype(input.value.o_dtype)),
               lse_unit(input.kernel), view.truth};
  for (double& lse : part.lse) lse /= part.unit;
  return part;
}

struct Merged {
  double value = 0;
  double error = 0;
};

// How far a returned number may be from the oracle's.
double error_of(double actual, double bound, Dtype dtype) {
  return bound + unit_roundoff(dtype) * std::fabs(actual) +
         underflow_error(dtype);
}

// sum w_p o_p with w_p = exp(lse_p - L). If no lse_p is off by more than e, the
// ratio of the weights is off by at most exp(2 e), so each of them by at most
// expm1(2 e) times the smaller one. Both add up to one, so only the distance of
// the parts from each other is multiplied by that.
Merged merge(const Part (&parts)[2], size_t row, size_t n, Dtype dtype) {
  const double top = std::max(parts[0].lse[row], parts[1].lse[row]);
  double weights[2], sum = 0, lse_error = 0;
  for (int p = 0; p < 2; ++p) {
    const Part& part = parts[p];
    sum += weights[p] = std::exp(part.lse[row] - top);
    lse_error =
        std::max(lse_error, error_of(part.lse[row],
                                     part.truth->bound->lse[row] / part.unit,
                                     lse_dtype(dtype)));
  }
  Merged merged;
  double distance = std::fabs(parts[0].o[n] - parts[1].o[n]);
  for (int p = 0; p < 2; ++p) {
    const Part& part = parts[p];
    const double error = error_of(part.o[n], part.truth->bound->o[n], dtype);
    merged.value += weights[p] / sum * part.o[n];
    merged.error += weights[p] / sum * error;
    distance += error;
  }
  merged.error += std::expm1(2 * lse_error) * std::min(weights[0], weights[1]) /
                  sum * distance;
  return merged;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const Shape& s = input.value.shape;
  const Dtype dtype = input.value.o_dtype;
  const Part whole = read(input, 0);
  const Part parts[2] = {read(input, 1), read(input, 2)};
  for (size_t n = 0; n < whole.o.size(); ++n) {
    const size_t row = n / static_cast<size_t>(s.dv);
    const Merged merged = merge(parts, row, n, dtype);
    auto finding =
        compare_two_ways({whole.o[n],
                          merged.value,
                          whole.truth->bound->o[n] + merged.error,
                          (*whole.truth->reach)[n],
                          dtype,
                          "all keys at once",
                          "two parts merged by their lse",
                          {TensorName::kO, static_cast<int64_t>(n), -1}},
                         judgement);
    if (!finding) continue;
    finding->where = element_name(TensorName::kO, s, static_cast<int64_t>(n));
    finding->looks = "lse is not the logarithm of what o was divided by";
    add_failure(judgement, std::move(*finding));
  }
  return judgement;
}

}  // namespace of_split_and_merge_by_lse

extern constinit const Law split_and_merge_by_lse{
    "split_and_merge_by_lse",
    "Parts of the keys, merged by their lse, are the whole.",
    "o = sum_p exp(lse_p - L) o_p, L = ln sum_p exp(lse_p)",
    "lse is returned; nothing depends on positions; no sink; two keys",
    "exp(lse_p) is the sum of exponentials that part p was divided by.",
    "Weights off by expm1(2 e) of themselves, e the bound of lse, move "
    "an average of the parts by that share of their distance.",
    "(c) it sets o against lse, (d) it needs no oracle",
    520,
    Domain{.allows = QKVET_OPTION_SOFTCAP | kAllowMemory},
    of_split_and_merge_by_lse::constrain,
    of_split_and_merge_by_lse::plan,
    of_split_and_merge_by_lse::judge};

}  // namespace qkvet::properties
