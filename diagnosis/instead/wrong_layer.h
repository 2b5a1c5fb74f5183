// SPDX-License-Identifier: Apache-2.0
// The answer of a layer, and the right result of each of its stages.
#ifndef QKVET_DIAGNOSIS_INSTEAD_WRONG_LAYER_H_
#define QKVET_DIAGNOSIS_INSTEAD_WRONG_LAYER_H_

#include <vector>

#include "diagnosis/instead/description.h"
#include "reference/layer/layer.h"

namespace qkvet::diagnosis {

// The result of a projection: q, k, v or y.
TensorName name_of(Projection which);

class LayerAnswer {
 public:
  // Both must outlive it.
  LayerAnswer(const WrongAnswer& answer, const JudgedKernel& kernel);

  const LayerProblem& problem() const { return problem_; }
  Dtype stage_type() const { return stage_type_; }
  bool has_stages() const;
  const PrecisionModel& model() const;
  // The heads as the kernel returned them.
  const std::vector<double>& attended() const { return attended_; }

  // The stage of that name of another layer, on the kernel's inputs of that
  // stage.
  Predicted predicted(const LayerProblem& problem, TensorName name) const;
  // y of merged heads, [B T,H dv].
  Predicted output_of(const LayerProblem& problem,
                      const std::vector<double>& merged) const;
  // Attention on the returned q, k and v; and the result of another one.
  Problem attention() const;
  Predicted attended_of(const Problem& problem) const;

 private:
  const WrongAnswer* answer_;
  const JudgedKernel* kernel_;
  LayerProblem problem_;
  Dtype stage_type_;
  std::vector<double> q_, k_, v_, attended_;
};

// Fills in answer.outputs: the first stage that departs.
void find_in_layer(const JudgedKernel& kernel, WrongAnswer& answer);

// readings_of_layers.cpp: the numbers of a stage under another reading.
std::vector<Description> descriptions_of_layers(const JudgedKernel& kernel,
                                                TensorName output);

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_INSTEAD_WRONG_LAYER_H_
