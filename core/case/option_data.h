// SPDX-License-Identifier: Apache-2.0
// Inside of make_inputs(): what the options of attention add to the data, and
// what they do to q, k and v.
#ifndef QKVET_CORE_CASE_OPTION_DATA_H_
#define QKVET_CORE_CASE_OPTION_DATA_H_

#include "core/case/case.h"

namespace qkvet {

// Mask, bias, sink and slopes, in double.
void fill_option_data(const Case& value, Inputs& inputs);
// After the set= values: k and v the same along the shared extents, and NaN in
// the rows that do not count.
void share_and_poison(const Case& value, Inputs& inputs);

}  // namespace qkvet

#endif  // QKVET_CORE_CASE_OPTION_DATA_H_
