// SPDX-License-Identifier: Apache-2.0
#include "core/call/cache_form.h"

#include <algorithm>
#include <array>

namespace qkvet {
namespace {

// In the order of StoredAs.
constexpr std::array<std::string_view, kStoredAsCount> kStored = {
    "given", "int8token", "int8channel", "fp8token", "fp8channel"};

}  // namespace

std::string form_text(const CacheForm& form) {
  std::string text;
  const auto add = [&](const char* key, int64_t value) {
    if (value != 0) text += "," + std::string(key) + std::to_string(value);
  };
  add("win", form.window);
  add("first", form.first_tokens);
  add("rollback", form.rollback);
  if (form.stored != StoredAs::kAsGiven)
    text += ",stored=" + std::string(kStored[static_cast<size_t>(form.stored)]);
  return text.empty() ? text : text.substr(1);
}

std::optional<StoredAs> stored_from_name(std::string_view name) {
  const auto* found = std::find(kStored.begin() + 1, kStored.end(), name);
  if (found == kStored.end()) return std::nullopt;
  return static_cast<StoredAs>(found - kStored.begin());
}

std::string form_reason(const CacheForm& form) {
  if (std::min({form.window, form.first_tokens, form.rollback}) < 0)
    return "win, first and rollback count tokens: 0 or more";
  return form.window == 0 && std::max(form.first_tokens, form.rollback) > 0
             ? "first and rollback belong to a window: win is missing"
             : "";
}

}  // namespace qkvet
