// SPDX-License-Identifier: Apache-2.0
// One program for one target, driven by an external engine.
#ifndef QKVET_FUZZ_ENGINES_STANDALONE_H_
#define QKVET_FUZZ_ENGINES_STANDALONE_H_

#include <span>

#include "fuzz/targets/target.h"
#include "qkvet/kernel.h"

namespace qkvet::fuzz {

// Kernels that are linked into the program.
struct LinkedFamily {
  const char* name;
  qkvet_open_function open;
};

struct StandaloneProgram {
  const FuzzTarget& target;
  std::span<const LinkedFamily> families;  // of a target of kernels
};

// In standalone_program.cpp, which is compiled for each program.
extern const StandaloneProgram kStandaloneProgram;

}  // namespace qkvet::fuzz

#endif  // QKVET_FUZZ_ENGINES_STANDALONE_H_
