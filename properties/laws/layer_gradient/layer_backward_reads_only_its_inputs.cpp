// SPDX-License-Identifier: Apache-2.0
// The memory law of gradients of layers, as backward_reads_only_its_inputs is
// that of attention: the same call with every tensor flush against the guard
// page after it, the same but aligned, and flush against the one before it.
// This law owns all touched guard pages and canaries and all unwritten
// elements, whichever law made the call.
#include "properties/calls/gradient_calls.h"
#include "properties/calls/layer_calls.h"
#include "properties/judging/placements.h"

namespace qkvet::properties {
namespace of_layer_backward_reads_only_its_inputs {

Plan plan(const Case& value, const KernelInfo& kernel) {
  return plan_placements(layer_backward_call(/*truth=*/false), value, kernel);
}

}  // namespace of_layer_backward_reads_only_its_inputs

extern constinit const Law layer_backward_reads_only_its_inputs{
    "layer_backward_reads_only_its_inputs",
    "layer_backward() reads only the bytes of its inputs, writes exactly the "
    "elements of its gradients, and leaves its caller's state as it was.",
    "read(addresses) in x, W, b, dy; written(addresses) = dx, dW, db",
    "none",
    "The call names all memory that takes part in it.",
    "Nothing is rounded: a byte is touched or it is not.",
    "(c) it reaches memory that no gradient shows",
    10,
    Domain{.subject = Subject::kLayerBackward, .allows = kLayerOptions},
    constrain_layer,
    of_layer_backward_reads_only_its_inputs::plan,
    judge_placements};

}  // namespace qkvet::properties
