// SPDX-License-Identifier: Apache-2.0
// Cases like a failing one: with other data, other extents, fewer options.
#ifndef QKVET_DIAGNOSIS_EVIDENCE_NEARBY_H_
#define QKVET_DIAGNOSIS_EVIDENCE_NEARBY_H_

#include <string>

#include "diagnosis/evidence/evidence.h"

namespace qkvet::diagnosis {

// Case `n` near `value` in the law's domain: a pure function. The options stay.
Case nearby_case(const Law& law, const Case& value, int n);

// Planned case `n` of a law, with the case's storage types, no further options,
// and about its size.
Case planned_nearby(const Law& law, const Case& value,
                    const JudgedKernel& kernel, int n);

// Neighbours of the failing case that pass or fail: "Tk = 4, 8 pass; Tk = 1, 3
// fail". One extent or option is changed at a time; "" if nothing near it
// passes. If a sentence already describes them, only the order of threads is
// tried.
std::string hidden_among_neighbours(const Law& law, const Case& value,
                                    Witness& witness, bool has_sentence);

// A case like it that most wrong kernels have right: n = 0, one query and one
// key; n = 1, one channel as well.
Case simplest_nearby(const Law& law, const Case& value, int n);

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_EVIDENCE_NEARBY_H_
