// SPDX-License-Identifier: Apache-2.0
// Options of attention that are one number, 0 where a call has none: the field
// of the ABI that has the same name as the number in plans, reproducers and
// maps of arguments.
#ifndef QKVET_CORE_CALL_OPTION_NUMBERS_H_
#define QKVET_CORE_CALL_OPTION_NUMBERS_H_

#include "core/call/options.h"
#include "qkvet/kernel.h"

namespace qkvet {

struct OptionNumber {
  const char* name;
  float ScoreRule::*in_call;
  float qkvet_forward_args::*in_abi;
};
inline constexpr OptionNumber kOptionNumbers[] = {
    {"softcap", &ScoreRule::softcap, &qkvet_forward_args::softcap}};

}  // namespace qkvet

#endif  // QKVET_CORE_CALL_OPTION_NUMBERS_H_
