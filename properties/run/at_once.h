// SPDX-License-Identifier: Apache-2.0
// Helpers of laws about calls from several threads at once.
#ifndef QKVET_PROPERTIES_RUN_AT_ONCE_H_
#define QKVET_PROPERTIES_RUN_AT_ONCE_H_

#include <string>

#include "properties/judging/law.h"

namespace qkvet::properties {

// "", or why such a law does not apply to the kernel.
std::string not_at_once_reason(const KernelInfo& kernel);

// All calls of the plan once more, at once: call n is then compared with call n
// + half of them.
void add_at_once(Plan& plan);

// Other data for all heads of the case.
void put_all_other_data(const Case& value, int64_t argument, Inputs& inputs);

// Requires an output of two calls, given by their numbers, to have the same
// bits, also where no law compares it with the truth; NaN is NaN and +0 is -0.
// `place` stands before the name of an element.
void compare_calls_bit_for_bit(const JudgeInput& input, size_t first,
                               size_t second, TensorName output,
                               const char* first_name, const char* second_name,
                               Judgement& judgement,
                               const std::string& place = "");

// The same of call `n` made alone and at once.
void compare_alone_with_at_once(const JudgeInput& input, size_t n,
                                TensorName output, Judgement& judgement,
                                const std::string& place = "");

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_RUN_AT_ONCE_H_
