// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "properties/calls/other_data.h"
#include "properties/calls/subject_calls.h"
#include "properties/conventions/constrain.h"
#include "properties/judging/compare.h"
#include "properties/judging/law.h"
#include "properties/judging/visibility.h"

namespace qkvet::properties {
namespace of_bias_alone_decides {

Case constrain(Case value) {
  value.q = make_recipe(RecipeKind::kZero);
  value = without_set_values(std::move(value), TensorName::kQ);
  if (!value.score_bias && !value.slopes)
    value.score_bias = make_recipe(RecipeKind::kLattice);
  return value;
}

// The law's own formula. Sums in extended precision: outputs may cancel.
class Known {
 public:
  explicit Known(const JudgeInput& input)
      : input_(input),
        inputs_(*input.calls[0].inputs),
        bias_(full_bias(input.value, inputs_)) {
    const Shape& s = input.value.shape;
    for (int64_t b = 0; b < s.B; ++b)
      for (int64_t h = 0; h < s.H; ++h)
        for (int64_t i = 0; i < s.Tq; ++i) add_row(b, h, i);
  }

  std::vector<double> o, lse;

 private:
  double score(int64_t b, int64_t h, int64_t i, int64_t j) const {
    const Shape& s = input_.value.shape;
    double score = 0;
    if (!bias_.empty())
      score +=
          bias_[static_cast<size_t>(((b * s.H + h) * s.Tq + i) * s.Tk + j)];
    if (!inputs_.slopes.empty()) {
      const int64_t distance = std::abs(input_.visibility->diagonal(b, i) - j);
      const int64_t m = slope_row(input_.value, b, i);
      score -= inputs_.slopes[static_cast<size_t>(m * s.H + h)] *
               static_cast<double>(distance);
    }
    return score;
  }

  void add_row(int64_t b, int64_t h, int64_t i) {
    const Shape& s = input_.value.shape;
    double top = -std::numeric_limits<double>::infinity();
    for (int64_t j = 0; j < s.Tk; ++j)
      if (input_.visibility->sees(b, h, i, j))
        top = std::max(top, score(b, h, i, j));
    std::vector<long double> sums(static_cast<size_t>(s.dv));
    long double total = 0;
    const int64_t head = (b * s.Hkv + h / s.group()) * s.Tk;
    for (int64_t j = 0; j < s.Tk; ++j) {
      if (!input_.visibility->sees(b, h, i, j)) continue;
      const long double weight =
          std::exp(static_cast<long double>(score(b, h, i, j) - top));
      total += weight;
      const double* v = inputs_.v.data() + (head + j) * s.dv;
      for (long double& sum : sums)
        sum += weight * static_cast<long double>(*v++);
    }
    for (const long double sum : sums)
      o.push_back(static_cast<double>(sum / total));
    lse.push_back(top + static_cast<double>(std::log(total)));
  }

  const JudgeInput& input_;
  const Inputs& inputs_;
  const std::vector<double> bias_;  // [B,H,Tq,Tk] or empty
};

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  Known known(input);
  compare_with_known(input, input.calls[0], std::move(known.o), judgement);
  if (!input.calls[0].outcome->lse.empty())
    compare_lse_with_known(input, input.calls[0], std::move(known.lse),
                           judgement);
  if (judgement.finding)
    judgement.finding->looks =
        "a bias or a slope is scaled, misplaced, ignored or of the wrong sign";
  return judgement;
}

}  // namespace of_bias_alone_decides

extern constinit const Law bias_alone_decides{
    "bias_alone_decides",
    "Without queries the bias alone decides: the weights are its softmax.",
    "o = softmax(bias - slope |diagonal - j|) v, q = 0",
    "a bias or ALiBi; no sink, no softcap",
    "All products of q and k are 0, and 0 times any scale is 0.",
    "The right answer is a closed formula, computed in more than double; the "
    "bound of o and of lse covers the kernel.",
    "(d) it needs no oracle: no scale, no product of q and k can hide what "
    "is wrong with the bias",
    270,
    Domain{.free_data = false,
           .allows = kAllowPairs | QKVET_OPTION_BIAS | QKVET_OPTION_ALIBI |
                     kAllowMemory,
           .about = QKVET_OPTION_BIAS | QKVET_OPTION_ALIBI},
    of_bias_alone_decides::constrain,
    plan_one_call<zero_queries>,
    of_bias_alone_decides::judge};

}  // namespace qkvet::properties
