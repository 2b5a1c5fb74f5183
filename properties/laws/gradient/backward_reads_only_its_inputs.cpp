// SPDX-License-Identifier: Apache-2.0
// The memory law of gradients: the same call with every tensor flush against
// the guard page after it, the same but aligned, and flush against the guard
// page before it. This law owns all touched guard pages, inputs and canaries,
// and all elements that were never written, whichever law about gradients made
// the call.
#include "properties/calls/gradient_calls.h"
#include "properties/judging/placements.h"

namespace qkvet::properties {
namespace of_backward_reads_only_its_inputs {

Plan plan(const Case& value, const KernelInfo& kernel) {
  return plan_placements(backward_call(/*truth=*/false), value, kernel);
}

}  // namespace of_backward_reads_only_its_inputs

extern constinit const Law backward_reads_only_its_inputs{
    "backward_reads_only_its_inputs",
    "backward() reads only the bytes of its inputs, o and lse among them, "
    "writes exactly the elements of its gradients, and leaves its caller's "
    "state as it was.",
    "read(addresses) in q, k, v, o, lse, dO; written(addresses) = dq, dk, dv",
    "none",
    "The call names all memory that takes part in it.",
    "Nothing is rounded: a byte is touched or it is not.",
    "(c) it reaches memory that no gradient shows",
    10,
    Domain{.subject = Subject::kBackward,
           .allows = kAllowGradients | QKVET_OPTION_EMPTY_EXTENTS},
    as_it_is,
    of_backward_reads_only_its_inputs::plan,
    judge_placements};

}  // namespace qkvet::properties
