// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/layer_gradient_calls.h"

#include "core/door/call_plan.h"
#include "properties/judging/compare.h"

namespace qkvet::properties {

TensorName layer_input_of(TensorName gradient) {
  return static_cast<TensorName>(static_cast<int>(gradient) -
                                 static_cast<int>(TensorName::kDX) +
                                 static_cast<int>(TensorName::kX));
}

std::string layer_gradient_name(const Shape& shape, TensorName gradient,
                                int64_t n) {
  const TensorName input = layer_input_of(gradient);
  const auto extents = tensor_extents(shape, input);
  const std::string name = tensor_name(gradient);
  switch (tensor_rank(input)) {
    case 3:
      return name + "[b=" + std::to_string(n / extents[2] / extents[1]) +
             ",t=" + std::to_string(n / extents[2] % extents[1]) +
             ",c=" + std::to_string(n % extents[2]) + "]";
    case 2:
      return name + "[row=" + std::to_string(n / extents[1]) +
             ",column=" + std::to_string(n % extents[1]) + "]";
    default:
      return name + "[column=" + std::to_string(n) + "]";
  }
}

const std::vector<double>& layer_gradient_of(const LayerGradientOutput& output,
                                             TensorName gradient) {
  using Output = LayerGradientOutput;
  static constexpr std::vector<double> Output::*kMembers[] = {
      &Output::x,   &Output::w_q, &Output::w_k, &Output::w_v, &Output::w_o,
      &Output::b_q, &Output::b_k, &Output::b_v, &Output::b_o};
  return output.*kMembers[static_cast<int>(gradient) -
                          static_cast<int>(TensorName::kDX)];
}

std::vector<double> read_layer_gradient(const JudgeInput& input,
                                        const CallView& call,
                                        TensorName gradient) {
  return as_doubles(call.outcome->*output_member(gradient),
                    input.value.q_dtype);
}

PlannedCall layer_backward_call(bool truth, InputEdit edit) {
  PlannedCall call;
  call.operation = Operation::kLayerBackward;
  call.needs_truth = truth;
  call.edit = edit;
  return call;
}

void compare_layer_gradient_exactly(const JudgeInput& input,
                                    TensorName gradient, int64_t n,
                                    double actual, double expected,
                                    const char* looks, Judgement& judgement) {
  auto finding =
      compare_exactly(actual, expected, input.value.q_dtype, judgement);
  if (!finding) return;
  finding->where = layer_gradient_name(input.value.shape, gradient, n);
  finding->looks = looks;
  add_failure(judgement, std::move(*finding));
}

}  // namespace qkvet::properties
