// SPDX-License-Identifier: Apache-2.0
#include "properties/dropout_calls.h"

#include <numbers>

#include "properties/compare.h"

namespace qkvet {
namespace {

bool in_base2(const JudgeInput& input) {
  return input.kernel.dialect.lse_base == QKVET_LSE_BASE2;
}

}  // namespace

PlannedCall dropout_call(Operation operation, const KernelInfo& kernel) {
  PlannedCall call;
  call.operation = operation;
  call.want_lse = operation == Operation::kForward && wants_lse(kernel);
  call.want_dropout_mask = true;
  return call;
}

Case with_dropout(Case value) {
  if (!(value.dropout.value_or(0) > 0)) value.dropout = 0.5F;
  return value;
}

std::string mask_place(const Shape& s, int64_t n) {
  return "dropout_mask[b=" + std::to_string(n / s.Tk / s.Tq / s.H) +
         ",h=" + std::to_string(n / s.Tk / s.Tq % s.H) +
         ",i=" + std::to_string(n / s.Tk % s.Tq) +
         ",j=" + std::to_string(n % s.Tk) + "]";
}

std::optional<std::vector<uint8_t>> kept_by(const JudgeInput& input,
                                            const CallView& call,
                                            Judgement& judgement) {
  const Shape& s = input.value.shape;
  std::vector<uint8_t> kept;
  for (const std::byte byte : call.outcome->dropout_mask) {
    const auto n = static_cast<int64_t>(kept.size());
    kept.push_back(std::to_integer<uint8_t>(byte));
    const int64_t i = n / s.Tk % s.Tq, b = n / s.Tk / s.Tq / s.H;
    if (kept.back() <= 1 || i >= counted_queries(input.value, b)) continue;
    Finding finding;
    finding.where = mask_place(s, n);
    finding.expected = "1 where the weight is kept, 0 where it is dropped";
    finding.actual = std::to_string(kept.back());
    add_failure(judgement, std::move(finding));
    return std::nullopt;
  }
  return kept;
}

DropoutAnswer::DropoutAnswer(const JudgeInput& input, const CallView& call,
                             const std::vector<uint8_t>& kept)
    : input_(input),
      call_(call),
      model_(
          for_storage(input.model, input.value.kv_dtype, input.value.o_dtype)),
      owned_(input.value, *call.inputs,
             reading_of(input.value, input.kernel.dialect)) {
  problem_.forward = owned_.problem();
  problem_.p = static_cast<double>(input.value.dropout.value_or(0));
  problem_.kept = kept.data();
  const bool f64 = input.value.o_dtype == Dtype::kF64;
  oracle_ = f64 ? twin_dropout(problem_) : plain_dropout(problem_);
}

const Truth& DropoutAnswer::forward() {
  Answer without(problem_.forward, truth_of(input_.value, plain_forward),
                 /*with_twin=*/false);
  truth_ = without.truth_for(input_.kernel, model_, /*want_weights=*/false);
  bound_ = *truth_.bound;
  DropoutBound own = dropout_bound(problem_, oracle_, model_);
  bound_.o = std::move(own.o);
  reach_ = std::move(own.reach);
  truth_.oracle.o = oracle_.o;
  truth_.bound = &bound_;
  truth_.reach = &reach_;
  return truth_;
}

const Truth& DropoutAnswer::backward() {
  const Case& value = input_.value;
  o_ = as_doubles(call_.outcome->o, value.o_dtype);
  lse_ = as_doubles(call_.outcome->lse, lse_dtype(value.o_dtype));
  for (double& lse : lse_)
    if (in_base2(input_)) lse *= std::numbers::ln2;
  const DropoutGiven given = {call_.inputs->d_o.data(), o_.data(), lse_.data(),
                              in_base2(input_)};
  const bool f64 = value.o_dtype == Dtype::kF64;
  gradient_problem_.forward = problem_.forward;
  gradient_.problem = &gradient_problem_;
  gradient_.values = f64 ? twin_dropout_backward(problem_, given.d_o)
                         : plain_dropout_backward(problem_, given.d_o);
  gradient_.bound = dropout_backward_bound(problem_, given, oracle_,
                                           gradient_.values, model_);
  truth_.oracle = oracle_;
  truth_.gradient = &gradient_;
  return truth_;
}

}  // namespace qkvet
