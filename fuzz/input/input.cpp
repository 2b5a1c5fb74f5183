// SPDX-License-Identifier: Apache-2.0
#include "fuzz/input/input.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/base/philox.h"
#include "fuzz/input/subjects.h"
#include "properties/cases/draw.h"
#include "properties/checking/case_work.h"
#include "properties/conventions/domain.h"

namespace qkvet::fuzz {
namespace {

// splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number
// generators", 2014): two bytes become bits of which every remainder is even.
uint64_t mixed(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

// Choices: two bytes each, and after the end random numbers from a hash of all
// bytes.
class Choices {
 public:
  explicit Choices(std::span<const uint8_t> bytes) : bytes_(bytes) {
    for (const uint8_t byte : bytes) hash_ = mixed(hash_ ^ byte);
  }
  uint64_t next() {
    if (at_ + 1 >= bytes_.size()) return philox_u64(hash_, ++beyond_, 0, 0);
    const uint64_t two = bytes_[at_] | uint64_t{bytes_[at_ + 1]} << 8;
    at_ += 2;
    return mixed(two);
  }

 private:
  std::span<const uint8_t> bytes_;
  size_t at_ = 0;
  uint64_t hash_ = 0;
  uint32_t beyond_ = 0;
};

void keep_dtypes(const Scope& scope, Case& value) {
  const auto& known = scope.dtypes;
  if (std::find(known.begin(), known.end(), storage_of(value)) == known.end())
    store_as(known.front(), value);
}

void make_plain(Case& value) {
  const Recipe normal = make_recipe(RecipeKind::kNormal);
  for (const auto recipe :
       {&Case::q, &Case::k, &Case::v, &Case::x, &Case::w, &Case::bias})
    value.*recipe = normal;
  for (const auto recipe : {&Case::score_bias, &Case::sink, &Case::slopes})
    if (value.*recipe) value.*recipe = normal;
}

// Single values that can be nowhere, or not in their storage, are dropped.
void keep_set_values(Case& value) {
  move_set_values(value);
  std::vector<SetValue> kept;
  for (SetValue& one : std::exchange(value.set, {})) {
    value.set = {one};
    if (kept.size() < kMaxSetValues && invalid_reason(value).empty())
      kept.push_back(one);
  }
  value.set = std::move(kept);
  while (!value.set.empty() && to_string(value).size() > kMaxCaseText)
    value.set.pop_back();
}

bool is_legal(const Law& law, const Case& value) {
  return value.subject() == law.domain.subject &&
         invalid_reason(value).empty() && not_judged_reason(value).empty() &&
         to_string(value).size() <= kMaxCaseText;
}

Case made_legal(const Law& law, Case value, const InputRules& rules) {
  Shape& s = value.shape;
  if (s.Hkv < 1 || s.H < 1 || s.H % s.Hkv != 0)
    s.H = s.Hkv = std::max<int64_t>(s.Hkv, 1);
  keep_dtypes(rules.scope, value);
  fuzzed_subject(value).trim(value, rules.most_work);
  // Called before the steps that drop everything invalid, and again after them,
  // because extents may change on the way.
  keep_set_values(value);
  keep_to_declared(rules.scope, value);
  apply_pins(rules.scope, value);
  if (!rules.recipes) make_plain(value);
  value = constrained(law, std::move(value));
  keep_set_values(value);
  return value;
}

FuzzInput drawn(Choices choices, const InputRules& rules) {
  Draw draw([&choices] { return choices.next(); });
  const Law& law = *rules.laws[draw.bits() % rules.laws.size()];
  return {&law, nearest_legal(law, draw_case(draw, law, rules.scope), rules)};
}

}  // namespace

Case nearest_legal(const Law& law, Case value, const InputRules& rules) {
  Case near = made_legal(law, value, rules);
  if (is_legal(law, near)) return near;
  // Options that do not go together, such as packed members that do not ascend.
  value = keep_allowed(std::move(value), 0);
  value.set.clear();
  near = made_legal(law, std::move(value), rules);
  if (is_legal(law, near)) return near;
  // Otherwise a small case of the generator is legal.
  Scope small = rules.scope;
  small.largest = SizeClass::kSmall;
  uint32_t n = 0;
  Draw draw([&n] { return philox_u64(1, ++n, 0, 0); });
  do {
    near = made_legal(law, draw_case(draw, law, small), rules);
  } while (!is_legal(law, near));
  return near;
}

FuzzInput decode_input(std::span<const uint8_t> bytes,
                       const InputRules& rules) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                              bytes.size());
  const size_t space = text.find(' ');
  if (space != std::string_view::npos) {
    const Law* law = find_law(text.substr(0, space));
    if (std::find(rules.laws.begin(), rules.laws.end(), law) !=
        rules.laws.end()) {
      std::string_view rest = text.substr(space + 1);
      rest = rest.substr(0, rest.find('\n'));
      if (const ParsedCase parsed = parse_case(rest); parsed.value)
        return {law, nearest_legal(*law, *parsed.value, rules)};
    }
  }
  return drawn(Choices(bytes), rules);
}

std::string encode_input(const FuzzInput& input) {
  return std::string(input.law->id) + " " + to_string(input.value);
}

}  // namespace qkvet::fuzz
