// SPDX-License-Identifier: Apache-2.0
// The same call with other values, for laws about refusals. Extents, options,
// types, layouts, masks, lengths and tables are the form of a call; the values
// of q, k, v and the other operands are not.
#ifndef QKVET_PROPERTIES_RUN_OTHER_VALUES_H_
#define QKVET_PROPERTIES_RUN_OTHER_VALUES_H_

#include "properties/judging/law.h"

namespace qkvet::properties {

// The call as the case has it, with plain normal values, and with zeros.
Plan plan_other_values(const Case& value, const KernelInfo& kernel);

// All of them are taken, or all refused.
Judgement judge_other_values(const JudgeInput& input);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_RUN_OTHER_VALUES_H_
