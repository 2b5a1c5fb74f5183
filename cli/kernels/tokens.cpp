// SPDX-License-Identifier: Apache-2.0
#include "cli/kernels/tokens.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace qkvet::cli {
namespace {

bool begins_word(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool goes_on_word(char c) { return begins_word(c) || is_digit(c); }

// Longest first.
constexpr std::string_view kOperatorTexts[] = {
    "<<=", ">>=", "<=>", "...", "..=", "->*", "::", "->", "=>", "++",
    "--",  "<<",  ">>",  "<=",  ">=",  "==",  "!=", "&&", "||", "+=",
    "-=",  "*=",  "/=",  "%=",  "&=",  "|=",  "^=", "..", ".*"};

constexpr auto kKeywordsOfC =
    std::to_array<std::string_view>({"alignas",
                                     "alignof",
                                     "asm",
                                     "auto",
                                     "bool",
                                     "break",
                                     "case",
                                     "catch",
                                     "char",
                                     "class",
                                     "const",
                                     "constexpr",
                                     "constinit",
                                     "continue",
                                     "decltype",
                                     "default",
                                     "delete",
                                     "do",
                                     "double",
                                     "else",
                                     "enum",
                                     "explicit",
                                     "extern",
                                     "false",
                                     "float",
                                     "for",
                                     "friend",
                                     "goto",
                                     "if",
                                     "inline",
                                     "int",
                                     "long",
                                     "mutable",
                                     "namespace",
                                     "new",
                                     "noexcept",
                                     "nullptr",
                                     "operator",
                                     "private",
                                     "protected",
                                     "public",
                                     "register",
                                     "restrict",
                                     "return",
                                     "short",
                                     "signed",
                                     "sizeof",
                                     "static",
                                     "static_assert",
                                     "struct",
                                     "switch",
                                     "template",
                                     "this",
                                     "throw",
                                     "true",
                                     "try",
                                     "typedef",
                                     "typename",
                                     "union",
                                     "unsigned",
                                     "using",
                                     "virtual",
                                     "void",
                                     "volatile",
                                     "while",
                                     "static_cast",
                                     "reinterpret_cast",
                                     "const_cast"});
constexpr auto kKeywordsOfRust = std::to_array<std::string_view>(
    {"as",   "break", "const",  "continue", "crate", "dyn",
     "else", "enum",  "extern", "false",    "fn",    "for",
     "if",   "impl",  "in",     "let",      "loop",  "match",
     "mod",  "move",  "mut",    "pub",      "ref",   "return",
     "self", "Self",  "static", "struct",   "super", "trait",
     "true", "type",  "unsafe", "use",      "where", "while"});

// Reads a source once, from its first byte to its last.
class Reader {
 public:
  Reader(const std::string& source, Language language)
      : source_(source),
        rust_(language == Language::kRust),
        python_(language == Language::kPython) {}

  std::vector<Token> read() {
    while (at_ < source_.size()) {
      if (!skip_what_is_no_token()) read_token();
    }
    return std::move(tokens_);
  }

 private:
  char peek(size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }
  bool sees(std::string_view text) const {
    return source_.compare(at_, text.size(), text) == 0;
  }
  void advance(size_t n = 1) {
    for (; n > 0 && at_ < source_.size(); --n, ++at_) {
      ++column_;
      if (source_[at_] != '\n') continue;
      ++line_;
      column_ = 1;
      fresh_line_ = true;
    }
  }
  void advance_to(size_t end) { advance(std::min(end, source_.size()) - at_); }

  bool skip_what_is_no_token() {
    const char c = peek();
    if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      advance();
    } else if (c == '\\' && peek(1) == '\n') {
      advance(2);
    } else if (python_) {
      if (c != '#') return false;
      skip_line(/*continues=*/false);
    } else if (sees("//")) {
      skip_line(/*continues=*/!rust_);
    } else if (sees("/*")) {
      skip_comment();
    } else if (!rust_ && c == '#' && fresh_line_) {
      skip_directive();
    } else if (rust_ && (sees("#[") || sees("#!["))) {
      skip_attribute();
    } else {
      fresh_line_ = false;
      return false;
    }
    return true;
  }

  // `continues`: a backslash at its end makes the next line a part of it.
  void skip_line(bool continues) {
    while (at_ < source_.size() && peek() != '\n') {
      if (continues && peek() == '\\' && peek(1) == '\n') advance();
      advance();
    }
  }
  // A comment that begins in a directive may end some lines later.
  void skip_directive() {
    while (at_ < source_.size() && peek() != '\n') {
      if (sees("/*")) {
        skip_comment();
      } else {
        if (peek() == '\\' && peek(1) == '\n') advance();
        advance();
      }
    }
  }
  void skip_comment() {
    int depth = 0;
    do {
      if (sees("/*") && (depth == 0 || rust_)) {
        ++depth;
        advance(2);
      } else if (sees("*/")) {
        --depth;
        advance(2);
      } else {
        advance();
      }
    } while (depth > 0 && at_ < source_.size());
  }
  void skip_attribute() {
    advance_to(source_.find('[', at_));
    int depth = 0;
    do {
      depth += (peek() == '[') - (peek() == ']');
      advance();
    } while (depth > 0 && at_ < source_.size());
  }

  void add(Token::Kind kind, size_t end) {
    end = std::min(end, source_.size());
    tokens_.push_back({kind, at_, end - at_, line_, column_, tokens_.size(),
                       kNoToken, false});
    advance_to(end);
  }

  void read_token() {
    if (const size_t end = end_of_text(); end > at_)
      add(Token::Kind::kText, end);
    else if (begins_word(peek()))
      add(Token::Kind::kWord, end_of_word());
    else if (is_digit(peek()) || (!rust_ && peek() == '.' && is_digit(peek(1))))
      add(Token::Kind::kNumber, end_of_number());
    else
      add(Token::Kind::kOperator, end_of_operator());
  }

  size_t end_of_word() const {
    size_t end = at_;
    while (end < source_.size() && goes_on_word(source_[end])) ++end;
    return end;
  }
  size_t end_of_operator() const {
    for (const std::string_view one : kOperatorTexts)
      if (sees(one)) return at_ + one.size();
    return at_ + 1;
  }
  size_t end_of_number() const {
    size_t end = at_;
    while (end < source_.size()) {
      const char c = source_[end];
      const char before = end > at_ ? source_[end - 1] : '\0';
      const bool power =
          (before == 'e' || before == 'E' || before == 'p' || before == 'P') &&
          !(before == 'e' && is_hex());
      const char next = end + 1 < source_.size() ? source_[end + 1] : '\0';
      // In Rust 0..n is a range, and 1.max(n) a call.
      if (c == '.' && rust_ && (next == '.' || begins_word(next))) break;
      const bool separator = !rust_ && c == '\'' && goes_on_word(next);
      if (!goes_on_word(c) && c != '.' && !separator &&
          !((c == '+' || c == '-') && power))
        break;
      ++end;
    }
    return end;
  }
  bool is_hex() const { return peek() == '0' && (peek(1) | 0x20) == 'x'; }

  // The end of a string or a character with its prefix; at_ if there is none.
  size_t end_of_text() const {
    size_t i = at_;
    const std::string_view prefixes = python_ ? "uUrRbBfF" : "uULRbcr8";
    while (i < source_.size() && i < at_ + 3 &&
           prefixes.find(source_[i]) != std::string_view::npos)
      ++i;
    const std::string_view prefix(source_.data() + at_, i - at_);
    const char quote = i < source_.size() ? source_[i] : '\0';
    if (rust_ && prefix.find('r') != std::string_view::npos &&
        (quote == '"' || quote == '#'))
      return end_of_rust_raw(i);
    if (python_ && (quote == '"' || quote == '\'')) return end_of_python(i);
    if (quote == '"')
      return !rust_ && prefix.ends_with('R') ? end_of_raw(i) : end_of_quoted(i);
    if (quote != '\'') return at_;
    // A lifetime: 'a without an end.
    if (rust_ && i + 2 < source_.size() && source_[i + 1] != '\\' &&
        begins_word(source_[i + 1]) && source_[i + 2] != '\'' &&
        static_cast<unsigned char>(source_[i + 1]) < 0x80)
      return i + 2;
    return end_of_quoted(i);
  }
  size_t end_of_quoted(size_t i) const {
    const char quote = source_[i++];
    while (i < source_.size() && source_[i] != quote)
      i += source_[i] == '\\' ? 2 : 1;
    return i + 1;
  }
  // Three quotes end at the next three.
  size_t end_of_python(size_t i) const {
    const std::string three(3, source_[i]);
    if (source_.compare(i, 3, three) != 0) return end_of_quoted(i);
    size_t end = i + 3;
    while (end < source_.size() && source_.compare(end, 3, three) != 0)
      end += source_[end] == '\\' ? 2 : 1;
    return end + 3;
  }
  size_t end_of_raw(size_t i) const {
    const size_t open = source_.find('(', i);
    if (open == std::string::npos) return source_.size();
    const std::string end = ")" + source_.substr(i + 1, open - i - 1) + "\"";
    const size_t found = source_.find(end, open);
    return found == std::string::npos ? source_.size() : found + end.size();
  }
  size_t end_of_rust_raw(size_t i) const {
    size_t hashes = 0;
    while (i < source_.size() && source_[i] == '#') ++i, ++hashes;
    if (i >= source_.size() || source_[i] != '"') return at_;  // r#word
    const std::string end = "\"" + std::string(hashes, '#');
    const size_t found = source_.find(end, i + 1);
    return found == std::string::npos ? source_.size() : found + end.size();
  }

  const std::string& source_;
  const bool rust_, python_;
  size_t at_ = 0;
  int line_ = 1, column_ = 1;
  bool fresh_line_ = true;  // only blanks so far
  std::vector<Token> tokens_;
};

}  // namespace

