// SPDX-License-Identifier: Apache-2.0
// The configuration of the faults: "tile=N", "window_us=N", or both with a
// comma between them.
#include <charconv>
#include <string_view>

#include "impl/skeletons/race_window.h"
#include "impl/skeletons/tile.h"

namespace qkvet::impl {
namespace {

// The number behind `key`; -1 if the text is anything else.
int64_t number_behind(std::string_view key, std::string_view text) {
  if (text.substr(0, key.size()) != key) return -1;
  text.remove_prefix(key.size());
  int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, number);
  return code == std::errc() && stop == end ? number : -1;
}

bool configure_one(std::string_view text) {
  constexpr int64_t kLargestTile = 1024;
  constexpr int64_t kLongestWindow = 1000000;
  const int64_t tile = number_behind("tile=", text);
  if (tile >= 4 && tile <= kLargestTile && (tile & (tile - 1)) == 0) {
    configured_tile = tile;
    return true;
  }
  const int64_t window = number_behind("window_us=", text);
  if (window >= 0 && window <= kLongestWindow) {
    configured_window_us = window;
    return true;
  }
  return false;
}

}  // namespace

bool configure_family(const char* config);
const char* family_configurations();

bool configure_family(const char* config) {
  const std::string_view text = config;
  const size_t comma = text.find(',');
  return configure_one(text.substr(0, comma)) &&
         (comma == std::string_view::npos ||
          configure_one(text.substr(comma + 1)));
}

const char* family_configurations() {
  return "allowed is tile=N, N a power of two from 4 to 1024, and window_us=N "
         "up to 1000000, joined by a comma";
}

}  // namespace qkvet::impl
