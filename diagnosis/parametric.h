// SPDX-License-Identifier: Apache-2.0
// Hypotheses with a number: another scale, a shifted mask, lost keys, another
// declared precision. Each is the definition of attention with one change, and
// its bound is exact.
#ifndef QKVET_DIAGNOSIS_PARAMETRIC_H_
#define QKVET_DIAGNOSIS_PARAMETRIC_H_

#include <memory>
#include <vector>

#include "diagnosis/suspect.h"

namespace qkvet::diagnosis {

// Hypotheses for a case of this kind. A scale is measured first, by a few
// calls.
std::vector<std::unique_ptr<Suspect>> parametric_suspects(const Case& value,
                                                          Witness& witness);

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_PARAMETRIC_H_
