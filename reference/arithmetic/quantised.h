// SPDX-License-Identifier: Apache-2.0
// How far a number that a cache has stored as a code and a scale may be from
// the number that it was given. Derivation: bounds.md, "Quantised caches".
#ifndef QKVET_REFERENCE_ARITHMETIC_QUANTISED_H_
#define QKVET_REFERENCE_ARITHMETIC_QUANTISED_H_

#include <vector>

#include "core/base/floors.h"
#include "core/call/cache_form.h"

namespace qkvet::reference {

// The error of `x` if the largest code represents `range`: per token the
// largest magnitude of its row, per channel the largest code times the given
// scale. |x| <= range. 0 if numbers are stored as given.
double stored_error(StoredAs stored, double x, double range);

// The errors of all elements of [rows, width]; `scales` [width], used per
// channel alone.
std::vector<double> stored_errors(const CacheForm& form,
                                  const std::vector<double>& values,
                                  size_t width, const double* scales);

}  // namespace qkvet::reference

#endif  // QKVET_REFERENCE_ARITHMETIC_QUANTISED_H_
