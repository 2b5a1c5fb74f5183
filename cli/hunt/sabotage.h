// SPDX-License-Identifier: Apache-2.0
// Laws under an oracle that shares the kernel's mistake. A fault of impl/faulty
// is paired with a seeded fault of the references that has the same mechanism;
// the reference replaces the oracle, without a twin. Agreement then sees
// nothing: any law that still fails does not depend on the oracle.
#ifndef QKVET_CLI_HUNT_SABOTAGE_H_
#define QKVET_CLI_HUNT_SABOTAGE_H_

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cli/kernels/kernels.h"
#include "properties/checking/case_work.h"
#include "reference/seeded/seeded.h"
#include "report/exit_code.h"

namespace qkvet::cli {

struct SabotagePair {
  const char* fault;   // without its family
  SeededFault seeded;  // of a reference
  Oracle oracle;       // that reference
  // Cases for which the two do the same. For others they differ in aspects that
  // the mechanism leaves open, and agreement would see that.
  bool (*alike)(const Case& value);
  // "" or why only agreement kills the fault, with any oracle.
  const char* agreement_alone = "";
};
std::span<const SabotagePair> sabotage_pairs();

struct SabotageResult {
  bool killed = false;
  int64_t checked = 0;  // cases with a verdict, up to the first kill
  std::string by = {};  // the case that killed it
};

// Runs the faults of the pairs, in one worker.
class Sabotage {
 public:
  Sabotage();
  // "" or why nothing can be run.
  const std::string& error() const { return error_; }

  // Laws about attention, in their order: all faults are about it.
  static std::vector<const Law*> laws();

  // Tries the law on up to `cases` of its planned cases.
  SabotageResult run(const SabotagePair& pair, Oracle oracle, const Law& law,
                     int64_t cases);

 private:
  const KernelUnderTest* kernel_of(const SabotagePair& pair) const;

  SelectedKernels selected_;
  std::unique_ptr<Executor> executor_;
  std::string error_;
};

// One law on one pair, with the right oracle or with the one that shares the
// fault.
struct SabotageLine {
  const SabotagePair* pair = nullptr;
  bool shares = false;
  const Law* law = nullptr;
  SabotageResult result = {};
};
// Every pair under every law about attention with both oracles, in this order,
// on threads with a worker each. `cases` for each of them.
std::vector<SabotageLine> run_sabotage(int64_t cases, int jobs,
                                       std::string* error);

// A line for each pair of a fault and the oracle that shares it.
std::string sabotage_text(const std::vector<SabotageLine>& lines);
// kLawFailed if some pair lives and no reason is known.
ExitCode sabotage_exit(const std::vector<SabotageLine>& lines);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_HUNT_SABOTAGE_H_
