// SPDX-License-Identifier: Apache-2.0
// C for numbers, types and text.
#ifndef QKVET_TOOLS_REPRODUCE_C_TEXT_H_
#define QKVET_TOOLS_REPRODUCE_C_TEXT_H_

#include <cstddef>
#include <string>

#include "core/base/dtype.h"

namespace qkvet::tools {

// A number that reads back as itself.
std::string number_c(double value);
// One element of a tensor, as its type below holds it: halves as their bits.
std::string element_c(const std::byte* at, Dtype dtype);
const char* type_c(Dtype dtype);
// "{QKVET_DTYPE_FLOAT, 32, 1}"
std::string dtype_c(Dtype dtype);
// A literal.
std::string string_c(const std::string& text);
// Lines as a comment, which nothing in them ends.
std::string comment_c(const std::string& text);

}  // namespace qkvet::tools

#endif  // QKVET_TOOLS_REPRODUCE_C_TEXT_H_
