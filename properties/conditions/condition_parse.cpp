// SPDX-License-Identifier: Apache-2.0
// Recursive descent, one function per level of binding.
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "core/base/printable.h"
#include "properties/conditions/condition.h"
#include "properties/conditions/condition_names.h"

namespace qkvet::properties {
namespace {

constexpr int kDeepest = 32;  // parentheses and signs within each other

bool starts_name(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0;
}
bool is_of_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' ||
         c == '.';
}

}  // namespace

class ConditionParser {
 public:
  explicit ConditionParser(std::string_view text) : text_(text) {}

  ParsedCondition parse() {
    skip_blanks();
    if (at_ == text_.size()) return {Condition(), ""};
    either();
    if (error_.empty() && at_ < text_.size())
      fail("expected an operator or the end");
    if (!error_.empty()) return {std::nullopt, error_};
    return {std::move(condition_), ""};
  }

 private:
  using Kind = Condition::Kind;
  struct Operator {
    std::string_view text;
    Kind kind;
  };

  size_t either() {
    return left_to_right({{{"||", Kind::kOr}}}, &ConditionParser::both);
  }
  size_t both() {
    return left_to_right({{{"&&", Kind::kAnd}}}, &ConditionParser::comparison);
  }
  size_t sum() {
    return left_to_right({{{"+", Kind::kAdd}, {"-", Kind::kSubtract}}},
                         &ConditionParser::product);
  }
  size_t product() {
    return left_to_right({{{"*", Kind::kMultiply},
                           {"/", Kind::kDivide},
                           {"%", Kind::kRemainder}}},
                         &ConditionParser::factor);
  }

  size_t left_to_right(std::array<Operator, 3> operators,
                       size_t (ConditionParser::*operand)()) {
    size_t left = (this->*operand)();
    while (error_.empty()) {
      const auto found =
          std::find_if(operators.begin(), operators.end(),
                       [this](const Operator& one) { return take(one.text); });
      if (found == operators.end()) break;
      const size_t right = (this->*operand)();
      left = add({found->kind, left, right});
    }
    return left;
  }

  size_t comparison() {
    static constexpr Operator kOperators[] = {
        {"==", Kind::kEqual},        {"!=", Kind::kUnequal},
        {"<=", Kind::kLessEqual},    {"<", Kind::kLess},
        {">=", Kind::kGreaterEqual}, {">", Kind::kGreater}};
    const auto next = [this] {
      return std::find_if(
          std::begin(kOperators), std::end(kOperators),
          [this](const Operator& one) { return take(one.text); });
    };
    const size_t left = sum();
    const auto found = next();
    if (found == std::end(kOperators) || !error_.empty()) return left;
    const size_t right = sum();
    const size_t here = at_;
    if (next() != std::end(kOperators)) {
      at_ = here;
      fail("expected one comparison: a < b && b < c");
    }
    return add({found->kind, left, right});
  }

  size_t factor() {
    if (++depth_ > kDeepest) fail("expected fewer parentheses and signs");
    size_t node = 0;
    if (!error_.empty()) {
    } else if (take("!")) {
      node = add({Kind::kNot, factor()});
    } else if (take("-")) {
      node = add({Kind::kMinus, factor()});
    } else if (take("(")) {
      node = either();
      close();
    } else if (at_ < text_.size() && starts_name(text_[at_])) {
      node = name();
    } else {
      node = number();
    }
    --depth_;
    return node;
  }

  size_t number() {
    int64_t value = 0;
    const char* const end = text_.data() + text_.size();
    const auto [stop, code] = std::from_chars(text_.data() + at_, end, value);
    if (code != std::errc()) {
      fail("expected a name, a number, !, - or (");
      return 0;
    }
    at_ = static_cast<size_t>(stop - text_.data());
    skip_blanks();
    return add({Kind::kNumber, 0, 0, value});
  }

  size_t name() {
    const size_t from = at_;
    const std::string_view text = take_name();
    if (const Kind kind = counter(text); kind != Kind::kNumber)
      return counted(kind, from);
    const ConditionName* found = find_condition_name(text, scope_);
    if (found == nullptr && scope_ != ConditionScope::kCase)
      found = find_condition_name(text, ConditionScope::kCase);
    if (found == nullptr) {
      at_ = from;
      std::string allowed = condition_names(ConditionScope::kCase);
      if (scope_ != ConditionScope::kCase)
        allowed = condition_names(scope_) + ", " + allowed;
      fail("unknown name " + std::string(text) + "; allowed: " + allowed +
           ", rows(), members(), commands()");
      return 0;
    }
    if (!found->words.empty()) return is_word(*found);
    return add({Kind::kName, 0, 0, 0, found});
  }

  static Kind counter(std::string_view text) {
    if (text == "rows") return Kind::kRows;
    if (text == "members") return Kind::kMembers;
    return text == "commands" ? Kind::kCommands : Kind::kNumber;
  }

  size_t counted(Kind kind, size_t from) {
    if (scope_ != ConditionScope::kCase) {
      at_ = from;
      fail("expected no rows(), members() or commands() within another");
      return 0;
    }
    if (!take("(")) fail("expected (");
    scope_ = kind == Kind::kRows      ? ConditionScope::kRow
             : kind == Kind::kMembers ? ConditionScope::kMember
                                      : ConditionScope::kCommand;
    const size_t inner = either();
    scope_ = ConditionScope::kCase;
    close();
    return add({kind, inner});
  }

  size_t is_word(const ConditionName& name) {
    const bool equal = take("==");
    if (!equal && !take("!=")) {
      fail("expected == or != after " + std::string(name.name));
      return 0;
    }
    const size_t from = at_;
    const std::string_view text = take_name();
    const auto word = std::find_if(
        name.words.begin(), name.words.end(),
        [&](const ConditionWord& one) { return one.name == text; });
    if (word == name.words.end()) {
      at_ = from;
      std::string allowed;
      for (const ConditionWord& one : name.words)
        allowed += (allowed.empty() ? "" : ", ") + std::string(one.name);
      fail("unknown " + std::string(name.name) + "; allowed: " + allowed);
      return 0;
    }
    const size_t is = add({Kind::kIsWord, 0, 0, word->value, &name});
    return equal ? is : add({Kind::kNot, is});
  }

  void close() {
    if (!take(")")) fail("expected )");
  }

  std::string_view take_name() {
    const size_t from = at_;
    while (at_ < text_.size() && is_of_name(text_[at_])) ++at_;
    const std::string_view name = text_.substr(from, at_ - from);
    skip_blanks();
    return name;
  }
  bool take(std::string_view token) {
    if (token.empty() || !error_.empty() ||
        text_.substr(at_, token.size()) != token)
      return false;
    at_ += token.size();
    skip_blanks();
    return true;
  }
  void skip_blanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  size_t add(const Condition::Node& node) {
    condition_.nodes_.push_back(node);
    return condition_.nodes_.size() - 1;
  }
  // The first one counts.
  void fail(const std::string& what) {
    if (!error_.empty()) return;
    std::string shown(text_);
    std::replace(shown.begin(), shown.end(), '\n', ' ');
    error_ = "condition \"" + printable(shown) + "\", character " +
             std::to_string(at_ + 1) + ": " + printable(what);
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
  ConditionScope scope_ = ConditionScope::kCase;
  Condition condition_;
  std::string error_;
};

ParsedCondition parse_condition(std::string_view text) {
  return ConditionParser(text).parse();
}

}  // namespace qkvet::properties
