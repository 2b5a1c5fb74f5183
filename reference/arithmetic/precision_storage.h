// SPDX-License-Identifier: Apache-2.0
// What a storage type means for a model (bounds.md, "Rounded P" and "f64").
#ifndef QKVET_REFERENCE_ARITHMETIC_PRECISION_STORAGE_H_
#define QKVET_REFERENCE_ARITHMETIC_PRECISION_STORAGE_H_

#include "core/base/dtype.h"
#include "reference/arithmetic/precision.h"

namespace qkvet::reference {

bool is_half(Dtype dtype);

// P is rounded to `dtype`: f32, f16 or bf16.
void round_p_to(Dtype dtype, PrecisionModel& model);

// To f32, f16 or bf16.
Rounding rounding_to(Dtype dtype);

}  // namespace qkvet::reference

#endif  // QKVET_REFERENCE_ARITHMETIC_PRECISION_STORAGE_H_
