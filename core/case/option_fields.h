// SPDX-License-Identifier: Apache-2.0
// The fields of options (core/call/options.h, core/call/cache_form.h), one row
// each. Words of conditions, simpler cases, mutations and the ladders of
// diagnosis follow from the rows.
#ifndef QKVET_CORE_CASE_OPTION_FIELDS_H_
#define QKVET_CORE_CASE_OPTION_FIELDS_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "core/case/case.h"

namespace qkvet {

struct OptionField {
  std::string_view word;  // in conditions: "segments.tokens"; "": it has none
  int64_t (*get)(const Case& value);
  // Whether the case has the option; then the field can be set. Both are null
  // for an option without a value.
  bool (*given)(const Case& value) = nullptr;
  void (*set)(Case& value, int64_t number) = nullptr;
  bool counts = false;  // a number; else a flag or a choice
  // The range of a number. A value below the least, such as "any", is
  // simplified to any plain one.
  int64_t least = 0, most = 0;
  std::span<const int64_t> plain = {};  // to be tried, the plainest first
};

// In the order of conditions.
std::span<const OptionField> option_fields();

// The row of the word, or null.
const OptionField* find_option_field(std::string_view word);

}  // namespace qkvet

#endif  // QKVET_CORE_CASE_OPTION_FIELDS_H_