Tokens::Tokens(std::string source, Language language)
    : source_(std::move(source)), language_(language) {
  tokens_ = Reader(source_, language_).read();
  pair_brackets();
  mark_templates();
  if (!is_rust()) mark_stars();
}

std::string_view Tokens::text(size_t i) const {
  if (i >= tokens_.size()) return "";
  return std::string_view(source_).substr(tokens_[i].at, tokens_[i].size);
}

std::string_view Tokens::span(size_t first, size_t last) const {
  const Token& end = tokens_[last];
  return std::string_view(source_).substr(
      tokens_[first].at, end.at + end.size - tokens_[first].at);
}

bool Tokens::is_keyword(size_t i) const {
  if (!is_word(i)) return false;
  const auto among = [&](const auto& words) {
    return std::find(words.begin(), words.end(), text(i)) != words.end();
  };
  return is_rust() ? among(kKeywordsOfRust) : among(kKeywordsOfC);
}

bool Tokens::ends_operand(size_t i) const {
  if (i >= tokens_.size() || tokens_[i].of_type) return false;
  if (is_word(i))
    return !is_keyword(i) || text(i) == "this" || text(i) == "self" ||
           text(i) == "true" || text(i) == "false";
  return is_number(i) || is_text(i) || text(i) == ")" || text(i) == "]";
}

