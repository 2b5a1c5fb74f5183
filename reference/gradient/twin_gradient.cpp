// SPDX-License-Identifier: Apache-2.0
// The twin of twin_gradient.h with nothing replaced.
#include "reference/gradient/twin_gradient.h"

namespace qkvet::reference {

GradientOutput twin_backward(const GradientProblem& problem) {
  return twin_backward_with<TwinGradientHooks>(problem);
}

}  // namespace qkvet::reference
