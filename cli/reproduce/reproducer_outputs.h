// SPDX-License-Identifier: Apache-2.0
// Expected and actual outputs of a call, element by element.
#ifndef QKVET_CLI_REPRODUCE_REPRODUCER_OUTPUTS_H_
#define QKVET_CLI_REPRODUCE_REPRODUCER_OUTPUTS_H_

#include "cli/reproduce/reproducer.h"
#include "properties/checking/case_work.h"

namespace qkvet::cli {

// Every output that the plan of `written` has. `value` is the case.
void add_outputs(const Case& value, const CaseWork::WholeCall& whole,
                 const CallOutcome& outcome, const JudgedKernel& kernel,
                 WrittenCall& written);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_REPRODUCE_REPRODUCER_OUTPUTS_H_
