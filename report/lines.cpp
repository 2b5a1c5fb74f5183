// SPDX-License-Identifier: Apache-2.0
#include "report/lines.h"

#include <fmt/core.h>

#include <cmath>
#include <iterator>

namespace qkvet::report {

std::string field(std::string_view name, std::string_view text) {
  return fmt::format("  {:<{}}{}\n", name, kNameWidth, text);
}

namespace {

// The end of the word that begins at `at`: a `command` belongs to one.
size_t end_of_word(std::string_view text, size_t at) {
  while (at < text.size() && text[at] != ' ') {
    const size_t closing =
        text[at] == '`' ? text.find('`', at + 1) : std::string_view::npos;
    at = (closing == std::string_view::npos ? at : closing) + 1;
  }
  return at;
}

}  // namespace

std::string wrapped_field(std::string_view name, std::string_view text,
                          size_t width) {
  constexpr size_t kIndent = kNameWidth + 2;
  std::string out, line;
  for (size_t at = 0; at < text.size();) {
    const size_t space = end_of_word(text, at);
    const std::string_view word = text.substr(at, space - at);
    if (!line.empty() && kIndent + line.size() + 1 + word.size() > width) {
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

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string text;
  for (const std::string& word : words)
    text += (text.empty() ? "" : between) + word;
  return text;
}

std::string joined(std::span<const int64_t> numbers, const char* between) {
  std::vector<std::string> words;
  for (const int64_t n : numbers) words.push_back(std::to_string(n));
  return joined(words, between);
}

std::string grouped(int64_t n) {
  std::string out = std::to_string(n);
  for (auto at = std::ssize(out) - 3; at > 0; at -= 3)
    out.insert(static_cast<size_t>(at), 1, ',');
  return out;
}

std::string counted(int64_t n, const char* what) {
  return grouped(n) + " " + what + (n == 1 ? "" : "s");
}

std::string ratio_text(double ratio) {
  if (std::isinf(ratio)) return "inf";
  std::string text = fmt::format("{:.2g}", ratio);
  return text == "1" && ratio > 1 ? "> 1" : text;
}

std::string worst_text(double ratio) {
  const std::string text = ratio_text(ratio);
  return text == "1" ? "<= 1 passes" : text;
}

std::string xml_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        // XML 1.0 has no way to write other control characters.
        out += static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t'
                   ? c
                   : '?';
    }
  return out;
}

}  // namespace qkvet::report
