// SPDX-License-Identifier: Apache-2.0
// Conditions: when a fault can show, as an expression over a case and the calls
// that a law makes of it. The language is described in impl/faulty/README.md.
//
//   bottom_right && Tq < Tk
//   window.left >= 0 && rows(hidden > 0)
//   dtype == f16 && commands(queries > 1 && held > queries)
#ifndef QKVET_PROPERTIES_CONDITIONS_CONDITION_H_
#define QKVET_PROPERTIES_CONDITIONS_CONDITION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "properties/conditions/situation.h"

namespace qkvet::properties {

struct ConditionName;
struct ConditionPlace;

class Condition {
 public:
  // Always true.
  Condition() = default;

  bool is_always() const { return nodes_.empty(); }
  bool holds(const Situation& situation) const;
  // Whether it holds in one of them.
  bool holds_in_any(const std::vector<Situation>& situations) const;

 private:
  friend class ConditionParser;
  enum class Kind : uint8_t {
    kNumber,
    kName,
    kIsWord,  // a name of words is this one
    kNot,
    kMinus,
    kOr,
    kAnd,
    kEqual,
    kUnequal,
    kLess,
    kLessEqual,
    kGreater,
    kGreaterEqual,
    kAdd,
    kSubtract,
    kMultiply,
    kDivide,
    kRemainder,
    kRows,
    kMembers,
    kCommands
  };
  struct Node {
    Kind kind = Kind::kNumber;
    size_t left = 0, right = 0;  // operands, by number
    int64_t number = 0;
    const ConditionName* name = nullptr;
  };

  bool is_true(size_t number, const ConditionPlace& at) const;
  int64_t evaluate(size_t node, const ConditionPlace& at) const;
  int64_t count_rows(size_t node, const ConditionPlace& at, int64_t most) const;
  int64_t count_members(size_t node, const ConditionPlace& at) const;
  int64_t count_commands(size_t node, const ConditionPlace& at) const;

  std::vector<Node> nodes_;  // operands before their operators; the last: all
};

struct ParsedCondition {
  std::optional<Condition> value;
  std::string error;  // one line: place, mistake, allowed words
};
// "" is always true.
ParsedCondition parse_condition(std::string_view text);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CONDITIONS_CONDITION_H_
