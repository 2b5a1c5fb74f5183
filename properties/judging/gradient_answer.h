// SPDX-License-Identifier: Apache-2.0
// The gradient of one call, of attention or of a layer: the kernel's inputs
// from the forward pass, the truth, and the bounds of all models about it.
#ifndef QKVET_PROPERTIES_JUDGING_GRADIENT_ANSWER_H_
#define QKVET_PROPERTIES_JUDGING_GRADIENT_ANSWER_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "properties/judging/answer.h"
#include "properties/judging/law.h"
#include "properties/judging/twin_check.h"

namespace qkvet::properties {

// "", or why the gradient of this case is undefined for this kernel: its value
// for a row without a key is not zero, and has a gradient of its own.
std::string unsettled_gradient(const Case& value, const KernelInfo& kernel);

// Equal for kernels with the same given parts of a backward call.
std::string given_text(const KernelInfo& kernel);

// The truths of one call under the models that were asked for.
class KnownGradients {
 public:
  // The same for the same model, and a layer's stages stored as `stage`.
  template <class Make>
  const Truth& get(const PrecisionModel& model, Dtype stage,
                   const OracleOutput& forward, Make make) {
    for (const auto& known : known_)
      if (known->model == model && known->stage == stage) return known->truth;
    known_.push_back(
        std::make_unique<Known>(Known{model, stage, make(), {forward}}));
    Known& known = *known_.back();
    known.gradient.changes = &changes_;
    known.truth.gradient = &known.gradient;
    return known.truth;
  }

 private:
  struct Known {
    PrecisionModel model;
    Dtype stage;
    GradientTruth gradient;
    Truth truth;
  };
  std::map<TensorName, double> changes_;
  std::vector<std::unique_ptr<Known>> known_;
};

class GradientAnswer {
 public:
  // Fills in given_o and given_lse of `inputs`: the truth as forward() would
  // have stored it, in the kernel's own units; zero in rows without a key, and
  // NaN in rows that do not count. `value` and `inputs` outlive this.
  GradientAnswer(const Case& value, Inputs& inputs, const KernelInfo& kernel,
                 const References& references, const Reading& reading);
  GradientAnswer(const GradientAnswer&) = delete;
  GradientAnswer& operator=(const GradientAnswer&) = delete;

  // The truth, once; `with_twin`: compared with the twin's.
  void find_truth(bool with_twin);
  // "" or where the two references differ.
  const std::string& twin_disagrees() const { return twin_disagrees_; }
  // With the bound of this model. find_truth() was called.
  const Truth& truth_for(const PrecisionModel& model);

 private:
  void give(const Case& value, Inputs& inputs, const KernelInfo& kernel);
  void compare_with_twin();
  GradientBound bound_for(const PrecisionModel& model);

  bool f64_;
  References references_;
  OwnedProblem owned_;
  GradientProblem problem_;
  OracleOutput forward_;
  std::vector<double> natural_lse_;  // as given
  std::optional<GradientOutput> truth_;
  std::optional<BoundFacts> facts_;
  std::string twin_disagrees_;
  KnownGradients known_;
};

// A kernel is given no results of the layer's forward pass, so none of these
// depends on the dialect.
class LayerGradientAnswer {
 public:
  // `value` and `inputs` outlive this.
  LayerGradientAnswer(const Case& value, const Inputs& inputs)
      : problem_{layer_problem(value, inputs), inputs.d_y.data()},
        forward_(plain_layer(problem_.forward)),
        truth_(plain_layer_backward(problem_)) {}
  LayerGradientAnswer(const LayerGradientAnswer&) = delete;
  LayerGradientAnswer& operator=(const LayerGradientAnswer&) = delete;

  // With the bound of this model, for stages that may be stored as `stage`.
  const Truth& truth_for(const PrecisionModel& model, Dtype stage);

 private:
  LayerGradientProblem problem_;
  LayerOutput forward_;
  LayerGradientOutput truth_;
  KnownGradients known_;
};

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_JUDGING_GRADIENT_ANSWER_H_
