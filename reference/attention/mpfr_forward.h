// SPDX-License-Identifier: Apache-2.0
// A third definition of attention, in MPFR: binary floating point of any
// precision, correctly rounded, by another author. It is the standard for both
// references, and far too slow for anything but their test.
#ifndef QKVET_REFERENCE_ATTENTION_MPFR_FORWARD_H_
#define QKVET_REFERENCE_ATTENTION_MPFR_FORWARD_H_

#include "reference/arithmetic/oracle.h"

namespace qkvet::reference {

// Every number of the output is the exact one rounded to double: the error of
// 256 bits is below 2^-200 of the sums it comes from. It shares no code with
// the references; visible keys are determined pair by pair.
OracleOutput mpfr_forward(const Problem& problem);

}  // namespace qkvet::reference

#endif  // QKVET_REFERENCE_ATTENTION_MPFR_FORWARD_H_
