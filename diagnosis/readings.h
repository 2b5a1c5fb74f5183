// SPDX-License-Identifier: Apache-2.0
// Hypotheses that the oracle can compute: it reads the case differently.
#ifndef QKVET_DIAGNOSIS_READINGS_H_
#define QKVET_DIAGNOSIS_READINGS_H_

#include <memory>
#include <string>
#include <vector>

#include "diagnosis/suspect.h"

namespace qkvet::diagnosis {

class ReadingSuspect : public Suspect {
 public:
  // `reads` stays the same function as long as this lives.
  ReadingSuspect(std::string name, std::string cause, std::string fix,
                 Reading reads)
      : name_(std::move(name)),
        cause_(std::move(cause)),
        fix_(std::move(fix)),
        reads_(std::move(reads)) {}

  const std::string& name() const override { return name_; }
  const std::string& cause() const override { return cause_; }
  const std::string& fix() const override { return fix_; }
  int rank() const override { return 1; }
  // Only agreement is predicted: other laws have no oracle.
  Word says(Evidence& evidence, const Witness& witness) override;

 private:
  std::string name_, cause_, fix_;
  Reading reads_;
};

// Shifted diagonals and windows, and keys that are hidden.
void add_readings(const Case& value,
                  std::vector<std::unique_ptr<Suspect>>& suspects);

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_READINGS_H_
