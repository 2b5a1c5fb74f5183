// SPDX-License-Identifier: Apache-2.0
// The bits QKVET_OPTION_* of a kernel's declaration, one row an option: its
// spelling in declarations, its name in reports, and the calls that have it.
#ifndef QKVET_CORE_CAPABILITY_OPTION_TABLE_H_
#define QKVET_CORE_CAPABILITY_OPTION_TABLE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/call/call.h"

namespace qkvet {

struct OptionRow {
  uint64_t option;         // QKVET_OPTION_*
  std::string_view word;   // in declarations: "softcap"
  std::string_view one;    // of one call: "a softcap"
  std::string_view means;  // what it is in the names of a call, or ""
  std::string_view many;   // of many calls: "softcap", "windows"
  bool (*in)(const KernelCall& call);
};

// In the order of the bits, without a gap.
std::span<const OptionRow> option_rows();

// "a rotation (RoPE)"
std::string named(const OptionRow& row);

// The options of the call, as QKVET_OPTION_*.
uint64_t options_in(const KernelCall& call);

// Options that a layer and a cache may also have: those before windows, and
// rotations. All others are only of attention and its gradient.
inline constexpr uint64_t kOptionsOfEveryCall =
    (QKVET_OPTION_WINDOW - 1) | QKVET_OPTION_ROPE | QKVET_OPTION_ROPE_PART;

}  // namespace qkvet

#endif  // QKVET_CORE_CAPABILITY_OPTION_TABLE_H_