size_t Tokens::behind(size_t i) const {
  const size_t partner = tokens_[i].partner;
  return (partner > i ? partner : i) + 1;
}

bool Tokens::has_blank_before(size_t i) const {
  const size_t at = tokens_[i].at;
  return at == 0 ||
         std::isspace(static_cast<unsigned char>(source_[at - 1])) != 0;
}

bool Tokens::has_blank_behind(size_t i) const {
  const size_t end = tokens_[i].at + tokens_[i].size;
  return end >= source_.size() ||
         std::isspace(static_cast<unsigned char>(source_[end])) != 0;
}

void Tokens::pair_brackets() {
  std::vector<size_t> open;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const std::string_view one = text(i);
    const bool closes = tokens_[i].kind == Token::Kind::kOperator &&
                        (one == ")" || one == "]" || one == "}");
    if (closes && !open.empty()) {
      tokens_[i].partner = open.back();
      tokens_[open.back()].partner = i;
      open.pop_back();
    }
    tokens_[i].inside = open.empty() ? kNoToken : open.back();
    if (tokens_[i].kind == Token::Kind::kOperator &&
        (one == "(" || one == "[" || one == "{"))
      open.push_back(i);
  }
}

// "word<" with only names, numbers and commas before its closing bracket.
void Tokens::mark_templates() {
  for (size_t i = 0; i + 1 < tokens_.size(); ++i) {
    if (text(i + 1) != "<" || !is_word(i)) continue;
    std::vector<size_t> brackets = {i + 1};
    int depth = 1;
    for (size_t j = i + 2; j < tokens_.size() && depth > 0; ++j) {
      const std::string_view one = text(j);
      if (one == "<") {
        ++depth;
      } else if (one == ">" || one == ">>") {
        depth -= static_cast<int>(one.size());
      } else if (!is_word(j) && !is_number(j) && !is_text(j) && one != "::" &&
                 one != "," && one != "*" && one != "&") {
        break;
      }
      if (one[0] == '<' || one[0] == '>') brackets.push_back(j);
    }
    if (depth > 0) continue;
    for (const size_t bracket : brackets) tokens_[bracket].of_type = true;
  }
}

// A star that belongs to a type: "float* q" and "float *q" have a blank on one
// side, "a * b" and "a*b" have not. A star after a built-in type always does.
void Tokens::mark_stars() {
  constexpr std::string_view kTypes[] = {"float", "double", "int",  "char",
                                         "void",  "auto",   "bool", "const"};
  for (size_t i = 1; i + 1 < tokens_.size(); ++i) {
    const std::string_view one = text(i);
    if (one != "*" && one != "&" && one != "&&") continue;
    const bool follows_type = tokens_[i - 1].of_type ||
                              text(i - 1).ends_with("_t") ||
                              std::find(std::begin(kTypes), std::end(kTypes),
                                        text(i - 1)) != std::end(kTypes);
    const bool lopsided = (is_word(i - 1) && !is_keyword(i - 1)) &&
                          has_blank_before(i) != has_blank_behind(i);
    tokens_[i].of_type = follows_type || lopsided;
  }
}

}  // namespace qkvet::cli
