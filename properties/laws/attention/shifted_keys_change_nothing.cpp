// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "properties/calls/call_pairs.h"
#include "properties/calls/raw_score.h"
#include "properties/conventions/constrain.h"
#include "properties/judging/compare.h"

namespace qkvet::properties {
namespace of_shifted_keys_change_nothing {

// The number added to channel c of every key: halves in -4 .. 4, so that sums
// of lattice keys stay exact in every storage type.
double near_shift(const Case& value, int64_t c) {
  constexpr uint64_t kSteps = 17;
  const uint64_t step = (value.seed + 5 * static_cast<uint64_t>(c)) % kSteps;
  return (static_cast<double>(step) - 8) / 2;
}

// The exponent of a further number added to channel 0, or 0 for none. Every
// second case of f32 and f64 moves whole rows of scores by some 2^15, to either
// side: beyond -10000, at which the maxima of some kernels begin. Only one
// channel, because the bound grows with the terms of that size.
int64_t far_exponent(const Case& value, const PrecisionModel& model) {
  constexpr int kTarget = 15, kMost = 17;
  if (value.seed % 2 != 0 || !keeps_far_scores(value, model)) return 0;
  const double scale = std::fabs(scale_of(value));
  if (scale == 0) return 0;
  return std::clamp(kTarget - std::ilogb(scale), 0, kMost);
}

double shift_of(const Case& value, int64_t exponent, int64_t c) {
  const double near = near_shift(value, c);
  if (c != 0 || exponent == 0) return near;
  const double far = std::ldexp(1.0, static_cast<int>(exponent));
  return near + (value.seed % 4 == 0 ? far : -far);
}

void shift_keys(const Case& value, int64_t exponent, Inputs& inputs) {
  for (size_t n = 0; n < inputs.k.size(); ++n)
    inputs.k[n] +=
        shift_of(value, exponent, static_cast<int64_t>(n) % value.shape.d);
}

Case constrain(Case value) {
  value.k = make_recipe(RecipeKind::kLattice);
  return without_set_values(std::move(value), TensorName::kK);
}

void plan_shift(const Case& value, const KernelInfo& kernel, Plan& plan) {
  const PrecisionModel model = resolve_precision(kernel.precision).model;
  plan.calls[1].argument = far_exponent(value, model);
}

// The answer of one call.
struct Answer {
  std::vector<double> o;
  const std::vector<double>&right, &bound;

  bool is_right(size_t n, Dtype dtype) const {
    return std::fabs(o[n] - right[n]) <=
           allowed_difference(o[n], right[n], bound[n], dtype);
  }
};

// The number of keys of score 0, besides those that the row sees, that take an
// equal share of all channels; nullopt if no number does.
std::optional<int64_t> padding_in(const Answer& answer, size_t first,
                                  size_t width, double lse, Dtype dtype) {
  constexpr double kFar = 30, kNear = 0x1p-6;
  size_t largest = first;
  bool is_right = true;
  for (size_t n = first; n < first + width; ++n) {
    is_right &= answer.is_right(n, dtype);
    if (std::fabs(answer.right[n]) > std::fabs(answer.right[largest]))
      largest = n;
  }
  if (is_right) return 0;
  if (std::fabs(lse) > kFar) return std::nullopt;
  const double share = answer.o[largest] / answer.right[largest];
  const double padding = (1 / share - 1) * std::exp(lse);
  const double whole = std::nearbyint(padding);
  if (!(whole >= 1 && std::fabs(padding - whole) < kNear * whole))
    return std::nullopt;
  for (size_t n = first; n < first + width; ++n)
    if (!(std::fabs(answer.o[n] - share * answer.right[n]) <=
          2 * answer.bound[n] +
              kNear * kNear * std::fabs(answer.right[largest])))
      return std::nullopt;
  return static_cast<int64_t>(whole);
}

// Why the shift does not cancel, where that explains all of both answers; "".
std::string looks_like(const JudgeInput& input) {
  const Case& value = input.value;
  const Dtype dtype = value.o_dtype;
  std::vector<Answer> answers;
  for (size_t call = 0; call < 2; ++call) {
    const Truth* truth = input.calls[call].truth;
    if (truth == nullptr) return "";
    answers.push_back({as_doubles(input.calls[call].outcome->o, dtype),
                       truth->oracle.o, truth->bound->o});
    if (answers[call].o.size() != answers[call].right.size()) return "";
  }
  const std::vector<double>& lse = input.calls[1].truth->oracle.lse;
  const auto width = static_cast<size_t>(value.shape.dv);
  int64_t padding = 0;
  bool is_finite = true;
  for (size_t row = 0; row < answers[0].o.size() / width; ++row) {
    if (input.calls[0].truth->oracle.visible[row] == 0) continue;
    for (size_t n = row * width; n < (row + 1) * width; ++n) {
      if (!answers[0].is_right(n, dtype)) return "";
      is_finite &= std::isfinite(answers[1].o[n]);
    }
    if (!is_finite || row >= lse.size()) continue;
    const auto here =
        padding_in(answers[1], row * width, width, lse[row], dtype);
    if (!here) return "";
    padding += *here;
  }
  if (!is_finite)
    return "NaN or infinity where all scores are shifted alike: the maximum is "
           "not subtracted, or scores overflow in a narrow type";
  return padding > 0 ? "a key that does not exist takes part, with a score of 0"
                     : "";
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const Case& value = input.value;
  const Shape& s = value.shape;
  CallPair pair;
  pair.first_name = "keys as they are";
  pair.second_name = "all keys shifted by one vector";
  const int64_t exponent = far_exponent(value, input.model);
  pair.lse_offset = [&](const Element& at) {
    const int64_t row = (at.b * s.H + at.h) * s.Tq + at.i;
    double dot = 0;
    for (int64_t c = 0; c < s.d; ++c)
      dot += input.calls[0].inputs->q[static_cast<size_t>(row * s.d + c)] *
             shift_of(value, exponent, c);
    return scale_of(value) * dot;
  };
  compare_within_bounds(input, pair, judgement);
  if (judgement.finding && judgement.finding->looks.empty())
    judgement.finding->looks = looks_like(input);
  return judgement;
}

}  // namespace of_shifted_keys_change_nothing

extern constinit const Law shifted_keys_change_nothing{
    "shifted_keys_change_nothing",
    "Shifting all keys by one vector changes only lse.",
    "softmax(c q (k + u)^T) = softmax(c q k^T); lse grows by c q.u",
    "no softcap, no sink; keys on a lattice",
    "The shift adds the same number to every score of a row, and the "
    "softmax divides it out.",
    "Lattice keys plus the shift are exact in storage; each side is "
    "within its own bound of the same number.",
    "(d) it needs no oracle: it kills what oracle and kernel get wrong "
    "alike",
    200,
    Domain{.own_values = true,
           .allows = kAllowPairs | QKVET_OPTION_BIAS | QKVET_OPTION_ALIBI |
                     kAllowMemory},
    of_shifted_keys_change_nothing::constrain,
    /*own_plan=*/nullptr,
    of_shifted_keys_change_nothing::judge,
    {.edit = of_shifted_keys_change_nothing::shift_keys,
     .more_plan = of_shifted_keys_change_nothing::plan_shift}};

}  // namespace qkvet::properties
