// SPDX-License-Identifier: Apache-2.0
// What a hunt (fault_hunt.h) means: data in, verdicts out.
#ifndef QKVET_CLI_HUNT_FAULT_VERDICT_H_
#define QKVET_CLI_HUNT_FAULT_VERDICT_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/hunt/fault_hunt.h"
#include "report/exit_code.h"

namespace qkvet::cli {

// A fault that cannot be told from a correct kernel, and why.
struct NearEquivalent {
  std::string_view fault;
  std::string_view reason;
};
std::span<const NearEquivalent> near_equivalents();

// Laws that only compare a kernel's answer with the oracle's.
bool is_agreement(const Law& law);

enum class Fate : uint8_t {
  kKilled,
  kSurvived,        // its trigger occurred, and no law failed
  kNeverTriggered,  // no conclusion about it
  kNearEquivalent   // survived, as it should
};

struct FaultVerdict {
  const HuntedFault* fault = nullptr;
  Fate fate = Fate::kNeverTriggered;
  const FaultPair* first = nullptr;  // lowest case; of equal ones the first law
  int64_t killers = 0;               // laws
  bool killed_without_agreement = false;
  std::vector<const FaultPair*> silent = {};   // named, and did not kill
  std::vector<const FaultPair*> outside = {};  // failed outside of the trigger
};
FaultVerdict verdict_on(const HuntedFault& fault,
                        std::span<const NearEquivalent> known);

struct FaultSummary {
  std::vector<FaultVerdict> verdicts;  // in the order of the hunt
  int64_t killed = 0, survived = 0, never_triggered = 0, near_equivalent = 0;
  int64_t outside = 0;  // pairs
  int64_t silent = 0;   // pairs
  // Seconds of work up to the first kill, over the faults that are killed.
  double median = 0, percentile95 = 0, slowest = 0;
  std::string slowest_name;
  std::vector<std::string> agreement_alone;  // killed by this only
  ExitCode exit = kConforms;
};
// `named`: laws that a fault names must all kill it.
FaultSummary sum_up(const Hunt& hunt, bool named,
                    std::span<const NearEquivalent> known);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_HUNT_FAULT_VERDICT_H_
