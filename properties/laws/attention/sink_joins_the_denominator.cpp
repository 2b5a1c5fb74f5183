// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "properties/calls/subject_calls.h"
#include "properties/conventions/constrain.h"
#include "properties/judging/compare.h"
#include "properties/judging/law.h"
#include "properties/judging/visibility.h"

namespace qkvet::properties {
namespace of_sink_joins_the_denominator {

void ones(const Case&, int64_t, Inputs& inputs) {
  for (double& x : inputs.q) x = std::isnan(x) ? x : 0;
  for (double& v : inputs.v) v = std::isnan(v) ? v : 1;
}

Case constrain(Case value) {
  value.q = make_recipe(RecipeKind::kZero);
  value.v = make_recipe(RecipeKind::kOne);
  value = without_set_values(std::move(value), TensorName::kQ);
  value = without_set_values(std::move(value), TensorName::kV);
  if (!value.sink) value.sink = make_recipe(RecipeKind::kOne);
  return value;
}

struct Known {
  std::vector<double> o, lse;
};

Known closed_formula(const JudgeInput& input) {
  const Shape& s = input.value.shape;
  const bool in_lse = input.kernel.dialect.sink_in_lse != QKVET_SINK_NOT_IN_LSE;
  Known known;
  for (int64_t b = 0; b < s.B; ++b)
    for (int64_t h = 0; h < s.H; ++h)
      for (int64_t i = 0; i < s.Tq; ++i) {
        const auto keys = static_cast<double>(input.visibility->keys(b, h, i));
        const double sink = input.calls[0].inputs->sink[static_cast<size_t>(h)];
        // e^sink may be far above n, or far below.
        const double ratio = std::exp(sink - std::log(keys));
        known.o.insert(known.o.end(), static_cast<size_t>(s.dv),
                       1 / (1 + ratio));
        // Over no keys the sink is all that there is.
        known.lse.push_back(keys == 0 && in_lse
                                ? sink
                                : std::log(keys) +
                                      (in_lse ? std::log1p(ratio) : 0));
      }
  return known;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const CallView& call = input.calls[0];
  Known known = closed_formula(input);
  compare_with_known(input, call, std::move(known.o), judgement);
  if (judgement.finding) {
    const std::vector<double> o =
        as_doubles(call.outcome->o, input.value.o_dtype);
    const bool ignored =
        std::all_of(o.begin(), o.end(), [](double x) { return !(x < 1); });
    judgement.finding->looks = ignored
                                   ? "the sink is left out of the denominator"
                                   : "the sink is scaled, rounded, or that of "
                                     "another head";
    return judgement;
  }
  if (call.outcome->lse.empty()) return judgement;
  compare_lse_with_known(input, call, std::move(known.lse), judgement);
  if (judgement.finding)
    judgement.finding->looks =
        "lse counts the sink where it is declared not to, or the other way "
        "round";
  return judgement;
}

}  // namespace of_sink_joins_the_denominator

extern constinit const Law sink_joins_the_denominator{
    "sink_joins_the_denominator",
    "A sink takes its share of every row and gives nothing for it.",
    "o = n / (n + e^sink), q = 0, v = 1; lse = ln(n + e^sink), or ln n",
    "a sink; no bias",
    "All scores are 0, so the denominator is n and the sink's exponential.",
    "The bound of o and of lse covers the exponential, one sum and one "
    "division.",
    "(d) it needs no oracle: the right answer is a closed formula",
    290,
    Domain{.free_v = false,
           .free_data = false,
           .allows = QKVET_OPTION_ROPE | kAllowPairs | QKVET_OPTION_SINK |
                     QKVET_OPTION_SOFTCAP | kAllowMemory,
           .about = QKVET_OPTION_SINK},
    of_sink_joins_the_denominator::constrain,
    plan_one_call<of_sink_joins_the_denominator::ones>,
    of_sink_joins_the_denominator::judge};

}  // namespace qkvet::properties
