// SPDX-License-Identifier: Apache-2.0
// Small cases are shown whole.
#ifndef QKVET_PROPERTIES_CHECKING_PICTURE_H_
#define QKVET_PROPERTIES_CHECKING_PICTURE_H_

#include <string>
#include <vector>

#include "properties/judging/law.h"

namespace qkvet::properties {

// Inputs and outputs of the calls, one line per row of a tensor; empty if there
// are more than 64 numbers. For a story, its commands up to the failing one, if
// they are at most 16. The judgement has a finding.
std::vector<std::string> attention_picture(const JudgeInput& input,
                                           const Judgement& judgement);
std::vector<std::string> merge_picture(const JudgeInput& input,
                                       const Judgement& judgement);
std::vector<std::string> gradient_picture(const JudgeInput& input,
                                          const Judgement& judgement);
std::vector<std::string> story_picture(const JudgeInput& input,
                                       const Judgement& judgement);
std::vector<std::string> layer_picture(const JudgeInput& input,
                                       const Judgement& judgement);
std::vector<std::string> layer_gradient_picture(const JudgeInput& input,
                                                const Judgement& judgement);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CHECKING_PICTURE_H_
