// SPDX-License-Identifier: Apache-2.0
// case_text: text that users paste. A line is refused with one line, or it is a
// case, and the case's spelling is read as the same case.
#include "fuzz/targets/byte_checks.h"
#include "fuzz/targets/target.h"

namespace qkvet::fuzz {
namespace {

// The keys of a spelling, without their values.
std::string keys_of(std::string_view text) {
  std::string keys;
  bool value = false;
  for (const char c : text) {
    if (c == ',') value = false;
    if (c == '=') value = true;
    if (!value && c >= 'a') keys += c;
  }
  return keys;
}

}  // namespace

std::string case_text_problem(std::string_view text, CaseParse parse,
                              std::string* said) {
  const ParsedCase parsed = parse(text);
  *said = kind_of(parsed.error);
  if (!parsed.value)
    return is_one_line(parsed.error) ? "" : "refused without one line";
  const std::string reason = invalid_reason(*parsed.value);
  if (!reason.empty()) return "accepted although it is invalid: " + reason;
  const std::string again = to_string(*parsed.value);
  *said = keys_of(again);
  const ParsedCase twice = parse(again);
  if (!twice.value) return "its spelling is refused: " + twice.error;
  if (!(*twice.value == *parsed.value)) return "its spelling is another case";
  return to_string(*twice.value) == again ? "" : "it is spelled in two ways";
}

namespace {

std::string check(std::span<const uint8_t> bytes, std::string* said) {
  return case_text_problem(as_text(bytes), parse_case, said);
}

}  // namespace

extern constinit const FuzzTarget fuzz_case_text = {
    .name = "case_text",
    .sentence =
        "A line is refused with a reason, or is a case that is spelled back.",
    .check = check};

}  // namespace qkvet::fuzz
