// SPDX-License-Identifier: Apache-2.0
// Several mutants under one plan: a case, its oracle and its bound are made
// once, and the original and all living mutants answer it.
#ifndef QKVET_CLI_MUTATE_MUTANT_RUN_H_
#define QKVET_CLI_MUTATE_MUTANT_RUN_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/kernels/kernels.h"
#include "cli/mutate/mutant_record.h"

namespace qkvet::cli {

// A library and its kernels, open in a worker.
struct OpenedLibrary {
  SelectedKernels selected;
  std::unique_ptr<Executor> executor;
  std::string declared;  // the declarations of all its kernels, as bytes
  std::string error;     // one line; if set, ignore the other fields
};
// `words`: --dialect and --precision, and the selected kernels.
OpenedLibrary open_built(const std::string& library,
                         const KernelSelection& words);

struct MutantLimits {
  std::vector<const Law*> laws;
  int64_t cases = 0;             // per kernel and subject, as `check` counts
  std::optional<double> budget;  // seconds per mutant, including shared work
  uint64_t seed = 1;
  Scope scope;  // sizes and pins
  std::function<bool()> stop;
  // Called for each mutant as soon as it is dead.
  std::function<void(const MutantRecord&)> killed = {};
};

struct Contestant {
  OpenedLibrary* library = nullptr;
  MutantRecord* record = nullptr;  // gets fate, how, law, ... and survival
};

// Judges all of them until each is dead or the plan is over. They share a
// declaration; a mutant with another declaration than the original is judged by
// its own plan, alone. False if `stop` ended it: then the records are not
// valid.
bool judge_mutants(OpenedLibrary& original, std::vector<Contestant> mutants,
                   const MutantLimits& limits);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_MUTATE_MUTANT_RUN_H_
