// SPDX-License-Identifier: Apache-2.0
// The options of attention, a part of a Case's, one row each: how they are
// spelled, what is allowed, and how a case gets and loses them.
#ifndef QKVET_CORE_CASE_CASE_OPTIONS_H_
#define QKVET_CORE_CASE_CASE_OPTIONS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/call/cache_options.h"
#include "core/case/case.h"

namespace qkvet {

// Options beside QKVET_OPTION_*. A kernel declares them by its table of caches
// (quantised storage) and by its layouts.
inline constexpr uint64_t kOptionStored = uint64_t{1} << 60;
inline constexpr uint64_t kOptionCalls = uint64_t{1} << 61;  // all have it
inline constexpr uint64_t kOptionLayout = uint64_t{1} << 62;
inline constexpr uint64_t kOptionShare = uint64_t{1} << 63;

// Options that a story and a layer also have; the others are only of attention.
// A story's window is in its CacheForm.
inline constexpr uint64_t kStoryOptions =
    (options_by_cache_bits(~uint64_t{0}) & ~QKVET_OPTION_WINDOW) |
    kOptionLayout;
inline constexpr uint64_t kLayerOptions =
    QKVET_OPTION_ROPE | QKVET_OPTION_ROPE_PART | kOptionLayout;

struct CaseOption {
  std::string_view key;  // "softcap"
  uint64_t option;       // QKVET_OPTION_*, or one of those above
  bool in_backward;      // the gradient of attention also has it

  bool (*given)(const Case& value);
  void (*copy)(const Case& from, Case& to);
  // "" or one line with the mistake in the token; reason() checks ranges.
  std::string (*read)(std::string_view text, std::string_view token,
                      Case& value);
  // "softcap=2"; "" where the case has none.
  std::string (*text)(const Case& value);
  // "" or what is wrong with the option of an attention case.
  std::string (*reason)(const Case& value);

  void drop(Case& value) const { copy(Case{}, value); }
};

// In the order of the spelling. A key that refines the option of another row is
// never `given` by itself: the other row is. An option that is spelled in
// another row's token has no key.
std::span<const CaseOption> case_options();

// The row of the key, or null.
const CaseOption* find_option(std::string_view key);

// Appends what the case has, in canonical order.
void add_options(std::string& text, const Case& value);

// "" or what is wrong with the options of an attention case.
std::string options_reason(const Case& value);

// How the first option is called that a case has and a layer or a story has
// not; "" if it has none.
std::string_view first_option(const Case& value);

// "window= mask= ...": the keys, those of the gradient or all.
std::string option_keys(bool of_backward, std::string_view separator);

}  // namespace qkvet

#endif  // QKVET_CORE_CASE_CASE_OPTIONS_H_
