// SPDX-License-Identifier: Apache-2.0
// qkvet judge: answers that were recorded.
#include "tools/commands.h"

namespace qkvet {

ExitCode run_judge(const JudgeOptions& options) {
  if (options.targets.size() == 1 && is_plan(options.targets[0]))
    return run_judge_plan(options);
  return wrong_use(options.targets[0] +
                   ": allowed is the folder of a plan, as qkvet emit writes "
                   "it");
}

}  // namespace qkvet
