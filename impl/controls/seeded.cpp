// SPDX-License-Identifier: Apache-2.0
// The configuration of the controls: "seeded=NAME" or "seeded=none",
// "storage=f16", "bf16" or "f32", any number of them separated by commas. Each
// configuration replaces the previous one.
#include "impl/controls/seeded.h"

#include <atomic>
#include <string_view>

namespace qkvet::impl {
namespace {

constexpr std::string_view kNames[] = {
    "scale",          "lost_key",      "rounded_p",     "truncated_p",
    "truncated_sums", "rounded_tile",  "rounded_total", "old_blocks",
    "short_blocks",   "softcap_order", "sink_in_lse"};
constexpr uint32_t kTypeShift = 24;

// Faults, and above them 0, or the storage type and 1.
std::atomic<uint32_t> configured{0};

bool configure_one(std::string_view text, uint32_t* to) {
  if (text == "seeded=none" || text == "storage=f32") {
    return true;
  }
  if (text == "storage=f16" || text == "storage=bf16") {
    const Storage type = text == "storage=f16" ? Storage::kF16 : Storage::kBf16;
    *to |= (static_cast<uint32_t>(type) + 1) << kTypeShift;
    return true;
  }
  constexpr std::string_view kSeeded = "seeded=";
  if (text.substr(0, kSeeded.size()) != kSeeded) {
    return false;
  }
  text.remove_prefix(kSeeded.size());
  uint32_t bit = 1;
  for (const std::string_view name : kNames) {
    if (text == name) {
      *to |= bit;
      return true;
    }
    bit <<= 1;
  }
  return false;
}

}  // namespace

Deviation deviation() {
  const uint32_t all = configured.load(std::memory_order_relaxed);
  Deviation off;
  off.seeded = all & ((1U << kTypeShift) - 1);
  if (all >> kTypeShift != 0) {
    off.storage = static_cast<Storage>((all >> kTypeShift) - 1);
  }
  return off;
}

bool configure_family(const char* config);
const char* family_configurations();

bool configure_family(const char* config) {
  uint32_t all = 0;
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
