// SPDX-License-Identifier: Apache-2.0
#include "cli/mutate/trap.h"

namespace qkvet::cli {

size_t begin_of_statement(const Tokens& tokens, size_t i) {
  int choices = 0;  // later ?
  for (;;) {
    const size_t around = tokens[i].inside;
    if (around == kNoToken) return kNoToken;
    if (tokens.text(around) != "{") {
      i = around;
      choices = 0;
      continue;
    }
    if (i == 0) return kNoToken;
    size_t before = i - 1;
    const std::string_view text = tokens.text(before);
    if (text == ";" || text == "{" || text == "}" || text == "else" ||
        text == "do")
      return i;
    if (text == "?") ++choices;
    if (text == ":" && choices == 0) return kNoToken;
    if (text == "=>") return kNoToken;
    if (tokens[before].partner < before) {
      const size_t open = tokens[before].partner;
      const std::string_view head = open > 0 ? tokens.text(open - 1) : "";
      if (text == ")" && (head == "if" || head == "for" || head == "while" ||
                          head == "constexpr"))
        return i;
      before = open;
    }
    i = before;
  }
}

std::optional<std::string> with_trap(const Tokens& tokens,
                                     const Mutation& mutation) {
  if (mutation.edits.empty()) return std::nullopt;
  size_t i = 0;
  while (i < tokens.size() && tokens[i].at < mutation.edits[0].at) ++i;
  if (i == 0 || i >= tokens.size()) return std::nullopt;
  const size_t first = begin_of_statement(tokens, i);
  if (first == kNoToken || first == 0) return std::nullopt;
  const std::string_view before = tokens.text(first - 1);
  const bool plain = before == ";" || before == "{" || before == "}";
  if (tokens.is_rust() && !plain) return std::nullopt;
  const std::string trap = tokens.is_rust() ? "std::process::abort(); "
                           : plain          ? "__builtin_trap(); "
                                            : "if (__builtin_trap(), 1) ";
  std::string source = tokens.source();
  return source.insert(tokens[first].at, trap);
}

}  // namespace qkvet::cli
