// SPDX-License-Identifier: Apache-2.0
// Python for numbers, tensors and text.
#ifndef QKVET_TOOLS_REPRODUCE_PYTHON_TEXT_H_
#define QKVET_TOOLS_REPRODUCE_PYTHON_TEXT_H_

#include <string>
#include <vector>

#include "tools/reproduce/reproducer.h"

namespace qkvet::tools {

std::string float_py(double value);
std::string truth_py(bool is);
// A literal; None where it is empty.
std::string string_py(const std::string& text);
// Lines inside of a docstring.
std::string quoted_py(const std::string& text);
std::string list_py(const std::vector<int64_t>& numbers);
// bf16 becomes float32, which numpy has.
std::string tensor_py(const NamedTensor& tensor);
// [value, bound, least, largest]
std::string wanted_py(const std::vector<int64_t>& shape,
                      const std::vector<Wanted>& wanted);
// A line of a dict.
std::string entry_py(const std::string& name, const std::string& value);
// "recorded" (a ValueError if the kernel refused), "wanted", "staged" and
// "storage" of a call's outputs, as lines of its dict.
std::string outputs_py(const WrittenCall& call);

}  // namespace qkvet::tools

#endif  // QKVET_TOOLS_REPRODUCE_PYTHON_TEXT_H_
