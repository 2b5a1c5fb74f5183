// SPDX-License-Identifier: Apache-2.0
#include "properties/conditions/condition.h"

#include <limits>

#include "properties/conditions/condition_names.h"

namespace qkvet::properties {
namespace {

// Numbers wrap around instead of ending the program, because plug-ins also
// supply conditions.
int64_t wrapped(uint64_t number) { return static_cast<int64_t>(number); }

// x / 0 and x % 0 are 0: extents may be.
int64_t quotient(int64_t a, int64_t b) {
  if (b == 0) return 0;
  return b == -1 ? wrapped(-static_cast<uint64_t>(a)) : a / b;
}
int64_t remainder(int64_t a, int64_t b) {
  return b == 0 || b == -1 ? 0 : a % b;
}

}  // namespace

bool Condition::holds(const Situation& situation) const {
  ConditionPlace at;
  at.situation = &situation;
  return nodes_.empty() || is_true(nodes_.size() - 1, at);
}

bool Condition::holds_in_any(const std::vector<Situation>& situations) const {
  for (const Situation& situation : situations)
    if (holds(situation)) return true;
  return false;
}

// One true row is enough for a condition on rows.
bool Condition::is_true(size_t number, const ConditionPlace& at) const {
  const Node& node = nodes_[number];
  switch (node.kind) {
    case Kind::kNot:
      return !is_true(node.left, at);
    case Kind::kOr:
      return is_true(node.left, at) || is_true(node.right, at);
    case Kind::kAnd:
      return is_true(node.left, at) && is_true(node.right, at);
    case Kind::kRows:
      return count_rows(node.left, at, 1) > 0;
    default:
      return evaluate(number, at) != 0;
  }
}

int64_t Condition::evaluate(size_t number, const ConditionPlace& at) const {
  const Node& node = nodes_[number];
  const auto left = [&] { return evaluate(node.left, at); };
  const auto right = [&] { return evaluate(node.right, at); };
  const auto bits = [](int64_t x) { return static_cast<uint64_t>(x); };
  switch (node.kind) {
    case Kind::kNumber:
      return node.number;
    case Kind::kName:
      return node.name->value(at);
    case Kind::kIsWord:
      return node.name->value(at) == node.number;
    case Kind::kNot:
      return left() == 0;
    case Kind::kMinus:
      return wrapped(-bits(left()));
    case Kind::kOr:
      return left() != 0 || right() != 0;
    case Kind::kAnd:
      return left() != 0 && right() != 0;
    case Kind::kEqual:
      return left() == right();
    case Kind::kUnequal:
      return left() != right();
    case Kind::kLess:
      return left() < right();
    case Kind::kLessEqual:
      return left() <= right();
    case Kind::kGreater:
      return left() > right();
    case Kind::kGreaterEqual:
      return left() >= right();
    case Kind::kAdd:
      return wrapped(bits(left()) + bits(right()));
    case Kind::kSubtract:
      return wrapped(bits(left()) - bits(right()));
    case Kind::kMultiply:
      return wrapped(bits(left()) * bits(right()));
    case Kind::kDivide:
      return quotient(left(), right());
    case Kind::kRemainder:
      return remainder(left(), right());
    case Kind::kRows:
      return count_rows(node.left, at, std::numeric_limits<int64_t>::max());
    case Kind::kMembers:
      return count_members(node.left, at);
    case Kind::kCommands:
      return count_commands(node.left, at);
  }
  return 0;
}

// Up to `most`.
int64_t Condition::count_rows(size_t node, const ConditionPlace& at,
                              int64_t most) const {
  const Case& value = at.situation->value();
  const Shape& s = value.shape;
  if (!value.has_options()) return 0;
  const Visibility& visibility = at.situation->visibility();
  ConditionPlace here = at;
  int64_t count = 0;
  for (here.b = 0; here.b < s.B; ++here.b) {
    size_t member = 0;
    here.queries = counted_queries(value, here.b);
    here.keys = counted_keys(value, here.b);
    for (here.row = 0; here.row < s.Tq; ++here.row) {
      if (!visibility.counted(here.b, here.row)) continue;
      while (member + 1 < value.cu_q.size() &&
             (member == 0 || value.cu_q[member] <= here.row)) {
        here.queries = value.cu_q[member + 1] - value.cu_q[member];
        here.keys = value.cu_k[member + 1] - value.cu_k[member];
        here.first_key = value.cu_k[member];
        ++member;
      }
      for (here.h = 0; here.h < s.H; ++here.h) count += is_true(node, here);
      if (count >= most) return most;
    }
  }
  return count;
}

int64_t Condition::count_members(size_t node, const ConditionPlace& at) const {
  const Case& value = at.situation->value();
  ConditionPlace here = at;
  int64_t count = 0;
  const bool packed = !value.cu_q.empty();
  const auto members =
      packed ? static_cast<int64_t>(value.cu_q.size()) - 1 : value.shape.B;
  for (here.b = 0; here.b < members; ++here.b) {
    const auto n = static_cast<size_t>(here.b);
    here.queries = packed ? value.cu_q[n + 1] - value.cu_q[n]
                          : counted_queries(value, here.b);
    here.keys = packed ? value.cu_k[n + 1] - value.cu_k[n]
                       : counted_keys(value, here.b);
    count += evaluate(node, here) != 0;
  }
  return count;
}

int64_t Condition::count_commands(size_t node, const ConditionPlace& at) const {
  ConditionPlace here = at;
  int64_t count = 0;
  for (const CommandAt& command : at.situation->commands()) {
    here.command = &command;
    count += evaluate(node, here) != 0;
  }
  return count;
}

}  // namespace qkvet::properties
