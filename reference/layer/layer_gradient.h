// SPDX-License-Identifier: Apache-2.0
// What the gradient of a layer is, from d_y to the gradients of x and of all
// parameters, and how far a kernel that returns no stages may be from it.
// Derivation: bounds.md, "The gradient of a layer".
#ifndef QKVET_REFERENCE_LAYER_LAYER_GRADIENT_H_
#define QKVET_REFERENCE_LAYER_LAYER_GRADIENT_H_

#include <vector>

#include "reference/gradient/gradient.h"
#include "reference/layer/layer.h"

namespace qkvet::reference {

// Every input exact in double. A kernel is given the inputs of the layer and
// d_y, nothing of the forward pass.
struct LayerGradientProblem {
  LayerProblem forward;
  const double* d_y = nullptr;  // [B,T,D]
};

// Each in the shape of what it is the gradient of (LayerProblem); those of the
// biases whether or not the layer has them.
struct LayerGradientOutput {
  std::vector<double> x;  // [B,T,D]
  std::vector<double> w_q, w_k, w_v, w_o;
  std::vector<double> b_q, b_k, b_v, b_o;
};

// The definition, in double: the transposed projections around plain_backward,
// and rotations turned back.
LayerGradientOutput plain_layer_backward(const LayerGradientProblem& problem);

// A direction to move the inputs in, in the shapes of LayerProblem; null: not
// moved. That of a bias is null if the layer has none.
struct LayerDirection {
  const double* x = nullptr;
  const double* w_q = nullptr;
  const double* w_k = nullptr;
  const double* w_v = nullptr;
  const double* w_o = nullptr;
  const double* b_q = nullptr;
  const double* b_k = nullptr;
  const double* b_v = nullptr;
  const double* b_o = nullptr;
};

// The derivative of sum d_y y in the given direction, by dual numbers of
// double-double through projections, rotations and attention.
double layer_directional_derivative(const LayerGradientProblem& problem,
                                    const LayerDirection& direction);

// As in GradientBound: before the rounding to the output format, and what lost
// terms of the last sum could change.
struct LayerGradientBound {
  LayerGradientOutput bound;
  LayerGradientOutput reach;
};

// `forward` is the output of plain_layer, `truth` of plain_layer_backward.
// `model` is that of the case, `stage` the type that stages may be stored as,
// those of the gradient too: as in layer_bound().
LayerGradientBound layer_backward_bound(const LayerGradientProblem& problem,
                                        const LayerOutput& forward,
                                        const LayerGradientOutput& truth,
                                        const PrecisionModel& model,
                                        Dtype stage);

}  // namespace qkvet::reference

#endif  // QKVET_REFERENCE_LAYER_LAYER_GRADIENT_H_
