// SPDX-License-Identifier: Apache-2.0
// The rows of core/call/option_numbers.def as a table.
#ifndef QKVET_CORE_CALL_OPTION_NUMBERS_H_
#define QKVET_CORE_CALL_OPTION_NUMBERS_H_

#include "core/call/options.h"
#include "qkvet/kernel.h"

namespace qkvet {

struct OptionNumber {
  const char* name;
  uint64_t option;
  bool in_backward;
  float ScoreRule::*in_call;
  float qkvet_forward_args::*in_abi;
};
inline constexpr OptionNumber kOptionNumbers[] = {
#define QKVET_OPTION_NUMBER(name, NAME, one, in_backward, ...) \
  {#name, QKVET_OPTION_##NAME, in_backward, &ScoreRule::name,  \
   &qkvet_forward_args::name},
#include "core/call/option_numbers.def"
};

constexpr uint64_t number_options(bool of_gradients = false) {
  uint64_t options = 0;
  for (const OptionNumber& row : kOptionNumbers)
    if (row.in_backward || !of_gradients) options |= row.option;
  return options;
}

// Between structs that have a field for each row.
template <class From, class To>
void copy_numbers(const From& from, To& to) {
#define QKVET_OPTION_NUMBER(name, ...) to.name = from.name;
#include "core/call/option_numbers.def"
}

}  // namespace qkvet

#endif  // QKVET_CORE_CALL_OPTION_NUMBERS_H_
