// SPDX-License-Identifier: Apache-2.0
// Every fault against every law: which law kills it, at which case, after how
// much work, and whether the killing case is inside of its trigger.
#ifndef QKVET_CLI_HUNT_FAULT_HUNT_H_
#define QKVET_CLI_HUNT_FAULT_HUNT_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "properties/run/runner.h"

namespace qkvet::cli {

// A case in which a law failed.
struct Kill {
  int64_t number = 0;  // in the fault's plan, from 1, as `check` counts
  std::string found;   // the case
};

// One fault under one law.
struct FaultPair {
  const Law* law = nullptr;
  bool named = false;        // by the fault's killed_by
  std::string undeclared;    // "" or the law's requirement that the fault lacks
  int64_t checked = 0;       // cases with a verdict, up to the first kill
  std::optional<Kill> kill;  // the first
  double seconds = 0;        // of work on the fault, up to the first kill
  // The first failing case outside of the trigger, and how many there are.
  std::optional<Kill> outside;
  int64_t outsides = 0;
};

struct HuntedFault {
  std::string name;
  std::string when;
  bool triggered = false;             // in some checked case
  int64_t cases = 0;                  // planned cases that were judged
  double seconds = 0;                 // of work, all in all
  std::vector<FaultPair> pairs = {};  // of the laws about it, in their order
};

struct HuntOptions {
  std::vector<const Law*> laws;
  int64_t cases = 0;             // per fault and law
  std::optional<double> budget;  // seconds for each fault instead, whole rounds
  uint64_t seed = 1;
  int jobs = 1;
  bool named = false;       // only the laws that a fault names
  bool every_case = false;  // a law goes on after its first kill
  // Called from any thread, one call at a time.
  std::function<void(size_t done, size_t all)> progress = nullptr;
};

struct Hunt {
  std::vector<HuntedFault> faults;
  double wall_seconds = 0;
  std::string error;  // "" or one line; if set, ignore the other fields
};

// Cases have the extents at which the fault shows, if it declares any, and are
// small otherwise.
void keep_to_fault(const FaultInfo& fault, Scope& scope);

// Kernels that declare a fault.
Hunt hunt_faults(const std::vector<KernelUnderTest>& faults,
                 const ExecutorFactory& open, const HuntOptions& options);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_HUNT_FAULT_HUNT_H_
