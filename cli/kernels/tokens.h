// SPDX-License-Identifier: Apache-2.0
// A source as tokens, as far as mutations and hints need it: words, numbers and
// operators with their places. Comments, preprocessor lines and attributes are
// not tokens; strings are, and mutations leave them alone.
#ifndef QKVET_CLI_KERNELS_TOKENS_H_
#define QKVET_CLI_KERNELS_TOKENS_H_

#include <string>
#include <string_view>
#include <vector>

#include "cli/kernels/compiler.h"

namespace qkvet::cli {

struct Token {
  enum class Kind : unsigned char { kWord, kNumber, kText, kOperator };
  Kind kind = Kind::kOperator;
  size_t at = 0;  // byte of the source
  size_t size = 0;
  int line = 0;    // from 1
  int column = 0;  // from 1, in bytes
  // For ( [ { and their ends the token that closes or opens; for all others and
  // for those without a partner the token itself.
  size_t partner = 0;
  // The bracket around it, or kNoToken.
  size_t inside = 0;
  bool of_type = false;  // angle brackets of a template, stars of a declaration
};
inline constexpr size_t kNoToken = static_cast<size_t>(-1);

class Tokens {
 public:
  Tokens(std::string source, Language language);

  const std::string& source() const { return source_; }
  Language language() const { return language_; }
  bool is_rust() const { return language_ == Language::kRust; }
  size_t size() const { return tokens_.size(); }
  const Token& operator[](size_t i) const { return tokens_[i]; }

  // "" beyond either end.
  std::string_view text(size_t i) const;
  // From token `first` to token `last`, both included, verbatim.
  std::string_view span(size_t first, size_t last) const;
  // None beyond either end.
  bool is_word(size_t i) const { return is(i, Token::Kind::kWord); }
  bool is_number(size_t i) const { return is(i, Token::Kind::kNumber); }
  bool is_text(size_t i) const { return is(i, Token::Kind::kText); }
  // A word of the language, not a name of the user's.
  bool is_keyword(size_t i) const;
  // Whether an operand may end with the token, so that a following + is a sum.
  bool ends_operand(size_t i) const;
  // The next token that is not nested deeper: the one after a bracket's
  // partner.
  size_t behind(size_t i) const;
  bool has_blank_before(size_t i) const;
  bool has_blank_behind(size_t i) const;

 private:
  bool is(size_t i, Token::Kind kind) const {
    return i < tokens_.size() && tokens_[i].kind == kind;
  }
  void read();
  void pair_brackets();
  void mark_templates();
  void mark_stars();

  std::string source_;
  Language language_;
  std::vector<Token> tokens_;
};

}  // namespace qkvet::cli

#endif  // QKVET_CLI_KERNELS_TOKENS_H_
