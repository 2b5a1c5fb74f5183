// SPDX-License-Identifier: Apache-2.0
// For tests: the call of a layer as the oracle takes it.
#ifndef QKVET_PROPERTIES_TESTING_FAKE_LAYER_H_
#define QKVET_PROPERTIES_TESTING_FAKE_LAYER_H_

#include <array>
#include <cstring>
#include <vector>

#include "properties/testing/fake_options.h"
#include "reference/layer/layer.h"

namespace qkvet::properties {

// The tables of a call, and no positions.
class FakeRotation {
 public:
  explicit FakeRotation(const KernelCall& call)
      : style_(call.rope), channels_(call.rope_channels) {
    if (style_ == RopeStyle::kNone) return;
    const int64_t count = call.rope_rows * (call.rope_channels / 2);
    cos_ = floats_as_doubles(call.rope_cos, count);
    sin_ = floats_as_doubles(call.rope_sin, count);
  }
  Rotation rotation() const {
    return {style_, channels_, cos_.data(), sin_.data(), nullptr, nullptr};
  }

 private:
  RopeStyle style_;
  int64_t channels_;
  std::vector<double> cos_, sin_;
};

inline std::vector<double> layer_values(const KernelCall& call,
                                        const std::byte* data,
                                        TensorName name) {
  if (data == nullptr) return {};
  const auto e = tensor_extents(call.shape, name);
  return stored_as_doubles(data, e[0] * e[1] * e[2] * e[3], call.q_dtype);
}

// Owns the data of the problem.
class FakeLayer {
 public:
  FakeLayer(const KernelCall& call, LayerProblem& problem) : turn_(call) {
    constexpr const double* LayerProblem::*kFields[] = {
        &LayerProblem::x,   &LayerProblem::w_q, &LayerProblem::w_k,
        &LayerProblem::w_v, &LayerProblem::w_o, &LayerProblem::b_q,
        &LayerProblem::b_k, &LayerProblem::b_v, &LayerProblem::b_o};
    for (size_t i = 0; i < values_.size(); ++i) {
      const std::byte* const given = layer_input(call, i);
      values_[i] = layer_values(call, given, kLayerInputs[i]);
      if (given != nullptr) problem.*kFields[i] = values_[i].data();
    }
    problem.shape = call.shape;
    problem.causal = call.context > 0 ? Causal::kBottomRight : call.causal;
    problem.scale_given = call.scale.has_value();
    problem.scale = call.scale ? static_cast<double>(*call.scale)
                               : default_scale(call.shape.d);
    if (call.q_positions != nullptr) {
      places_.resize(static_cast<size_t>(call.shape.B * call.shape.Tq));
      std::memcpy(places_.data(), call.q_positions,
                  places_.size() * sizeof(int64_t));
    }
    problem.rotation = turn_.rotation();
    problem.rotation.q_positions = places_.data();
  }
  FakeLayer(const FakeLayer&) = delete;
  FakeLayer& operator=(const FakeLayer&) = delete;

  // In the order of kLayerInputs.
  static const std::byte* layer_input(const KernelCall& call, size_t i) {
    const std::byte* const all[] = {call.x,   call.w_q, call.w_k,
                                    call.w_v, call.w_o, call.b_q,
                                    call.b_k, call.b_v, call.b_o};
    return all[i];
  }

 private:
  const FakeRotation turn_;
  std::array<std::vector<double>, std::size(kLayerInputs)> values_;
  std::vector<int64_t> places_;
};

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_TESTING_FAKE_LAYER_H_
