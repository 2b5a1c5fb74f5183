// SPDX-License-Identifier: Apache-2.0
// For tests: layer_backward() as a function. By default the definition, rounded
// to storage, which every law about gradients of layers must pass; a test
// spoils its question or its answer to see a law fail.
#ifndef QKVET_PROPERTIES_TESTING_FAKE_LAYER_GRADIENTS_H_
#define QKVET_PROPERTIES_TESTING_FAKE_LAYER_GRADIENTS_H_

#include <array>
#include <functional>

#include "properties/testing/fake_executor.h"
#include "reference/layer/layer_gradient.h"

namespace qkvet::properties {

class FakeLayerGradients : public Executor {
 public:
  using Question =
      std::function<void(const KernelCall&, LayerGradientProblem&)>;
  using Answer = std::function<void(const KernelCall&, LayerGradientOutput&,
                                    CallOutcome&)>;

  explicit FakeLayerGradients(Question question = {}, Answer answer = {})
      : question_(std::move(question)), answer_(std::move(answer)) {
    infos_.push_back(info());
  }

  static KernelInfo info() {
    KernelInfo info = FakeExecutor::info();
    info.name = "fake/layer_gradient";
    info.has_forward = false;
    info.has_layer = info.has_layer_backward = true;
    info.layer_options =
        QKVET_LAYER_BIASES | QKVET_LAYER_UNBATCHED | QKVET_LAYER_ROPE;
    return info;
  }
  static KernelUnderTest under_test() {
    KernelUnderTest kernel;
    kernel.judged = {info(), generic_precision(), false};
    return kernel;
  }

  const std::vector<KernelInfo>& kernels() const override { return infos_; }

  std::vector<CallOutcome> run(int,
                               std::span<const KernelCall> calls) override {
    std::vector<CallOutcome> outcomes;
    for (const KernelCall& call : calls) outcomes.push_back(one(call));
    return outcomes;
  }

 private:
  static std::vector<double> numbers(const KernelCall& call,
                                     const std::byte* data, TensorName name) {
    if (data == nullptr) return {};
    const auto e = tensor_extents(call.shape, name);
    return stored_as_doubles(data, e[0] * e[1] * e[2] * e[3], call.q_dtype);
  }

  CallOutcome one(const KernelCall& call) {
    const std::byte* const given[] = {call.x,   call.w_q, call.w_k,
                                      call.w_v, call.w_o, call.b_q,
                                      call.b_k, call.b_v, call.b_o};
    LayerGradientProblem problem;
    LayerProblem& layer = problem.forward;
    const double** const fields[] = {&layer.x,   &layer.w_q, &layer.w_k,
                                     &layer.w_v, &layer.w_o, &layer.b_q,
                                     &layer.b_k, &layer.b_v, &layer.b_o};
    std::array<std::vector<double>, std::size(kLayerInputs)> values;
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = numbers(call, given[i], kLayerInputs[i]);
      if (given[i] != nullptr) *fields[i] = values[i].data();
    }
    layer.shape = call.shape;
    layer.causal = call.causal;
    layer.scale_given = call.scale.has_value();
    layer.scale = call.scale ? static_cast<double>(*call.scale)
                             : default_scale(call.shape.d);
    const int64_t angles = call.rope_rows * (call.shape.d / 2);
    const std::vector<double> cos = floats_as_doubles(call.rope_cos, angles);
    const std::vector<double> sin = floats_as_doubles(call.rope_sin, angles);
    if (call.rope != RopeStyle::kNone)
      layer.rotation = {call.rope, cos.data(), sin.data(),
                        reinterpret_cast<const int64_t*>(call.q_positions),
                        nullptr};
    const std::vector<double> d_y = numbers(call, call.d_y, TensorName::kDY);
    problem.d_y = d_y.data();
    if (question_) question_(call, problem);
    return answer(call, given, plain_layer_backward(problem));
  }

  CallOutcome answer(const KernelCall& call, const std::byte* const* given,
                     LayerGradientOutput gradient) {
    CallOutcome outcome;
    if (answer_) answer_(call, gradient, outcome);
    if (outcome.status != CallStatus::kDone) return outcome;
    using Out = LayerGradientOutput;
    using Bytes = CallOutcome;
    constexpr std::pair<std::vector<double> Out::*,
                        std::vector<std::byte> Bytes::*>
        kMembers[] = {{&Out::x, &Bytes::d_x},     {&Out::w_q, &Bytes::d_w_q},
                      {&Out::w_k, &Bytes::d_w_k}, {&Out::w_v, &Bytes::d_w_v},
                      {&Out::w_o, &Bytes::d_w_o}, {&Out::b_q, &Bytes::d_b_q},
                      {&Out::b_k, &Bytes::d_b_k}, {&Out::b_v, &Bytes::d_b_v},
                      {&Out::b_o, &Bytes::d_b_o}};
    for (size_t i = 0; i < std::size(kMembers); ++i)
      if (given[i] != nullptr)
        outcome.*kMembers[i].second =
            doubles_as(call.q_dtype, gradient.*kMembers[i].first);
    return outcome;
  }

  Question question_;
  Answer answer_;
  std::vector<KernelInfo> infos_;
};

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_TESTING_FAKE_LAYER_GRADIENTS_H_
