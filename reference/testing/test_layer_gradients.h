// SPDX-License-Identifier: Apache-2.0
// Random gradients of layers and correct kernels of them, made of the test
// kernels of projections, attention and its gradient.
#ifndef QKVET_REFERENCE_TESTING_TEST_LAYER_GRADIENTS_H_
#define QKVET_REFERENCE_TESTING_TEST_LAYER_GRADIENTS_H_

#include <vector>

#include "reference/layer/layer_gradient.h"
#include "reference/testing/test_backward.h"
#include "reference/testing/test_layer_kernels.h"
#include "reference/testing/test_layers.h"

namespace qkvet::reference {

struct TestLayerGradient {
  TestLayerProblem layer;
  std::vector<double> d_y;
  LayerGradientProblem problem;

  // Copies move the data: point at it when it is used.
  const LayerGradientProblem& get() {
    problem.forward = layer.get();
    problem.d_y = d_y.data();
    return problem;
  }
};

inline TestLayerGradient random_layer_gradient(TestRandom& random, int problem,
                                               int64_t largest, Dtype storage) {
  const auto regime = static_cast<LayerRegime>(problem % kLayerRegimeCount);
  const Shape s = random_layer_shape(random, largest);
  TestLayerGradient g;
  g.layer = random_layer(random, regime, s, storage);
  g.d_y = random_vector(random, regime, s.B * s.Tq * s.D);
  round_all(g.d_y, storage);
  return g;
}

struct LayerGradientKernel {
  TestLinearKernel linear;
  BackwardKernel attention;
  Dtype stage = Dtype::kF32;  // what all stages are rounded to
};

// In the accumulators of the last products.
LayerGradientOutput run_layer_gradient(const LayerGradientKernel& kernel,
                                       const LayerGradientProblem& problem);

std::vector<LayerGradientKernel> layer_gradient_kernels();

}  // namespace qkvet::reference

#endif  // QKVET_REFERENCE_TESTING_TEST_LAYER_GRADIENTS_H_
