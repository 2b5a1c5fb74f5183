// SPDX-License-Identifier: Apache-2.0
// The call of a case and its outputs, whatever its subject is: for laws that
// exist for several subjects. A case about a cache has stories instead.
#ifndef QKVET_PROPERTIES_CALLS_SUBJECT_CALLS_H_
#define QKVET_PROPERTIES_CALLS_SUBJECT_CALLS_H_

#include <functional>
#include <string>

#include "properties/calls/call_pairs.h"

namespace qkvet::properties {

// The call with its truth, and with lse where the kernel has it.
PlannedCall plain_call(const Case& value, const KernelInfo& kernel);
// The call with all outputs of the kernel, and without its truth.
PlannedCall whole_call(const Case& value, const KernelInfo& kernel);

// Plans for laws about one call: with this edit, and its truth.
template <InputEdit edit>
Plan plan_one_call(const Case& value, const KernelInfo& kernel) {
  Plan plan;
  plan.calls = {plain_call(value, kernel)};
  plan.calls[0].edit = edit;
  return plan;
}

// Requires all outputs of two calls to have the same bits, as far as they are
// judged; NaN is NaN and +0 is -0.
void compare_all_bits(const JudgeInput& input, const CallPair& pair,
                      Judgement& judgement);

// The same for one output, also where no law compares it with the truth.
// `place` comes before the name of an element.
void compare_calls_bit_for_bit(const JudgeInput& input, const CallPair& pair,
                               TensorName output, Judgement& judgement,
                               const std::string& place = "");

// "", or why laws about calls at once do not apply to the kernel.
std::string not_at_once_reason(const KernelInfo& kernel);

// All calls of the plan once more, at once: call n is then compared with call n
// + half of them.
void add_at_once(Plan& plan);
CallPair pair_at_once(const JudgeInput& input, size_t n);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CALLS_SUBJECT_CALLS_H_
