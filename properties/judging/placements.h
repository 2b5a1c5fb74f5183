// SPDX-License-Identifier: Apache-2.0
// Checks that memory laws make of one call with its tensors in several places.
#ifndef QKVET_PROPERTIES_JUDGING_PLACEMENTS_H_
#define QKVET_PROPERTIES_JUDGING_PLACEMENTS_H_

#include <optional>
#include <vector>

#include "properties/judging/law.h"

namespace qkvet::properties {

// Whether a number between the inputs and an output may be kept in a format
// that ends at 65504, because of the storage or of the kernel's declaration.
// Another path for another address may then overflow; the bound shows where.
bool may_overflow_in_f16(const Case& value, const KernelInfo& kernel);

// Element n of the same output, its tensors in several places: a finding,
// without its `where`, if it is NaN in some of them alone.
std::optional<Finding> nan_in_one_placement(
    const std::vector<std::vector<double>>& outputs, size_t n, Dtype dtype);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_JUDGING_PLACEMENTS_H_
