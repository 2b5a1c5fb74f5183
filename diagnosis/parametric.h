// SPDX-License-Identifier: Apache-2.0
// Hypotheses with a number: another scale, a shifted mask, lost keys, another
// declared precision. Each is the definition of attention with one change, and
// its bound is exact.
#ifndef QKVET_DIAGNOSIS_PARAMETRIC_H_
#define QKVET_DIAGNOSIS_PARAMETRIC_H_

#include <memory>
#include <vector>

#include "diagnosis/instead/reading.h"
#include "diagnosis/suspect.h"

namespace qkvet::diagnosis {

// The oracle computes another reading of each case. Only agreement is
// predicted: other laws have no oracle.
class ReadingSuspect : public Suspect {
 public:
  ReadingSuspect(Cause cause, Edit edit)
      : Suspect(std::move(cause), /*rank=*/1), edit_(std::move(edit)) {}

  Word says(Evidence& evidence, const Witness& witness) override;

 private:
  Edit edit_;
};

// measured_scale.cpp: the factors of q k^T that a kernel may really use, by its
// answers to two keys; none if it is the scale of the call.
std::vector<std::unique_ptr<Suspect>> measured_scales(const Case& value,
                                                      Witness& witness);

// Hypotheses for a case of this kind. A scale is measured first, by a few
// calls.
std::vector<std::unique_ptr<Suspect>> parametric_suspects(const Case& value,
                                                          Witness& witness);

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_PARAMETRIC_H_
