// SPDX-License-Identifier: Apache-2.0
#include "tools/lines.h"

#include <fmt/format.h>

#include <algorithm>

namespace qkvet {

std::string field(std::string_view name, std::string_view text) {
  return fmt::format("  {:<{}}{}\n", name, kNameWidth, text);
}

std::string wrapped_field(std::string_view name, std::string_view text) {
  constexpr size_t kIndent = kNameWidth + 2;
  std::string out, line;
  for (size_t at = 0; at < text.size();) {
    const size_t space = std::min(text.find(' ', at), text.size());
    const std::string_view word = text.substr(at, space - at);
    if (!line.empty() && kIndent + line.size() + 1 + word.size() > kLineWidth) {
      out += field(name, line);
      name = "";
      line.clear();
    }
    if (!line.empty()) line += ' ';
    line += word;
    at = space + 1;
  }
  return out + field(name, line);
}

}  // namespace qkvet
