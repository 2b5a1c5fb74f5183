// SPDX-License-Identifier: Apache-2.0
// Operators that need more than one token: the end of an operand, statements,
// variables.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>

#include "cli/mutate/operators.h"

namespace qkvet::cli {
namespace {

template <size_t n>
bool is_one_of(std::string_view text,
               const std::array<std::string_view, n>& words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

// Puts the tokens into brackets with a text before and after them.
void wrap(const Tokens& tokens, size_t first, size_t last,
          const std::string& front, const std::string& behind,
          Mutation& mutation) {
  const Token& end = tokens[last];
  mutation.edits = {{tokens[first].at, 0, front},
                    {end.at + end.size, 0, behind}};
}

// The last token of the operand that begins at `first`: up to one of `ends`, or
// the bracket that closes around it.
template <size_t n>
size_t last_until(const Tokens& tokens, size_t first,
                  const std::array<std::string_view, n>& ends) {
  size_t i = first;
  while (i < tokens.size() && !is_one_of(tokens.text(i), ends) &&
         tokens.text(i) != ")" && tokens.text(i) != "]" &&
         tokens.text(i) != "}")
    i = tokens.behind(i);
  return i - 1;
}

constexpr auto kEndsOfSide =
    std::to_array<std::string_view>({";", ",", "&&", "||", "?", ":", "{", "<",
                                     "<=", ">", ">=", "==", "!=", "=", ".."});

}  // namespace

// A bound that lt-le already moves is moved only in the other direction.
void find_bounds(const Tokens& tokens, std::vector<Mutation>& found) {
  static constexpr struct {
    std::string_view text;
    bool less, more;
  } kRows[] = {{"<", true, false},  {"<=", false, true}, {">", false, true},
               {">=", true, false}, {"..", true, true},  {"..=", true, true}};
  for (size_t i = 1; i + 1 < tokens.size(); ++i)
    for (const auto& row : kRows) {
      if (tokens.text(i) != row.text || tokens[i].of_type ||
          !tokens.ends_operand(i - 1))
        continue;
      const size_t last = last_until(tokens, i + 1, kEndsOfSide);
      if (last <= i) continue;
      for (const bool more : {false, true}) {
        if (!(more ? row.more : row.less)) continue;
        Mutation mutation = mutation_at(tokens, i, "bound",
                                        more ? "bound-plus" : "bound-minus");
        wrap(tokens, i + 1, last, "(", more ? ") + 1" : ") - 1", mutation);
        // Both a range and a comparison bind weaker than the sum.
        found.push_back(std::move(mutation));
      }
    }
}

void find_indices(const Tokens& tokens, std::vector<Mutation>& found) {
  for (size_t i = 1; i + 2 < tokens.size(); ++i) {
    if (tokens.text(i) != "[" || !tokens.ends_operand(i - 1) ||
        tokens.is_text(i - 1))
      continue;
    const size_t end = tokens[i].partner;
    if (end <= i + 1) continue;  // empty, or without an end
    // The extent of an array that is declared here.
    if (i > 1 && tokens.is_word(i - 1) &&
        (tokens.is_word(i - 2) || tokens[i - 2].of_type))
      if (tokens.text(i - 2) != "return") continue;
    const std::string_view inside = tokens.span(i + 1, end - 1);
    if (inside.find("..") != std::string_view::npos) continue;  // a slice
    Mutation mutation = mutation_at(tokens, i, "index", "index-plus");
    wrap(tokens, i + 1, end - 1, "(", ") + 1", mutation);
    found.push_back(std::move(mutation));
  }
}

namespace {

// The first and last token of a product's right factor, if it is a name, a
// member, an element or a number.
struct Span {
  size_t first = 0, last = 0;
};
std::optional<Span> factor_behind(const Tokens& tokens, size_t star) {
  size_t i = star + 1;
  if (tokens.is_number(i)) return Span{i, i};
  if (!tokens.is_word(i) || tokens.is_keyword(i)) return std::nullopt;
  size_t last = i;
  for (;;) {
    const std::string_view next = tokens.text(last + 1);
    if ((next == "." || next == "->" || next == "::") &&
        tokens.is_word(last + 2)) {
      last += 2;
    } else if (next == "[" && tokens[last + 1].partner > last + 1) {
      last = tokens[last + 1].partner;
    } else {
      break;
    }
  }
  if (tokens.text(last + 1) == "(") return std::nullopt;
  return Span{star + 1, last};
}

}  // namespace

void find_strides(const Tokens& tokens, std::vector<Mutation>& found) {
  std::optional<Span> before;
  for (size_t i = 1; i < tokens.size(); ++i) {
    const std::string_view text = tokens.text(i);
    if (text == ";" || text == "{" || text == "}") before.reset();
    if (text != "*" || tokens[i].of_type || !tokens.ends_operand(i - 1))
      continue;
    const std::optional<Span> now = factor_behind(tokens, i);
    if (!now) continue;
    if (before && before->last < i - 1) {
      const std::string first(tokens.span(before->first, before->last));
      const std::string second(tokens.span(now->first, now->last));
      if (first != second) {
        const Token &a = tokens[before->first], &b = tokens[now->first];
        Mutation mutation = mutation_at(
            tokens, before->first, "stride",
            a.line == b.line ? fmt::format("factor-{}", b.column)
                             : fmt::format("factor-{}.{}", b.line, b.column));
        mutation.edits = {{a.at, first.size(), second},
                          {b.at, second.size(), first}};
        found.push_back(std::move(mutation));
      }
    }
    // In a b c, exchanging the second and the third gives the same product.
    before = now;
  }
}

namespace {

constexpr auto kJumps =
    std::to_array<std::string_view>({"break", "continue", "return"});

// Whether the brace opens a list of declarations only.
bool holds_declarations(const Tokens& tokens, size_t brace) {
  if (brace == 0) return false;
  const size_t before = brace - 1;
  const auto is = [&](size_t i, std::string_view word) {
    return tokens.text(i) == word;
  };
  return is(before, "namespace") || tokens.is_text(before) ||
         (before > 0 && (is(before - 1, "namespace") ||
                         is(before - 1, "struct") || is(before - 1, "class") ||
                         is(before - 1, "enum") || is(before - 1, "union")));
}

bool begins_statement(const Tokens& tokens, size_t i) {
  const size_t around = tokens[i].inside;
  if (around == kNoToken || tokens.text(around) != "{" ||
      holds_declarations(tokens, around))
    return false;
  const std::string_view before = tokens.text(i - 1);
  if (before == ";" || before == "{" || before == "}" || before == "else" ||
      before == "do")
    return true;
  if (before != ")") return false;
  const size_t open = tokens[i - 1].partner;
  if (open == 0 || open >= i) return false;
  const std::string_view head = tokens.text(open - 1);
  return head == "if" || head == "for" || head == "while" ||
         head == "constexpr";
}

// "int x", "std::vector<float> p(n)", "auto* made": a name after a type.
bool declares(const Tokens& tokens, size_t i) {
  size_t at = i;
  while (tokens.is_word(at) && tokens.text(at + 1) == "::") at += 2;
  if (!tokens.is_word(at)) return false;
  if (tokens.is_keyword(at) && tokens.text(at) != "this" &&
      tokens.text(at) != "self" && tokens.text(at) != "delete")
    return true;
  ++at;
  if (tokens.text(at) == "<" && tokens[at].of_type) {
    while (at < tokens.size() && tokens.text(at) != ";" &&
           !(tokens[at].of_type && tokens.text(at)[0] == '>'))
      ++at;
    ++at;
  }
  while (at < tokens.size() && tokens[at].of_type) ++at;
  return tokens.is_word(at);
}

// The token of the semicolon that ends the statement; kNoToken unless the
// statement is one expression.
size_t end_of_statement(const Tokens& tokens, size_t i) {
  for (size_t at = i; at < tokens.size(); at = tokens.behind(at)) {
    const std::string_view text = tokens.text(at);
    if (text == ";") return at;
    const bool body = text == "{" && at > 0 && tokens.text(at - 1) != "]" &&
                      tokens.text(at - 1) != "=" && tokens.text(at - 1) != "(";
    if (body || text == "}" || text == ")" || text == "]") return kNoToken;
  }
  return kNoToken;
}

}  // namespace

void find_statements(const Tokens& tokens, std::vector<Mutation>& found) {
  for (size_t i = 1; i < tokens.size(); ++i) {
    if (tokens.text(i) == ";" || tokens.text(i) == "}" ||
        !begins_statement(tokens, i))
      continue;
    const bool jump = is_one_of(tokens.text(i), kJumps);
    if (jump ? tokens.text(i + 1) != ";"
             : declares(tokens, i) && tokens.text(i) != "delete")
      continue;
    const size_t end = end_of_statement(tokens, i);
    if (end == kNoToken) continue;
    const size_t from = tokens[i].at;
    std::string lines;  // so that the others keep their numbers
    const std::string_view text = tokens.span(i, end - 1);
    lines.append(
        static_cast<size_t>(std::count(text.begin(), text.end(), '\n')), '\n');
    Mutation mutation = mutation_at(tokens, i, "statement", "remove");
    mutation.edits = {{from, tokens[end].at - from, lines}};
    found.push_back(std::move(mutation));
  }
}

namespace {

// A name, or a member with its object.
struct Variable {
  size_t first = 0, last = 0;
  bool indexed = false;  // [ follows
};

std::optional<Variable> variable_at(const Tokens& tokens, size_t i) {
  if (!tokens.is_word(i) || tokens.is_keyword(i)) return std::nullopt;
  if (i > 0) {
    const std::string_view before = tokens.text(i - 1);
    if (before == "." || before == "->" || before == "::") return std::nullopt;
    // Declared here, after its type.
    if (tokens[i - 1].of_type) return std::nullopt;
    if (tokens.is_word(i - 1) && before != "return" && before != "in" &&
        before != "if" && before != "else" && before != "while")
      return std::nullopt;
  }
  Variable variable{i, i, false};
  for (;;) {
    const std::string_view next = tokens.text(variable.last + 1);
    if ((next != "." && next != "->") || !tokens.is_word(variable.last + 2))
      break;
    variable.last += 2;
  }
  const std::string_view next = tokens.text(variable.last + 1);
  if (next == "(" || next == "::" || next == "!" ||
      tokens.is_word(variable.last + 1))
    return std::nullopt;
  const size_t behind = variable.last + 1;
  if (behind < tokens.size() && tokens[behind].of_type) return std::nullopt;
  variable.indexed = next == "[";
  return variable;
}

// a + b and b + a, a * b and b * a: the same result.
bool only_commutes(const Tokens& tokens, const Variable& a, const Variable& b) {
  if (b.first != a.last + 2) return false;
  const std::string_view between = tokens.text(a.last + 1);
  const std::string_view before = a.first > 0 ? tokens.text(a.first - 1) : "";
  const std::string_view behind = tokens.text(b.last + 1);
  const auto binds = [](std::string_view text) {
    return text == "*" || text == "/" || text == "%";
  };
  if (between == "*") return before != "/" && before != "%";
  if (between == "+") return before != "-" && !binds(before) && !binds(behind);
  return between == "|" || between == "&&" || between == "||" ||
         between == "==" || between == "!=";
}

}  // namespace

// Each with the next one of its line that is used alike: both with an index, or
// both without.
void find_variables(const Tokens& tokens, std::vector<Mutation>& found) {
  std::optional<Variable> before[2];
  int line = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].line != line) before[0] = before[1] = std::nullopt;
    line = tokens[i].line;
    const std::optional<Variable> now = variable_at(tokens, i);
    if (!now) continue;
    std::optional<Variable>& other = before[now->indexed ? 1 : 0];
    if (other && other->last < now->first &&
        !only_commutes(tokens, *other, *now)) {
      const std::string first(tokens.span(other->first, other->last));
      const std::string second(tokens.span(now->first, now->last));
      if (first != second) {
        Mutation mutation =
            mutation_at(tokens, other->first, "variable",
                        fmt::format("swap-{}", tokens[now->first].column));
        mutation.edits = {{tokens[other->first].at, first.size(), second},
                          {tokens[now->first].at, second.size(), first}};
        found.push_back(std::move(mutation));
      }
    }
    other = now;
  }
}

