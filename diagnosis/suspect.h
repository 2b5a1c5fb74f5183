// SPDX-License-Identifier: Apache-2.0
// A hypothesis about the mistake of a kernel: it predicts the kernel's answers,
// right or wrong, or it is dropped.
#ifndef QKVET_DIAGNOSIS_SUSPECT_H_
#define QKVET_DIAGNOSIS_SUSPECT_H_

#include <memory>
#include <string>
#include <vector>

#include "diagnosis/evidence/cause.h"
#include "diagnosis/match.h"

namespace qkvet::diagnosis {

class Suspect {
 public:
  Suspect(Cause cause, int rank) : cause_(std::move(cause)), rank_(rank) {}
  virtual ~Suspect() = default;

  const std::string& name() const { return cause_.name; }
  const Cause& cause() const { return cause_; }
  // If several fit, the lowest rank wins: a known bug before a number that
  // fits, and that before a declaration.
  int rank() const { return rank_; }
  // The condition, as in catalogues, under which it shows; "": always.
  virtual std::string when() const { return ""; }
  // A bare bound predicts how far the numbers may be off, not which numbers
  // they are. Any other small error agrees as well, so that it is never sure.
  virtual bool is_mere_bound() const { return false; }

  virtual Word says(Evidence& evidence, const Witness& witness) = 0;
  // Predicted outcomes of calls that have not been made; empty: no prediction.
  virtual std::vector<CallOutcome> predict(const Evidence&, const Witness&) {
    return {};
  }

 protected:
  Cause cause_;

 private:
  int rank_;
};

// One fault of a library of faults.
class FaultSuspect : public Suspect {
 public:
  // `variant`: "" or how the library was opened, "tile=16".
  FaultSuspect(JudgedKernel fault, int index, Executor& executor,
               std::string variant);

  std::string when() const override { return fault_.info.fault->when; }
  Word says(Evidence& evidence, const Witness& witness) override;
  std::vector<CallOutcome> predict(const Evidence& evidence,
                                   const Witness& witness) override;
  const JudgedKernel& fault() const { return fault_; }

 private:
  bool converts(const std::vector<KernelCall>& calls) const;

  JudgedKernel fault_;
  int index_;
  Executor* executor_;
};

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_SUSPECT_H_
