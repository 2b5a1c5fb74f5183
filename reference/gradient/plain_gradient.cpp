// SPDX-License-Identifier: Apache-2.0
// The definition of plain_gradient.h with nothing replaced, and what it does
// not cover.
#include "reference/gradient/plain_gradient.h"

namespace qkvet::reference {

std::string gradient_not_derived(const PrecisionModel& model, bool drops) {
  const bool stores = drops && model.score.rounds();
  const char* knob = model.dot.rounds()                 ? "dot_sum_dtype"
                     : model.value.rounds()             ? "value_sum_dtype"
                     : stores && model.softmax.rounds() ? "softmax_dtype"
                     : stores                           ? "score_dtype"
                                                        : nullptr;
  return knob == nullptr
             ? ""
             : std::string("gradients ") + (stores ? "under dropout " : "") +
                   "have no derived bound yet where precision knob " + knob +
                   " is declared";
}

GradientOutput plain_backward(const GradientProblem& problem) {
  return plain_backward_with<PlainGradientHooks>(problem);
}

}  // namespace qkvet::reference
