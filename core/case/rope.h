// SPDX-License-Identifier: Apache-2.0
// Inside of a Case: the spelling of a rotation, and its tables and positions.
#ifndef QKVET_CORE_CASE_ROPE_H_
#define QKVET_CORE_CASE_ROPE_H_

#include <string>
#include <string_view>

#include "core/case/case.h"

namespace qkvet {

// "rope=half", "rope=interleaved.100", "rope=half4.random".
std::string rope_text(const Rope& rope);
// The text after "rope="; returns "" or one line with the mistake.
std::string read_rope(std::string_view text, std::string_view token,
                      Rope* rope);

// "" or one line with the reason why the case cannot have its rotation.
std::string rope_reason(const Case& value);

// Tables and positions; nothing if the case has no rotation.
void fill_rope(const Case& value, Inputs& inputs);

}  // namespace qkvet

#endif  // QKVET_CORE_CASE_ROPE_H_
