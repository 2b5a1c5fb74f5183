// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/adjoint.h"
#include "properties/calls/gradient_calls.h"
#include "properties/calls/layer_calls.h"
#include "properties/calls/subject_calls.h"

namespace qkvet::properties {
namespace of_layer_backward_is_the_adjoint {

// Every input is moved in small layers. In others, where dual numbers through
// the whole layer take long, each case moves a third of them.
bool is_moved(const Case& value, TensorName tensor) {
  constexpr int64_t kFewProducts = 4096;
  constexpr uint64_t kOneOf = 3;
  const Shape& s = value.shape;
  const int64_t products =
      s.B * s.Tq *
      (s.D * (2 * s.H * s.d + 2 * s.H * s.dv) + s.H * s.Tq * (s.d + s.dv));
  return products <= kFewProducts ||
         (value.seed + output_in_draws(tensor)) % kOneOf == 0;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  for (const TensorName tensor : kLayerGradients)
    if (is_moved(input.value, tensor))
      compare_with_change(
          input, tensor,
          "the gradient of this row is not the change of the layer", judgement);
  return judgement;
}

}  // namespace of_layer_backward_is_the_adjoint

extern constinit const Law layer_backward_is_the_adjoint{
    "layer_backward_is_the_adjoint",
    "The gradient of a layer is the change of the layer: moved along a row of "
    "one input, y changes as the gradient predicts.",
    "<dy, J dp> = <dp, J^T dy>, dp in one row of x, of a matrix or in a bias",
    "none",
    "layer_backward() applies the transpose of the derivative of the layer.",
    "The sum of |dp| times the bounds of the elements and their own rounding; "
    "the change is computed by dual numbers in double-double.",
    "(d) it needs no formula for a gradient and kills a mistake in the one "
    "that the reference has",
    40,
    Domain{.subject = Subject::kLayerBackward, .allows = kLayerOptions},
    constrain_layer,
    plan_one_call<nullptr>,
    of_layer_backward_is_the_adjoint::judge};

}  // namespace qkvet::properties
