// SPDX-License-Identifier: Apache-2.0
// The rules for a hunt's inputs, from the hunted kernels.
#ifndef QKVET_FUZZ_TARGETS_RULES_H_
#define QKVET_FUZZ_TARGETS_RULES_H_

#include <vector>

#include "fuzz/input/input.h"
#include "fuzz/targets/target.h"
#include "properties/run/runner.h"

namespace qkvet::fuzz {

// Storage types and options that at least one of the kernels declares, and laws
// that require only these. The list of laws may be empty.
InputRules rules_for(const FuzzTarget& target, std::vector<const Law*> laws,
                     const std::vector<KernelUnderTest>& kernels,
                     std::vector<Pin> pins = {});

// Removes kernels of other subjects, which a hunt cannot use.
void keep_subject(const FuzzTarget& target,
                  std::vector<KernelUnderTest>& kernels);

}  // namespace qkvet::fuzz

#endif  // QKVET_FUZZ_TARGETS_RULES_H_
