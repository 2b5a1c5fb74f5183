// SPDX-License-Identifier: Apache-2.0
// Text of strangers in messages of ours: control characters would leave the one
// line that a message has, or speak to the terminal.
#ifndef QKVET_CORE_BASE_PRINTABLE_H_
#define QKVET_CORE_BASE_PRINTABLE_H_

#include <string>
#include <string_view>

namespace qkvet {

// Control characters as \x1b; everything else, UTF-8 included, as it is.
inline std::string printable(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (code >= 0x20 && code != 0x7F) {
      out += c;
      continue;
    }
    out += "\\x";
    out += kDigits[code / 16];
    out += kDigits[code % 16];
  }
  return out;
}

}  // namespace qkvet

#endif  // QKVET_CORE_BASE_PRINTABLE_H_
