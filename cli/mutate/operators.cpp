// SPDX-License-Identifier: Apache-2.0
#include "cli/mutate/operators.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <tuple>

namespace qkvet::cli {
namespace {

// A token that replaces another one.
struct Exchange {
  std::string_view from, to;
  const char* variant;
};

void exchange(const Tokens& tokens, size_t i, const char* operation,
              const Exchange& row, std::vector<Mutation>& found) {
  Mutation mutation = mutation_at(tokens, i, operation, row.variant);
  mutation.edits = {{tokens[i].at, tokens[i].size, std::string(row.to)}};
  found.push_back(std::move(mutation));
}

// Between two operands.
bool is_binary(const Tokens& tokens, size_t i) {
  return i > 0 && tokens.ends_operand(i - 1) && !tokens[i].of_type;
}

template <size_t n>
void exchange_binary(const Tokens& tokens, const char* operation,
                     const std::array<Exchange, n>& rows,
                     std::vector<Mutation>& found) {
  for (size_t i = 0; i < tokens.size(); ++i)
    for (const Exchange& row : rows)
      if (tokens.text(i) == row.from && is_binary(tokens, i))
        exchange(tokens, i, operation, row, found);
}

// "_mm256_add_ps" contains "_add_": the word with the part exchanged.
template <size_t n>
void exchange_in_calls(const Tokens& tokens, const char* operation,
                       const std::array<Exchange, n>& rows,
                       std::vector<Mutation>& found) {
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    if (!tokens.is_word(i) || tokens.text(i + 1) != "(") continue;
    const std::string word(tokens.text(i));
    for (const Exchange& row : rows) {
      const size_t at = word.find(row.from);
      if (at == std::string::npos) continue;
      std::string other = word;
      other.replace(at, row.from.size(), row.to);
      exchange(tokens, i, operation, {row.from, other, row.variant}, found);
    }
  }
}

// The first token of the operand that ends at `i`: s, p->row, *o[c * step].
size_t begin_of_operand(const Tokens& tokens, size_t i) {
  const auto is_joined = [&](size_t at) {
    const std::string_view text = tokens.text(at);
    return text == "." || text == "->" || text == "::";
  };
  while (i > 0) {
    const bool is_bracket = tokens[i].partner < i;
    if (is_bracket) i = tokens[i].partner;
    const bool has_name_in_front =
        is_bracket && i > 0 && tokens.ends_operand(i - 1);
    if (has_name_in_front)
      --i;
    else if (i > 1 && is_joined(i - 1))
      i -= 2;
    else
      break;
  }
  while (i > 0 && tokens.text(i - 1) == "*" && !tokens[i - 1].of_type &&
         (i == 1 || !tokens.ends_operand(i - 2)))
    --i;
  return i;
}

// An assignment that could also be an addition: its target is not declared
// here, and its value may be a number.
bool assigns_a_sum(const Tokens& tokens, size_t i) {
  if (!is_binary(tokens, i)) return false;
  const std::string_view next = tokens.text(i + 1);
  if (next == "{" || next == "[" || next == "&" || next == "nullptr" ||
      next == "true" || next == "false" || tokens.is_text(i + 1))
    return false;
  const size_t first = begin_of_operand(tokens, i - 1);
  if (first == 0) return true;
  const std::string_view before = tokens.text(first - 1);
  // After a comma there is another name of a declaration.
  return before != "," && !tokens[first - 1].of_type &&
         !tokens.is_keyword(first) &&
         (!tokens.is_word(first - 1) || before == "else" || before == "do");
}

void find_arithmetic(const Tokens& tokens, std::vector<Mutation>& found) {
  static constexpr auto kRows =
      std::to_array<Exchange>({{"+", "-", "add-sub"},
                               {"-", "+", "sub-add"},
                               {"*", "/", "mul-div"},
                               {"/", "*", "div-mul"},
                               {"%", "/", "rem-div"},
                               {"+=", "-=", "addset-subset"},
                               {"+=", "=", "addset-set"},
                               {"-=", "+=", "subset-addset"},
                               {"*=", "/=", "mulset-divset"},
                               {"/=", "*=", "divset-mulset"}});
  static constexpr auto kCalls =
      std::to_array<Exchange>({{"_add_", "_sub_", "add-sub"},
                               {"_sub_", "_add_", "sub-add"},
                               {"_fmadd_", "_fmsub_", "fmadd-fmsub"},
                               {"_fnmadd_", "_fmadd_", "fnmadd-fmadd"}});
  exchange_binary(tokens, "arithmetic", kRows, found);
  exchange_in_calls(tokens, "arithmetic", kCalls, found);
  for (size_t i = 1; i + 1 < tokens.size(); ++i)
    if (tokens.text(i) == "=" && assigns_a_sum(tokens, i))
      exchange(tokens, i, "arithmetic", {"=", "+=", "set-addset"}, found);
  for (size_t i = 1; i + 1 < tokens.size(); ++i)
    if (tokens.text(i) == "-" && !tokens.ends_operand(i - 1))
      exchange(tokens, i, "arithmetic", {"-", "", "neg-pos"}, found);
}

void find_boundaries(const Tokens& tokens, std::vector<Mutation>& found) {
  static constexpr auto kRows = std::to_array<Exchange>({{"<", "<=", "lt-le"},
                                                         {"<=", "<", "le-lt"},
                                                         {">", ">=", "gt-ge"},
                                                         {">=", ">", "ge-gt"}});
  exchange_binary(tokens, "boundary", kRows, found);
}

void find_comparisons(const Tokens& tokens, std::vector<Mutation>& found) {
  static constexpr auto kRows =
      std::to_array<Exchange>({{"==", "!=", "eq-ne"}, {"!=", "==", "ne-eq"}});
  exchange_binary(tokens, "comparison", kRows, found);
}

void find_logic(const Tokens& tokens, std::vector<Mutation>& found) {
  static constexpr auto kRows =
      std::to_array<Exchange>({{"&&", "||", "and-or"}, {"||", "&&", "or-and"}});
  exchange_binary(tokens, "logic", kRows, found);
  for (size_t i = 0; i + 1 < tokens.size(); ++i)
    if (tokens.text(i) == "!" && !tokens.ends_operand(i) &&
        (i == 0 || !tokens.ends_operand(i - 1)))
      exchange(tokens, i, "logic", {"!", "", "not-drop"}, found);
}

void find_extremes(const Tokens& tokens, std::vector<Mutation>& found) {
  static constexpr auto kRows =
      std::to_array<Exchange>({{"min", "max", "min-max"},
                               {"max", "min", "max-min"},
                               {"fmin", "fmax", "min-max"},
                               {"fmax", "fmin", "max-min"},
                               {"fminf", "fmaxf", "min-max"},
                               {"fmaxf", "fminf", "max-min"}});
  static constexpr auto kCalls = std::to_array<Exchange>(
      {{"_min_", "_max_", "min-max"}, {"_max_", "_min_", "max-min"}});
  for (size_t i = 0; i + 1 < tokens.size(); ++i)
    for (const Exchange& row : kRows)
      if (tokens.text(i) == row.from &&
          (tokens.text(i + 1) == "(" || tokens[i + 1].of_type))
        exchange(tokens, i, "extreme", row, found);
  exchange_in_calls(tokens, "extreme", kCalls, found);
}

// Relative changes of numbers.
struct Amount {
  const char* text;
  double value;
};
constexpr Amount kAmounts[] = {
    {"1e-2", 1e-2}, {"1e-3", 1e-3}, {"1e-4", 1e-4}, {"1e-5", 1e-5}};

// A literal: its digits, and the letters of its type.
struct Literal {
  std::string digits, suffix;
  bool is_float = false;
};
std::optional<Literal> literal_of(std::string text, bool rust) {
  std::erase(text, rust ? '_' : '\'');
  const bool hex = text.size() > 1 && text[0] == '0' && (text[1] | 0x20) == 'x';
  char* end = nullptr;
  Literal literal;
  if (!hex && text.find_first_of(rust ? ".e" : ".eE") != std::string::npos) {
    std::strtod(text.c_str(), &end);
    literal.is_float = true;
  } else if (hex && text.find_first_of("pP") != std::string::npos) {
    std::strtod(text.c_str(), &end);
    literal.is_float = true;
  } else {
    std::strtoull(text.c_str(), &end, hex ? 16 : 10);
  }
  literal.digits = text.substr(0, static_cast<size_t>(end - text.c_str()));
  literal.suffix = end;
  if (literal.suffix.starts_with("f") && !hex) literal.is_float = true;
  return literal.digits.empty() ? std::nullopt : std::optional(literal);
}

void find_numbers(const Tokens& tokens, std::vector<Mutation>& found) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (!tokens.is_number(i)) continue;
    const auto literal =
        literal_of(std::string(tokens.text(i)), tokens.is_rust());
    if (!literal) continue;
    const auto add = [&](const std::string& text, const std::string& variant) {
      Mutation mutation = mutation_at(tokens, i, "constant", variant);
      mutation.edits = {{tokens[i].at, tokens[i].size, text}};
      found.push_back(std::move(mutation));
    };
    if (literal->is_float) {
      const double value = std::strtod(literal->digits.c_str(), nullptr);
      for (const Amount& amount : kAmounts) {
        const double other =
            value == 0 ? amount.value : value * (1 + amount.value);
        std::string digits = fmt::format("{:.17g}", other);
        if (digits.find_first_of(".en") == std::string::npos) digits += ".0";
        add(digits + literal->suffix, std::string("scale-") + amount.text);
      }
      continue;
    }
    const uint64_t value = std::strtoull(literal->digits.c_str(), nullptr, 0);
    add(fmt::format("{}{}", value + 1, literal->suffix), "plus-1");
    // Without a sign the number keeps its type.
    if (value > 0)
      add(fmt::format("{}{}", value - 1, literal->suffix), "minus-1");
    else
      add(fmt::format("(-1{})", literal->suffix), "minus-1");
  }
}

