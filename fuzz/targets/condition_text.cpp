// SPDX-License-Identifier: Apache-2.0
// condition_text: when a fault can show, in the language of third-party
// plug-ins.
#include "fuzz/targets/byte_checks.h"
#include "fuzz/targets/target.h"

namespace qkvet::fuzz {
std::string condition_text_problem(std::string_view text, ConditionParse parse,
                                   std::string* said) {
  const ParsedCondition parsed = parse(text);
  *said = kind_of(parsed.error);
  if (!parsed.value)
    return is_one_line(parsed.error) ? "" : "refused without one line";
  Case value;
  value.shape = {2, 4, 2, 3, 5, 4, 4};
  value.causal = Causal::kBottomRight;
  // The result does not matter, but the evaluation must end.
  parsed.value->holds_in_any(situations_of(value, {}));
  return "";
}

namespace {

std::string check(std::span<const uint8_t> bytes, std::string* said) {
  return condition_text_problem(as_text(bytes), parse_condition, said);
}

}  // namespace

extern constinit const FuzzTarget fuzz_condition_text = {
    .name = "condition_text",
    .sentence = "A condition is refused with a reason, or can be asked.",
    .check = check};

}  // namespace qkvet::fuzz
