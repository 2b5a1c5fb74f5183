// SPDX-License-Identifier: Apache-2.0
// For tests: the tensors of the gradient of one layer call, with dY of its own.
#ifndef QKVET_IMPL_TESTING_LAYER_GRADIENT_FIXTURE_H_
#define QKVET_IMPL_TESTING_LAYER_GRADIENT_FIXTURE_H_

#include <vector>

#include "impl/testing/layer_fixture.h"

namespace qkvet::impl {

inline constexpr float kUnwritten = -77;

// The tensors that a layer is differentiated by, in one order.
inline constexpr AnyTensor LayerTensors::*kLayerInputs[] = {
    &LayerTensors::x,   &LayerTensors::w_q, &LayerTensors::w_k,
    &LayerTensors::w_v, &LayerTensors::w_o, &LayerTensors::b_q,
    &LayerTensors::b_k, &LayerTensors::b_v, &LayerTensors::b_o};
inline constexpr const char* kGradientNames[] = {"d_x",   "d_w_q", "d_w_k",
                                                 "d_w_v", "d_w_o", "d_b_q",
                                                 "d_b_k", "d_b_v", "d_b_o"};

struct LayerGradientTensors {
  explicit LayerGradientTensors(const LayerProblem& p)
      : call(p), d_y(p.type, call.y.shape(), p.layout) {
    for (const auto input : kLayerInputs) {
      outputs.emplace_back(p.type, (call.*input).shape(), p.layout);
    }
    uint64_t index = 0;
    const std::vector<int64_t>& n = d_y.shape();
    for (int64_t row = 0; row < n[1] * n[2]; ++row) {
      for (int64_t c = 0; c < n[3]; ++c) {
        d_y.set(0, row / n[2], row % n[2], c,
                any_value(p.type, 16 * p.seed + 15, ++index));
      }
    }
  }

  qkvet_layer_backward_args args() {
    layer = call.args();
    layer.y = layer.q = layer.k = layer.v = layer.attended = {};
    for (AnyTensor& out : outputs) {
      out.fill(kUnwritten);
    }
    const LayerProblem& p = call.problem;
    const int32_t rank = p.unbatched ? 2 : 3;
    qkvet_layer_backward_args args = {};
    args.struct_size = sizeof(args);
    args.layer = &layer;
    args.d_y = d_y.tensor(rank);
    args.d_x = outputs[0].tensor(rank);
    qkvet_tensor* const matrices[] = {&args.d_w_q, &args.d_w_k, &args.d_w_v,
                                      &args.d_w_o};
    qkvet_tensor* const biases[] = {&args.d_b_q, &args.d_b_k, &args.d_b_v,
                                    &args.d_b_o};
    for (size_t n = 0; n < 4; ++n) {
      *matrices[n] = outputs[1 + n].tensor(2);
      *biases[n] = p.biases ? outputs[5 + n].tensor(1) : qkvet_tensor{};
    }
    return args;
  }

  LayerTensors call;
  AnyTensor d_y;
  std::vector<AnyTensor> outputs;  // as kLayerInputs
  qkvet_layer_args layer = {};
};

inline LayerAnswer run_gradient(const qkvet_kernel* kernel,
                                const qkvet_layer_backward_args& args) {
  LayerAnswer answer;
  Reason reason;
  answer.status = kernel->backward->layer_backward(kernel, nullptr, &args,
                                                   nullptr, &reason.text);
  answer.reason = reason.room;
  return answer;
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_TESTING_LAYER_GRADIENT_FIXTURE_H_