// Results of functions that are not sums or products.
void find_functions(const Tokens& tokens, std::vector<Mutation>& found) {
  static constexpr auto kNames = std::to_array<std::string_view>(
      {"exp",  "expf",  "exp2",  "exp2f",  "expm1", "expm1f", "log",   "logf",
       "log2", "log2f", "log1p", "log1pf", "sqrt",  "sqrtf",  "rsqrt", "rsqrtf",
       "tanh", "tanhf", "pow",   "powf",   "ln",    "__expf", "__logf"});
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    if (!tokens.is_word(i) || tokens.text(i + 1) != "(" ||
        std::find(kNames.begin(), kNames.end(), tokens.text(i)) == kNames.end())
      continue;
    size_t first = i;
    while (first > 0 && tokens.text(first - 1) == "::")
      first -= first > 1 && tokens.is_word(first - 2) ? 2 : 1;
    const bool method = i > 0 && tokens.text(i - 1) == ".";
    // A definition or a declaration of the function itself.
    if (!method && first > 0 && tokens.is_word(first - 1) &&
        tokens.text(first - 1) != "return")
      continue;
    const Token& end = tokens[tokens[i + 1].partner];
    for (const Amount& amount : kAmounts) {
      Mutation mutation = mutation_at(tokens, i, "function",
                                      std::string("result-") + amount.text);
      const std::string factor = fmt::format("{}", 1 + amount.value);
      if (method)
        mutation.edits = {
            {end.at + end.size, 0, ".mul_add(" + factor + ", 0.0)"}};
      else
        mutation.edits = {{tokens[first].at, 0, "("},
                          {end.at + end.size, 0,
                           " * " + factor + (tokens.is_rust() ? ")" : "f)")}};
      found.push_back(std::move(mutation));
    }
  }
}

