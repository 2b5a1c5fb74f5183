// SPDX-License-Identifier: Apache-2.0
// The twins of twin_layer.h with nothing replaced.
#include "reference/layer/twin_layer.h"

namespace qkvet::reference {

std::vector<double> twin_linear(const LinearProblem& problem) {
  return twin_linear_with<TwinLayerHooks>(problem);
}

LayerOutput twin_layer(const LayerProblem& problem) {
  return twin_layer_with<TwinLayerHooks>(problem);
}

}  // namespace qkvet::reference
