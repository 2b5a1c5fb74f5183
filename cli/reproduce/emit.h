// SPDX-License-Identifier: Apache-2.0
// qkvet replay --out: a failure as a self-contained folder.
#ifndef QKVET_CLI_REPRODUCE_EMIT_H_
#define QKVET_CLI_REPRODUCE_EMIT_H_

#include <string>
#include <vector>

#include "cli/kernels/kernels.h"
#include "properties/run/runner.h"

namespace qkvet::cli {

struct EmitWords {
  std::string folder;  // "" for none
  bool force = false;  // replace an existing folder
};

// "" or an error in --out and --force, or in their use here. Checked before
// anything is run.
std::string emit_misuse(const EmitWords& words, const std::vector<Case>& cases,
                        const std::vector<const Law*>& laws, size_t kernels);

// Writes down the failure of the law. "" or one line why not.
std::string emit_failure(const EmitWords& words, const Law& law,
                         const Case& value, const SelectedKernels& selected,
                         const KernelUnderTest& kernel, Executor& executor,
                         TimeUse& time);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_REPRODUCE_EMIT_H_
