// SPDX-License-Identifier: Apache-2.0
// Lines of a report: a name, and a text that continues under its own beginning.
#ifndef QKVET_TOOLS_BASE_LINES_H_
#define QKVET_TOOLS_BASE_LINES_H_

#include <string>
#include <string_view>
#include <vector>

namespace qkvet::tools {

inline constexpr size_t kLineWidth = 86;
inline constexpr size_t kNameWidth = 12;

// "  law         The weights of ...", as long as the text is.
std::string field(std::string_view name, std::string_view text);
// The same in lines of `width` at most, where words and `commands` allow it.
std::string wrapped_field(std::string_view name, std::string_view text,
                          size_t width = kLineWidth);

// "a, b, c".
std::string joined(const std::vector<std::string>& words,
                   const char* between = ", ");

}  // namespace qkvet::tools

#endif  // QKVET_TOOLS_BASE_LINES_H_
