// SPDX-License-Identifier: Apache-2.0
// Inside of the spelling of a Case: single values.
#ifndef QKVET_CORE_CASE_CASE_SET_H_
#define QKVET_CORE_CASE_CASE_SET_H_

#include <string>
#include <string_view>

#include "core/case/case.h"

namespace qkvet {

// The text after set=, as in k.0.1.2.3:0x1.8p+1; `token` is all of it. Returns
// "" or the mistake. Indices are not compared with the extents.
std::string read_set_value(std::string_view text, std::string_view token,
                           SetValue* set);

}  // namespace qkvet

#endif  // QKVET_CORE_CASE_CASE_SET_H_
