// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/dropout_calls.h"

#include <cmath>
#include <numbers>

#include "properties/judging/compare.h"

namespace qkvet::properties {
namespace {

bool in_base2(const JudgeInput& input) {
  return input.kernel.dialect.lse_base == QKVET_LSE_BASE2;
}

// 32 seeds of these are a second of calls.
constexpr int64_t kMostReads = 16;

int64_t reads_of(const Case& value) {
  const Shape& s = value.shape;
  return (s.Tk + s.dv - 1) / s.dv;
}

// NaN marks values that a kernel must not read, and stays.
void put(double& to, double value) {
  if (!std::isnan(to)) to = value;
}

// The n-th part of the identity for v.
void show_weights(const Case& value, int64_t n, Inputs& inputs) {
  for (std::vector<double>* tensor : {&inputs.q, &inputs.bias, &inputs.sink})
    for (double& number : *tensor) put(number, 0);
  const Shape& s = value.shape;
  for (size_t at = 0; at < inputs.v.size(); ++at) {
    const auto element = static_cast<int64_t>(at);
    const int64_t j = element / s.dv % s.Tk, c = element % s.dv;
    put(inputs.v[at], j == n * s.dv + c ? 1 : 0);
  }
}

std::vector<uint8_t> read_mask(const JudgeInput& input, size_t first) {
  const Shape& s = input.value.shape;
  std::vector<uint8_t> kept(static_cast<size_t>(s.B * s.H * s.Tq * s.Tk));
  for (int64_t n = 0; n < reads_of(input.value); ++n) {
    const CallView& call = input.calls[first + static_cast<size_t>(n)];
    const auto o = as_doubles(call.outcome->o, input.value.o_dtype);
    for (size_t at = 0; at < o.size(); ++at) {
      const auto element = static_cast<int64_t>(at);
      const int64_t row = element / s.dv, j = n * s.dv + element % s.dv;
      if (j < s.Tk) kept[static_cast<size_t>(row * s.Tk + j)] = o[at] != 0;
    }
  }
  return kept;
}

}  // namespace

bool returns_mask(const KernelInfo& kernel) {
  return kernel.has_option(QKVET_OPTION_DROPOUT_MASK);
}

std::string unreadable_mask(const Case& value, const KernelInfo& kernel) {
  if (returns_mask(kernel) || reads_of(value) <= kMostReads) return "";
  return "the mask is not returned, and would take " +
         std::to_string(reads_of(value)) + " calls to read (Tk / dv), above " +
         std::to_string(kMostReads);
}

std::vector<PlannedCall> mask_calls(const Case& value, const KernelInfo& kernel,
                                    const PlannedCall& call, bool hidden_too) {
  if (returns_mask(kernel)) return {call};
  std::vector<PlannedCall> calls;
  for (int64_t n = 0; n < reads_of(value); ++n) {
    PlannedCall& read = calls.emplace_back(call);
    read.want_lse = false;
    read.edit = show_weights;
    read.argument = n;
    if (!hidden_too || value.causal == Causal::kNone) continue;
    read.variant = value;
    read.variant->causal = Causal::kNone;
  }
  return calls;
}

std::vector<PlannedCall> mask_and_call(const Case& value,
                                       const KernelInfo& kernel,
                                       const PlannedCall& call) {
  std::vector<PlannedCall> calls =
      mask_calls(value, kernel, call, /*hidden_too=*/false);
  if (!returns_mask(kernel)) calls.push_back(call);
  return calls;
}

PlannedCall dropout_call(Operation operation, const KernelInfo& kernel) {
  PlannedCall call;
  call.operation = operation;
  call.want_lse = operation == Operation::kForward && wants_lse(kernel);
  call.want_dropout_mask = returns_mask(kernel);
  return call;
}

Case with_dropout(Case value) {
  if (!(value.dropout.value_or(0) > 0)) value.dropout = 0.5F;
  return value;
}

int64_t mask_owner(const KernelInfo& kernel, const Shape& s, int64_t head) {
  const bool all = kernel.has_flag(QKVET_FLAG_DROPOUT_BROADCAST);
  const bool of_member = all || kernel.has_flag(QKVET_FLAG_DROPOUT_OF_MEMBER);
  const bool of_head = all || kernel.has_flag(QKVET_FLAG_DROPOUT_OF_HEAD);
  const int64_t b = of_head ? 0 : head / s.H, h = of_member ? 0 : head % s.H;
  return b * s.H + h;
}

std::optional<std::vector<uint8_t>> kept_by(const JudgeInput& input,
                                            size_t first,
                                            Judgement& judgement) {
  if (!returns_mask(input.kernel)) return read_mask(input, first);
  const Shape& s = input.value.shape;
  std::vector<uint8_t> kept;
  for (const std::byte byte : input.calls[first].outcome->dropout_mask) {
    const auto n = static_cast<int64_t>(kept.size());
    kept.push_back(std::to_integer<uint8_t>(byte));
    const int64_t i = n / s.Tk % s.Tq, b = n / s.Tk / s.Tq / s.H;
    if (kept.back() <= 1 || i >= counted_queries(input.value, b)) continue;
    Finding finding;
    finding.where = element_name(TensorName::kDropoutMask, s, n);
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
  const GradientOutput values =
      f64 ? twin_dropout_backward(problem_, given.d_o)
          : plain_dropout_backward(problem_, given.d_o);
  gradient_ = gradient_truth(
      gradient_problem_, values,
      dropout_backward_bound(problem_, given, oracle_, values, model_));
  truth_.oracle = oracle_;
  truth_.gradient = &gradient_;
  return truth_;
}

}  // namespace qkvet::properties
