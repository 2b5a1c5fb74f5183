// SPDX-License-Identifier: Apache-2.0
// Lines of a report: a name, and a text that continues under its own beginning.
#ifndef QKVET_REPORT_LINES_H_
#define QKVET_REPORT_LINES_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/floors.h"

namespace qkvet::report {

inline constexpr size_t kLineWidth = 86;
inline constexpr size_t kNameWidth = 12;

// "  law         The weights of ...", as long as the text is.
std::string field(std::string_view name, std::string_view text);
// The same in lines of `width` at most, if words and `commands` allow it.
std::string wrapped_field(std::string_view name, std::string_view text,
                          size_t width = kLineWidth);

// "a, b, c".
std::string joined(const std::vector<std::string>& words,
                   const char* between = ", ");
std::string joined(std::span<const int64_t> numbers,
                   const char* between = ", ");

// "1 law", "12,345 cases"
std::string counted(int64_t n, const char* what);
// "12,345"
std::string grouped(int64_t n);
// The ratio of an error and its bound: "6.8", "inf"; "> 1" just above 1.
std::string ratio_text(double ratio);
// The largest ratio of many: "<= 1 passes" for a number that would print as 1.
std::string worst_text(double ratio);

// For the text and the attributes of XML and HTML.
std::string xml_escaped(std::string_view text);

}  // namespace qkvet::report

#endif  // QKVET_REPORT_LINES_H_
