// SPDX-License-Identifier: Apache-2.0
// The configuration of the controls: "seeded=NAME" or "seeded=none",
// "storage=f16", "bf16" or "f32", any number of them separated by commas. Each
// configuration replaces the previous one.
#include "impl/controls/seeded.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

namespace qkvet::impl {
namespace {

constexpr std::string_view kNames[] = {
    "scale",          "lost_key",      "rounded_p",     "truncated_p",
    "truncated_sums", "rounded_tile",  "rounded_total", "old_blocks",
    "short_blocks",   "softcap_order", "sink_in_lse"};
constexpr std::pair<std::string_view, std::optional<Storage>> kTypes[] = {
    {"seeded=none", std::nullopt},
    {"storage=f32", std::nullopt},
    {"storage=f16", Storage::kF16},
    {"storage=bf16", Storage::kBf16}};

std::atomic<Deviation> configured{Deviation{}};

bool configure_one(std::string_view text, Deviation* to) {
  for (const auto& [name, type] : kTypes) {
    if (text == name) {
      to->storage = type.has_value() ? type : to->storage;
      return true;
    }
  }
  constexpr std::string_view kSeeded = "seeded=";
  if (!text.starts_with(kSeeded)) {
    return false;
  }
  const auto* const name =
      std::ranges::find(kNames, text.substr(kSeeded.size()));
  if (name == std::end(kNames)) {
    return false;
  }
  to->seeded |= 1U << (name - kNames);
  return true;
}

}  // namespace

Deviation deviation() { return configured.load(std::memory_order_relaxed); }

bool configure_family(const char* config);
const char* family_configurations();

bool configure_family(const char* config) {
  Deviation all;
  std::string_view text = config;
  for (;;) {
    const size_t comma = text.find(',');
    if (!configure_one(text.substr(0, comma), &all)) {
      return false;
    }
    if (comma == std::string_view::npos) {
      break;
    }
    text.remove_prefix(comma + 1);
  }
  configured.store(all, std::memory_order_relaxed);
  return true;
}

const char* family_configurations() {
  return "allowed is seeded=NAME, of impl/controls/seeded.h, and storage=TYPE, "
         "f16 or bf16, joined by commas";
}

}  // namespace qkvet::impl
