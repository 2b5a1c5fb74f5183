// SPDX-License-Identifier: Apache-2.0
// The factor of q k^T that a kernel really uses, computed from two weights.
#ifndef QKVET_DIAGNOSIS_MEASURED_SCALE_H_
#define QKVET_DIAGNOSIS_MEASURED_SCALE_H_

#include <memory>

#include "diagnosis/suspect.h"

namespace qkvet::diagnosis {

// A hypothesis with the measured scale, if it is not the scale of the call;
// else null.
std::unique_ptr<Suspect> measured_scale(const Case& value, Witness& witness);

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_MEASURED_SCALE_H_
