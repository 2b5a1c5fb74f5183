// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/instead/wrong_answer.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/half.h"
#include "core/door/call_plan.h"
#include "diagnosis/instead/description.h"
#include "diagnosis/instead/wrong_layer.h"
#include "properties/calls/dropout_calls.h"
#include "properties/calls/gradient_calls.h"
#include "properties/judging/compare.h"
#include "properties/judging/empty_row.h"
#include "properties/judging/gradient_answer.h"
#include "properties/judging/subject.h"

namespace qkvet::diagnosis {
namespace {

// An error of so many bounds does not come from another order of rounding.
constexpr double kTelling = 16;
// Wrong numbers are rounded as well, without a derived bound: they may be off
// by a multiple of the right numbers' bound, and by so many units of their own
// size.
constexpr double kWiderThanRight = 3;
constexpr double kUnitsOfSize = 64;

// Fills in the wrong elements; `counts` returns whether an element is judged.
template <class Counts>
void find_wrong(const Counts& counts, WrongOutput& output) {
  if (output.actual.size() != output.right.size() ||
      output.right.size() != output.bound.size())
    return;
  for (size_t n = 0; n < output.actual.size(); ++n) {
    const double actual = output.actual[n], right = output.right[n];
    if (!counts(n) || !std::isfinite(right) || !std::isfinite(output.bound[n]))
      continue;
    const double allowed =
        allowed_difference(actual, right, output.bound[n], output.dtype);
    if (std::fabs(actual - right) <= allowed) continue;
    output.wrong.push_back(n);
    output.telling += !(std::fabs(actual - right) <= kTelling * allowed);
  }
}

// Rows without a visible key that differ from the dialect: o 0 or NaN, lse
// -inf.
void find_empty_rows(const JudgedKernel& kernel, WrongAnswer& answer) {
  const Case& value = answer.value();
  if (value.subject() != Subject::kAttention) return;
  const EmptyRow declared = empty_row_of(kernel.info.dialect, value);
  const Shape& s = value.shape;
  const auto add = [&](TensorName name, int64_t width, Dtype dtype,
                       double right) {
    WrongOutput output = answer.returned(name, dtype, {s.B, s.H, s.Tq, width});
    output.right.assign(output.actual.size(), right);
    output.bound.assign(output.actual.size(), 0);
    for (size_t n = 0; n < output.actual.size(); ++n)
      if (answer.truth->oracle.visible[n / static_cast<size_t>(width)] == 0 &&
          !equal_numbers(output.actual[n], right))
        output.wrong.push_back(n);
    if (!output.wrong.empty()) answer.empty_rows.push_back(std::move(output));
  };
  if (const auto o = declared_number(declared, TensorName::kO))
    add(TensorName::kO, s.dv, value.o_dtype, *o);
  if (declared.lse == QKVET_EMPTY_LSE_MINUS_INF)
    add(TensorName::kLse, 1, lse_dtype(value.o_dtype), -INFINITY);
}

// Fills in outputs of the call, by their truth. `right_o`: o and its bound,
// where they are not those of the truth.
void find_in_outputs(const Truth& truth, Outputs names, WrongAnswer& answer,
                     const Predicted* right_o = nullptr) {
  const Case& value = answer.value();
  for (const TensorName name : names) {
    const auto& bytes = answer.outcome().*output_member(name);
    if (bytes.empty()) continue;
    const Dtype dtype = storage_type(value, name);
    const Grid grid(value.shape, name);
    const TensorTruth known = truth_of_output(&truth, name);
    WrongOutput output = answer.returned(name, dtype, grid.extents(),
                                         *known.values, *known.bound);
    if (name == TensorName::kO && right_o != nullptr)
      output.right = right_o->values, output.bound = right_o->bounds;
    const auto counts = [&](size_t n) {
      return is_gradient(name)
                 ? gradient_counts(value, grid.at(n))
                 : truth.oracle.visible[n / static_cast<size_t>(grid.width())] >
                       0;
    };
    if (output.actual.size() == output.right.size() &&
        output.right.size() == output.bound.size())
      find_wrong(counts, output);
    answer.keep(std::move(output));
  }
}

void find_in_attention(const JudgedKernel& kernel, WrongAnswer& answer,
                       const Predicted* right_o = nullptr) {
  find_in_outputs(*answer.truth, kForwardOutputs, answer, right_o);
  const CallOutcome& outcome = answer.outcome();
  const Dtype dtype = answer.value().o_dtype;
  answer.lse = as_doubles(outcome.lse, lse_dtype(dtype));
  answer.weights = as_doubles(outcome.weights, dtype);
  if (answer.outputs.empty()) find_empty_rows(kernel, answer);
}

// The first call with a wrong answer, which may affect all later ones.
void find_in_calls(const JudgedKernel& kernel, WrongAnswer& answer) {
  for (size_t n = 0; n < answer.evidence->outcomes.size(); ++n) {
    const CaseWork::WholeCall whole =
        answer.evidence->work->whole_call(kernel, n);
    if (!whole.planned.needs_truth || whole.truth == nullptr) continue;
    answer.call = n;
    answer.asked = &whole.value;
    answer.inputs = &whole.inputs;
    answer.truth = whole.truth;
    find_in_attention(kernel, answer);
    if (!answer.outputs.empty()) return;
  }
}

// The calls that show the mask, followed by the call itself.
void find_beside_dropout(const JudgedKernel& kernel, WrongAnswer& answer) {
  const Evidence& evidence = *answer.evidence;
  // The definition in double is no finer than f64.
  if (answer.value().o_dtype == Dtype::kF64) return;
  std::vector<CallView> views;
  for (size_t n = 0; n < evidence.outcomes.size(); ++n) {
    const CaseWork::WholeCall whole = evidence.work->whole_call(kernel, n);
    views.push_back(
        {&whole.planned, &whole.inputs, &evidence.outcomes[n], nullptr});
    answer.truth = whole.truth;
    answer.inputs = &whole.inputs;
  }
  answer.call = views.size() - 1;
  if (answer.truth == nullptr) return;
  Judgement judgement;
  auto kept = kept_by({evidence.value(), kernel.info, kernel.model, views}, 0,
                      judgement);
  if (!kept || kept->empty()) return;
  answer.kept = std::move(*kept);
  const auto right = right_with_dropout(answer, kernel);
  if (right) find_in_attention(kernel, answer, &*right);
}

void find_in_gradients(const JudgedKernel& kernel, WrongAnswer& answer) {
  const Case& value = answer.value();
  Inputs inputs = answer.evidence->work->own_inputs();
  GradientAnswer known(value, inputs, kernel.info, plain_forward, nullptr);
  known.find_truth(/*with_twin=*/false);
  find_in_outputs(
      known.truth_for(for_storage(kernel.model, value.kv_dtype, value.o_dtype)),
      kGradients, answer);
}

}  // namespace

WrongOutput WrongAnswer::returned(TensorName name, Dtype dtype,
                                  std::array<int64_t, 4> extents,
                                  std::vector<double> right,
                                  std::vector<double> bound) const {
  return {name,
          dtype,
          extents,
          as_doubles(outcome().*output_member(name), dtype),
          std::move(right),
          std::move(bound),
          {}};
}

void WrongAnswer::keep(WrongOutput output) {
  if (!output.wrong.empty()) outputs.push_back(std::move(output));
}

void find_wrong_elements(WrongOutput& output) {
  find_wrong([](size_t) { return true; }, output);
}

WrongOutput where_finite(const WrongOutput& output) {
  WrongOutput finite = output;
  finite.wrong.clear();
  finite.telling = 0;
  const std::set<size_t> wrong(output.wrong.begin(), output.wrong.end());
  find_wrong(
      [&](size_t n) {
        return wrong.count(n) > 0 && std::isfinite(output.actual[n]);
      },
      finite);
  return finite;
}

std::vector<size_t> first_of_wrong_rows(const WrongOutput& output) {
  const auto width = static_cast<size_t>(output.extents[3]);
  std::vector<size_t> first;
  for (const size_t n : output.wrong)
    if (first.empty() || n / width != first.back() / width) first.push_back(n);
  return first;
}

const WrongOutput* WrongAnswer::find(TensorName name) const {
  return find_in(outputs, name);
}

const WrongOutput* find_in(const std::vector<WrongOutput>& outputs,
                           TensorName name) {
  for (const WrongOutput& output : outputs)
    if (output.name == name) return &output;
  return nullptr;
}

bool WrongAnswer::has(TensorName name) const {
  return !(outcome().*output_member(name)).empty();
}

bool is_near(double actual, double predicted, double bound, Dtype dtype) {
  if (actual == predicted) return true;
  if (!std::isfinite(actual) || !std::isfinite(predicted) ||
      !std::isfinite(bound))
    return false;
  const double own = kUnitsOfSize * unit_roundoff(Dtype::kF32) *
                     std::max(std::fabs(actual), std::fabs(predicted));
  return std::fabs(actual - predicted) <=
         allowed_difference(actual, predicted, kWiderThanRight * bound + own,
                            dtype);
}

std::optional<TensorName> touched_outside(const Evidence& evidence) {
  for (const CallOutcome& outcome : evidence.outcomes) {
    if (outcome.fault && outcome.fault->tensor) return outcome.fault->tensor;
    if (outcome.damage && outcome.damage->tensor) return outcome.damage->tensor;
  }
  return std::nullopt;
}

std::optional<WrongAnswer> wrong_answer(std::unique_ptr<Evidence> evidence,
                                        const JudgedKernel& kernel) {
  if (evidence == nullptr || !evidence->failed()) return std::nullopt;
  const Subject subject = evidence->value().subject();
  const bool is_story = subject == Subject::kCache;
  const bool is_of_calls = is_story || subject == Subject::kMerge;
  const bool is_of_dropout = subject == Subject::kAttention &&
                             evidence->value().dropout &&
                             evidence->law != &agreement_about(subject);
  if (evidence->outcomes.size() != 1 && !is_of_calls && !is_of_dropout)
    return std::nullopt;
  bool is_unwritten = false;
  for (const CallOutcome& one : evidence->outcomes) {
    is_unwritten |= one.unwritten.has_value();
    // A story may have commands that are to be refused.
    if ((one.status != CallStatus::kDone && !is_story) || one.fault ||
        one.damage)
      return std::nullopt;
  }
  if (evidence->judgement.kind != FailureKind::kLaw && !is_unwritten)
    return std::nullopt;
  WrongAnswer answer;
  answer.evidence = std::move(evidence);
  if (is_of_calls) {
    find_in_calls(kernel, answer);
  } else {
    answer.asked = &answer.evidence->value();
    answer.inputs = &answer.evidence->work->own_inputs();
  }
  if (is_of_dropout) {
    find_beside_dropout(kernel, answer);
  } else if (subject == Subject::kAttention) {
    answer.truth = answer.evidence->work->whole_call(kernel, 0).truth;
    if (answer.truth != nullptr) find_in_attention(kernel, answer);
  }
  if (subject == Subject::kBackward) find_in_gradients(kernel, answer);
  if (subject == Subject::kLayer) find_in_layer(kernel, answer);
  if (answer.outputs.empty() && answer.empty_rows.empty()) return std::nullopt;
  return answer;
}

}  // namespace qkvet::diagnosis
