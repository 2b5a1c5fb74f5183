// SPDX-License-Identifier: Apache-2.0
// Other data for some of the heads of a case.
#ifndef QKVET_PROPERTIES_CALLS_OTHER_DATA_H_
#define QKVET_PROPERTIES_CALLS_OTHER_DATA_H_

#include <functional>

#include "core/base/floors.h"
#include "core/case/case.h"

namespace qkvet::properties {

// Whether key/value head `kv` of member `b`, and its query heads, get other
// data.
using Changes = std::function<bool(int64_t b, int64_t kv)>;

// Eight times a normal, far from the data of the case, so that a leak is
// visible. NaN beyond the lengths stays NaN.
void put_other_data(const Case& value, const Changes& changes, Inputs& inputs);
// For all heads; of a layer another x and dy.
void put_all_other_data(const Case& value, int64_t argument, Inputs& inputs);

// Equal scores. NaN beyond the lengths stays NaN.
void zero_queries(const Case& value, int64_t argument, Inputs& inputs);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CALLS_OTHER_DATA_H_
