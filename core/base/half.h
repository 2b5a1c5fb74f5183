// SPDX-License-Identifier: Apache-2.0
// f16 and bf16 as bit patterns. Conversions from double round once, to nearest,
// ties to even: by way of float they would round twice.
#ifndef QKVET_CORE_BASE_HALF_H_
#define QKVET_CORE_BASE_HALF_H_

#include <cstdint>

#include "core/base/dtype.h"

namespace qkvet {

uint16_t f16_from_double(double value);
double f16_to_double(uint16_t bits);
uint16_t bf16_from_double(double value);
double bf16_to_double(uint16_t bits);

// The nearest value of the type, as a double; too large becomes infinity. f64,
// f32, f16 and bf16.
double round_to(Dtype dtype, double value);
// For the same types.
double largest_finite(Dtype dtype);

// Unit roundoff 2^-p (f64 2^-53, f32 2^-24, f16 2^-11, bf16 2^-8), and half of
// the smallest subnormal, by which a value that underflows may be off.
double unit_roundoff(Dtype dtype);
double underflow_error(Dtype dtype);

}  // namespace qkvet

#endif  // QKVET_CORE_BASE_HALF_H_
