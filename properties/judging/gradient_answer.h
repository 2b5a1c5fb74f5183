// SPDX-License-Identifier: Apache-2.0
// The gradient of one call: the kernel's inputs from the forward pass, the
// truth, and the bounds of all models about it.
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
  struct Known {
    PrecisionModel model;
    GradientTruth gradient;
    Truth truth;
  };

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
  std::map<TensorName, double> changes_;
  std::string twin_disagrees_;
  std::vector<std::unique_ptr<Known>> known_;
};

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_JUDGING_GRADIENT_ANSWER_H_