namespace {

void negate(const Tokens& tokens, size_t place, size_t first, size_t last,
            std::vector<Mutation>& found) {
  if (last < first || last >= tokens.size()) return;
  Mutation mutation = mutation_at(tokens, place, "condition", "negate");
  wrap(tokens, first, last, "!(", ")", mutation);
  found.push_back(std::move(mutation));
}

// Begin of the condition in a ? b : c.
size_t begin_of_choice(const Tokens& tokens, size_t question) {
  static constexpr auto kBefore =
      std::to_array<std::string_view>({"=", "(", "[", "{", "}", ",", ";", "?",
                                       ":", "return", "+=", "-=", "*=", "/="});
  size_t i = question;
  while (i > 0 && !is_one_of(tokens.text(i - 1), kBefore)) {
    --i;
    if (tokens[i].partner < i) i = tokens[i].partner;
  }
  return i;
}

}  // namespace

void find_conditions(const Tokens& tokens, std::vector<Mutation>& found) {
  static constexpr auto kBody = std::to_array<std::string_view>({"{", ";"});
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    const std::string_view word = tokens.text(i);
    if (word == "?" && !tokens.is_rust()) {
      negate(tokens, i, begin_of_choice(tokens, i), i - 1, found);
      continue;
    }
    if (!tokens.is_word(i)) continue;
    const bool branches = word == "if" || word == "while";
    if (tokens.is_rust()) {
      if (branches && tokens.text(i + 1) != "let")
        negate(tokens, i, i + 1, last_until(tokens, i + 1, kBody), found);
      continue;
    }
    size_t open = i + 1;
    if (tokens.text(open) == "constexpr") ++open;
    if (tokens.text(open) != "(") continue;
    const size_t close = tokens[open].partner;
    if (close <= open + 1) continue;
    if (branches) {
      negate(tokens, i, open + 1, close - 1, found);
    } else if (word == "for") {
      const size_t first = last_until(tokens, open + 1, kBody) + 1;
      if (tokens.text(first) != ";") continue;  // over a range
      negate(tokens, i, first + 1, last_until(tokens, first + 1, kBody), found);
    }
  }
}

}  // namespace qkvet::cli
