// SPDX-License-Identifier: Apache-2.0
// Inside of the spelling of a Case: pieces of text that several files read and
// print.
#ifndef QKVET_CORE_CASE_CASE_TEXT_H_
#define QKVET_CORE_CASE_CASE_TEXT_H_

#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include "core/case/recipe.h"

namespace qkvet {

inline std::string quoted(std::string_view token) {
  return "\"" + std::string(token) + "\"";
}

// The whole of `text` as a number, or nothing.
template <class Number>
std::optional<Number> number(std::string_view text) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, value);
  if (code != std::errc() || stop != end) return std::nullopt;
  return value;
}

// The shortest decimal that reads back as the same float.
inline std::string float_text(float value) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return {buffer, end};
}

// Tokens are separated by commas.
inline void add_token(std::string& text, std::string_view token) {
  if (!text.empty()) text += ',';
  text += token;
}

}  // namespace qkvet

#endif  // QKVET_CORE_CASE_CASE_TEXT_H_
