// SPDX-License-Identifier: Apache-2.0
// Hypotheses with a number in them: another scale, a mask that is shifted, keys
// that are lost, another declared precision. Each is the definition of
// attention, changed in one place; the bound of what it then asks for is exact.
#ifndef QKVET_DIAGNOSIS_PARAMETRIC_H_
#define QKVET_DIAGNOSIS_PARAMETRIC_H_

#include <memory>
#include <vector>

#include "diagnosis/suspect.h"

namespace qkvet::diagnosis {

// Those that concern a case of this kind. A scale is measured first, by a few
// calls.
std::vector<std::unique_ptr<Suspect>> parametric_suspects(const Case& value,
                                                          Witness& witness);

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_PARAMETRIC_H_
