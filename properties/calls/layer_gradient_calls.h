// SPDX-License-Identifier: Apache-2.0
// Calls of layer_backward(), and their gradients element by element.
#ifndef QKVET_PROPERTIES_CALLS_LAYER_GRADIENT_CALLS_H_
#define QKVET_PROPERTIES_CALLS_LAYER_GRADIENT_CALLS_H_

#include <string>
#include <vector>

#include "properties/judging/law.h"
#include "reference/layer/layer_gradient.h"

namespace qkvet::properties {

// In the order of the inputs that they are the gradients of.
inline constexpr TensorName kLayerGradients[] = {
    TensorName::kDX,  TensorName::kDWq, TensorName::kDWk,
    TensorName::kDWv, TensorName::kDWo, TensorName::kDBq,
    TensorName::kDBk, TensorName::kDBv, TensorName::kDBo};

// The input that it is the gradient of: shape and storage type are the same.
TensorName layer_input_of(TensorName gradient);
// "dx[b=0,t=1,c=2]", "dw_q[row=1,column=2]", "db_q[column=1]" for the n-th
// element, packed.
std::string layer_gradient_name(const Shape& shape, TensorName gradient,
                                int64_t n);

const std::vector<double>& layer_gradient_of(const LayerGradientOutput& output,
                                             TensorName gradient);

// As the call returned it, in doubles; empty if it did not: a bias that is not
// part of the layer has no gradient.
std::vector<double> read_layer_gradient(const JudgeInput& input,
                                        const CallView& call,
                                        TensorName gradient);

// One call, with an edit; `truth`: the definition and the bound.
PlannedCall layer_backward_call(bool truth, InputEdit edit = nullptr);

// An element that must be exactly `expected` (+0 and -0 are equal).
void compare_layer_gradient_exactly(const JudgeInput& input,
                                    TensorName gradient, int64_t n,
                                    double actual, double expected,
                                    const char* looks, Judgement& judgement);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CALLS_LAYER_GRADIENT_CALLS_H_
