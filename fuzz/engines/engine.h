// SPDX-License-Identifier: Apache-2.0
// The engine that makes inputs: libFuzzer, if this program was built with it.
#ifndef QKVET_FUZZ_ENGINES_ENGINE_H_
#define QKVET_FUZZ_ENGINES_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "fuzz/hunt/guide.h"
#include "fuzz/input/input.h"

namespace qkvet::fuzz {

// Whether there is one, and if not why: one line.
bool has_engine();
extern const char* const kNoEngine;

// The functions of a hunt for the engine. Without them the engine itself
// handles the bytes.
struct EngineHooks {
  std::function<void(std::span<const uint8_t>)> run;
  // Rules of a hunt of kernels: inputs are then changed as cases.
  const InputRules* rules = nullptr;
  int values_percent = 0;
};
EngineHooks& engine_hooks();

// The engine's counters for the guide, in the program itself.
std::span<uint8_t> engine_counters();

// Hands the process over. The engine ends it: this returns only if it could not
// begin. Its words are those of the command line, the program's name first.
int run_engine(int argc, char** argv);

}  // namespace qkvet::fuzz

#endif  // QKVET_FUZZ_ENGINES_ENGINE_H_
