// SPDX-License-Identifier: Apache-2.0
// A hypothesis about the mistake of a kernel: it predicts the kernel's answers,
// right or wrong, or it is dropped.
#ifndef QKVET_DIAGNOSIS_SUSPECT_H_
#define QKVET_DIAGNOSIS_SUSPECT_H_

#include <memory>
#include <string>
#include <vector>

#include "diagnosis/match.h"

namespace qkvet::diagnosis {

class Suspect {
 public:
  virtual ~Suspect() = default;

  virtual const std::string& name() const = 0;   // "tail_tile_unmasked"
  virtual const std::string& cause() const = 0;  // a sentence
  virtual const std::string& fix() const = 0;    // a sentence
  // Laws that name it, the one that explains it best first.
  virtual std::vector<std::string> laws() const { return {}; }
  // The condition, as in catalogues, under which it shows; "": always.
  virtual std::string when() const { return ""; }
  // If several fit, the lowest rank wins: a known bug before a number that
  // fits, and that before a declaration.
  virtual int rank() const = 0;
  // A bare bound predicts how far the numbers may be off, not which numbers
  // they are. Any other small error agrees as well, so that it is never sure.
  virtual bool is_mere_bound() const { return false; }

  virtual Word says(Evidence& evidence, const Witness& witness) = 0;
  // Predicted outcomes of calls that have not been made; empty: no prediction.
  virtual std::vector<CallOutcome> predict(const Evidence&, const Witness&) {
    return {};
  }
};

// One fault of a library of faults.
class FaultSuspect : public Suspect {
 public:
  // `variant`: "" or how the library was opened, "tile=16".
  FaultSuspect(JudgedKernel fault, int index, Executor& executor,
               std::string variant);

  const std::string& name() const override { return name_; }
  const std::string& cause() const override { return cause_; }
  const std::string& fix() const override { return fix_; }
  std::vector<std::string> laws() const override {
    return fault_.info.fault->killed_by;
  }
  std::string when() const override { return fault_.info.fault->when; }
  int rank() const override { return 0; }
  Word says(Evidence& evidence, const Witness& witness) override;
  std::vector<CallOutcome> predict(const Evidence& evidence,
                                   const Witness& witness) override;
  const JudgedKernel& fault() const { return fault_; }

 private:
  bool converts(const std::vector<KernelCall>& calls) const;

  JudgedKernel fault_;
  int index_;
  Executor* executor_;
  std::string name_, cause_, fix_;
};

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_SUSPECT_H_
