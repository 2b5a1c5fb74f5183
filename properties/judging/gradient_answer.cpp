// SPDX-License-Identifier: Apache-2.0
#include "properties/judging/gradient_answer.h"

#include <limits>
#include <numbers>

#include "core/base/stored_numbers.h"
#include "core/call/tensor_table.h"
#include "properties/judging/empty_row.h"
#include "properties/judging/outputs.h"
#include "properties/judging/visibility.h"
#include "reference/options/rope.h"

namespace qkvet::properties {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

bool some_row_is_empty(const Case& value) {
  const Shape& s = value.shape;
  const Visibility visibility(value);
  for (int64_t b = 0; b < s.B; ++b)
    for (int64_t h = 0; h < s.H; ++h)
      for (int64_t i = 0; i < s.Tq; ++i)
        if (visibility.counted(b, i) && visibility.keys(b, h, i) == 0)
          return true;
  return false;
}

}  // namespace

std::string unsettled_gradient(const Case& value, const KernelInfo& kernel) {
  const EmptyRow said = empty_row_of(kernel.dialect, value);
  const bool zero = said.o == QKVET_EMPTY_ROW_ZERO;
  // With dropout it is given the result of its own forward().
  const bool known_lse =
      value.dropout || declared_number(said, TensorName::kLse);
  if ((zero && known_lse) || !some_row_is_empty(value)) return "";
  return zero ? "a row sees no key, and the kernel declares no lse of it "
                "(empty_row_lse): what backward() would be given is not known"
              : "a row sees no key, and the kernel does not declare zero "
                "(empty_row): what it returns there has a gradient of its own";
}

std::string given_text(const KernelInfo& kernel) {
  const qkvet_dialect& dialect = kernel.dialect;
  std::string text = "given";
  for (const int32_t word :
       {dialect.lse_base, dialect.softcap_order, dialect.sink_in_lse})
    text += " " + std::to_string(word);
  for (const EmptyRowFields& fields : empty_row_fields())
    text += " " + std::to_string(dialect.*fields.lse);
  return text;
}

GradientAnswer::GradientAnswer(const Case& value, Inputs& inputs,
                               const KernelInfo& kernel,
                               const References& references,
                               const Reading& reading)
    : f64_(value.o_dtype == Dtype::kF64),
      references_(references),
      owned_(value, inputs, reading_of(value, kernel.dialect)) {
  problem_.forward =
      reading != nullptr ? reading(owned_.problem()) : owned_.problem();
  forward_ = truth_of(value, references.forward)(problem_.forward);
  give(value, inputs, kernel);
  problem_.d_o = inputs.d_o.data();
  problem_.o = inputs.given_o.data();
  problem_.lse = natural_lse_.data();
}

void GradientAnswer::give(const Case& value, Inputs& inputs,
                          const KernelInfo& kernel) {
  const bool base2 = kernel.dialect.lse_base == QKVET_LSE_BASE2;
  const auto width = static_cast<size_t>(value.shape.dv);
  inputs.given_o = forward_.o;
  inputs.given_lse = forward_.lse;
  for (size_t row = 0; row < forward_.visible.size(); ++row) {
    if (base2) inputs.given_lse[row] *= std::numbers::log2e;
    if (forward_.visible[row] > 0) continue;
    const bool counted = forward_.visible[row] != kRowNotCounted;
    inputs.given_lse[row] =
        counted ? declared_number(empty_row_of(kernel.dialect, value),
                                  TensorName::kLse)
                      .value_or(-kInfinity)
                : kNaN;
    std::fill_n(inputs.given_o.begin() + static_cast<ptrdiff_t>(row * width),
                width, counted ? 0 : kNaN);
  }
  store_numbers(stored_type(value, TensorType::kO), inputs.given_o,
                inputs.given_o_bytes);
  store_numbers(stored_type(value, TensorType::kLse), inputs.given_lse,
                inputs.given_lse_bytes);
  natural_lse_ = inputs.given_lse;
  for (double& lse : natural_lse_)
    if (base2) lse *= std::numbers::ln2;
}

void GradientAnswer::find_truth(bool with_twin) {
  if (truth_) return;
  truth_ = f64_ ? twin_backward(problem_) : references_.backward(problem_);
  if (with_twin) compare_with_twin();
}

void GradientAnswer::compare_with_twin() {
  twin_disagrees_ =
      f64_
          ? twin_disagreement(problem_, references_.backward(problem_), *truth_)
          : twin_disagreement(problem_, *truth_, twin_backward(problem_));
}

// The facts of a call with a rotation depend on the model.
GradientBound GradientAnswer::bound_for(const PrecisionModel& model) {
  if (problem_.forward.rotation.style != RopeStyle::kNone)
    return gradient_bound_of(problem_, forward_, *truth_, model);
  if (!facts_) facts_.emplace(problem_.forward, forward_);
  return backward_bound(problem_, *facts_, *truth_, model);
}

const Truth& GradientAnswer::truth_for(const PrecisionModel& model) {
  return known_.get(model, Dtype::kF32, forward_, [&] {
    return twin_disagrees_.empty()
               ? gradient_truth(problem_, *truth_, bound_for(model))
               : gradient_truth(problem_, {}, {});
  });
}

const Truth& LayerGradientAnswer::truth_for(const PrecisionModel& model,
                                            Dtype stage) {
  return known_.get(model, stage, {}, [&] {
    return gradient_truth(
        problem_, truth_,
        layer_backward_bound(problem_, forward_, truth_, model, stage));
  });
}

GradientTruth gradient_truth(const GradientProblem& problem,
                             GradientOutput values, GradientBound bound) {
  GradientTruth truth;
  truth.problem = &problem;
  const auto add = [&](TensorName tensor, auto value, auto limit) {
    truth.of[tensor] = {std::move(values.*value), std::move(bound.*limit),
                        std::move(bound.reach.*value)};
  };
  using Output = GradientOutput;
  using Limit = GradientBound;
  add(TensorName::kDQ, &Output::q, &Limit::q);
  add(TensorName::kDK, &Output::k, &Limit::k);
  add(TensorName::kDV, &Output::v, &Limit::v);
  add(TensorName::kDBias, &Output::bias, &Limit::bias);
  add(TensorName::kDSink, &Output::sink, &Limit::sink);
  return truth;
}

GradientTruth gradient_truth(const LayerGradientProblem& problem,
                             LayerGradientOutput values,
                             LayerGradientBound bound) {
  using Output = LayerGradientOutput;
  constexpr std::vector<double> Output::*kMembers[] = {
      &Output::x,   &Output::w_q, &Output::w_k, &Output::w_v, &Output::w_o,
      &Output::b_q, &Output::b_k, &Output::b_v, &Output::b_o};
  GradientTruth truth;
  truth.layer = &problem;
  auto tensor = kLayerGradients.begin();
  for (const auto member : kMembers)
    truth.of[*tensor++] = {std::move(values.*member),
                           std::move(bound.bound.*member),
                           std::move(bound.reach.*member)};
  return truth;
}

}  // namespace qkvet::properties
