// SPDX-License-Identifier: Apache-2.0
// The memory law. The same call is made with every tensor flush against the
// guard page after it, the same but aligned, and flush against the guard page
// before it. The executor detects touches of guard pages and of read-only
// inputs, overwritten canaries and unwritten outputs. The law detects a read
// that stays inside the mapped slack: it turns an output that is finite in one
// placement into NaN in another. On a device, which has no guard pages, that is
// the only sign of a read outside of a tensor; inputs and the memory around all
// tensors are compared after the call.
#include "properties/judging/placements.h"

namespace qkvet::properties {
namespace of_reads_only_its_inputs {

Plan plan(const Case& value, const KernelInfo& kernel) {
  PlannedCall call;
  call.want_lse = wants_lse(kernel);
  call.want_weights = wants_weights(kernel);
  return plan_placements(call, value, kernel);
}

}  // namespace of_reads_only_its_inputs

extern constinit const Law reads_only_its_inputs{
    "reads_only_its_inputs",
    "A kernel reads only the bytes of its inputs, writes exactly the elements "
    "of its outputs, and leaves its caller's state as it was.",
    "read(addresses) in q, k, v; written(addresses) = o, lse, weights",
    "none",
    "The call names all memory that takes part in it.",
    "Nothing is rounded: a byte is touched or it is not.",
    "(c) it reaches memory that no output shows",
    10,
    Domain{.allows = kAllowAll | QKVET_OPTION_EMPTY_EXTENTS |
                     QKVET_OPTION_KEY_LISTS | kAllowFields},
    as_it_is,
    of_reads_only_its_inputs::plan,
    judge_placements};

}  // namespace qkvet::properties