constexpr Operator kOperators[] = {
    {"arithmetic",
     "+ - * / % and their assignments exchanged, = and +=, a sign dropped",
     find_arithmetic},
    {"boundary", "< and <=, > and >= exchanged", find_boundaries},
    {"comparison", "== and != exchanged", find_comparisons},
    {"logic", "&& and || exchanged, ! dropped", find_logic},
    {"bound", "one more or less after a comparison or a range", find_bounds},
    {"index", "the next element in place of this one", find_indices},
    {"stride", "the factors of two products exchanged", find_strides},
    {"constant", "integers one more or less, others 1e-2 to 1e-5 larger",
     find_numbers},
    {"function", "results of exp, log, sqrt, ... 1e-2 to 1e-5 larger",
     find_functions},
    {"statement", "a statement left out", find_statements},
    {"variable", "two variables of one line exchanged", find_variables},
    {"extreme", "min and max exchanged", find_extremes},
    {"condition", "a condition negated", find_conditions},
};

}  // namespace

std::span<const Operator> mutation_operators() { return kOperators; }

std::string Mutation::id() const {
  return fmt::format("{}:{}:{}", line, column, variant);
}

Mutation mutation_at(const Tokens& tokens, size_t i, const char* operation,
                     std::string variant) {
  return {operation, std::move(variant), tokens[i].line, tokens[i].column, {}};
}

std::vector<Mutation> all_mutations(const Tokens& tokens) {
  std::vector<Mutation> found;
  for (const Operator& one : kOperators) one.find(tokens, found);
  std::stable_sort(
      found.begin(), found.end(), [](const Mutation& a, const Mutation& b) {
        return std::tie(a.line, a.column) < std::tie(b.line, b.column);
      });
  return found;
}

std::string mutated(const std::string& source, const Mutation& mutation) {
  std::string out;
  size_t at = 0;
  for (const Edit& edit : mutation.edits) {
    out += source.substr(at, edit.at - at) + edit.text;
    at = edit.at + edit.size;
  }
  return out + source.substr(at);
}

namespace {

std::string line_around(const std::string& text, size_t at) {
  const size_t before = at == 0 ? std::string::npos : text.rfind('\n', at - 1);
  const size_t first = before == std::string::npos ? 0 : before + 1;
  const std::string line =
      text.substr(first, std::min(text.find('\n', at), text.size()) - first);
  const size_t from = line.find_first_not_of(" \t\r");
  if (from == std::string::npos) return "";
  return line.substr(from, line.find_last_not_of(" \t\r") + 1 - from);
}

}  // namespace

ChangedLine changed_line(const std::string& source, const Mutation& mutation) {
  if (mutation.edits.empty()) return {};
  const size_t at = mutation.edits[0].at;
  return {line_around(source, at), line_around(mutated(source, mutation), at)};
}

}  // namespace qkvet::cli
