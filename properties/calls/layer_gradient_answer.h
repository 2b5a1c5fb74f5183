// SPDX-License-Identifier: Apache-2.0
// The gradient of one layer call: the truth, and the bounds of all models about
// it. A kernel is given no results of the forward pass, so none of them depends
// on the dialect.
#ifndef QKVET_PROPERTIES_CALLS_LAYER_GRADIENT_ANSWER_H_
#define QKVET_PROPERTIES_CALLS_LAYER_GRADIENT_ANSWER_H_

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "properties/judging/law.h"
#include "reference/layer/layer_gradient.h"

namespace qkvet::properties {

// The gradients of one layer call, and their bound.
struct LayerGradientTruth {
  const LayerGradientProblem* problem = nullptr;
  LayerGradientOutput values;
  LayerGradientBound bound;
  // As in GradientTruth.
  std::map<TensorName, double>* changes = nullptr;
};

class LayerGradientAnswer {
 public:
  // `value` and `inputs` outlive this.
  LayerGradientAnswer(const Case& value, const Inputs& inputs);
  LayerGradientAnswer(const LayerGradientAnswer&) = delete;
  LayerGradientAnswer& operator=(const LayerGradientAnswer&) = delete;

  // Once.
  void find_truth();
  // With the bound of this model, for stages that may be stored as `stage`.
  // find_truth() was called.
  const Truth& truth_for(const PrecisionModel& model, Dtype stage);

 private:
  struct Known {
    PrecisionModel model;
    Dtype stage = Dtype::kF32;
    LayerGradientTruth gradient;
    Truth truth;
  };

  LayerGradientProblem problem_;
  std::optional<LayerOutput> forward_;
  LayerGradientOutput truth_;
  std::map<TensorName, double> changes_;
  std::vector<std::unique_ptr<Known>> known_;
};

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CALLS_LAYER_GRADIENT_ANSWER_H_
