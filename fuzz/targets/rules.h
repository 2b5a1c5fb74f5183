// SPDX-License-Identifier: Apache-2.0
// What the inputs of a hunt are like, as the hunted kernels want it.
#ifndef QKVET_FUZZ_TARGETS_RULES_H_
#define QKVET_FUZZ_TARGETS_RULES_H_

#include <vector>

#include "fuzz/input/input.h"
#include "fuzz/targets/target.h"
#include "properties/run/runner.h"

namespace qkvet::fuzz {

// Storage types and options that some of the kernels declares, and of the laws
// those that ask for nothing else: none may be left.
InputRules rules_for(const FuzzTarget& target, std::vector<const Law*> laws,
                     const std::vector<KernelUnderTest>& kernels,
                     std::vector<Pin> pins = {});

// Kernels of other subjects have nothing to do in a hunt.
void keep_subject(const FuzzTarget& target,
                  std::vector<KernelUnderTest>& kernels);

}  // namespace qkvet::fuzz

#endif  // QKVET_FUZZ_TARGETS_RULES_H_
