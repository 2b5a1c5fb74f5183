// SPDX-License-Identifier: Apache-2.0
// What laws about calls from several threads at once share.
#ifndef QKVET_PROPERTIES_RUN_AT_ONCE_H_
#define QKVET_PROPERTIES_RUN_AT_ONCE_H_

#include <functional>
#include <string>

#include "properties/judging/law.h"

namespace qkvet::properties {

// "" or why such a law says nothing about the kernel.
std::string not_at_once_reason(const KernelInfo& kernel);

// All calls of the plan once more, at once: call n is then held against call
// n + half of them.
void add_at_once(Plan& plan);

// Other data for all heads of the case.
void put_all_other_data(const Case& value, int64_t argument, Inputs& inputs);

// An output of two calls, by their numbers, which has to be the same bits; NaN
// is NaN and +0 is -0. `name` says where an element is.
void compare_calls_bit_for_bit(const JudgeInput& input, size_t first,
                               size_t second, TensorName output, Dtype dtype,
                               const std::function<std::string(int64_t)>& name,
                               const char* first_name, const char* second_name,
                               Judgement& judgement);

// An output of call `n` made alone and at once, which have to be the same bits;
// NaN is NaN and +0 is -0. `name` says where an element stands.
void compare_alone_with_at_once(const JudgeInput& input, size_t n,
                                TensorName output, Dtype dtype,
                                const std::function<std::string(int64_t)>& name,
                                Judgement& judgement);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_RUN_AT_ONCE_H_
