// SPDX-License-Identifier: Apache-2.0
// The configuration of the faults: "tile=N".
#include <charconv>
#include <cstring>

#include "impl/faulty/tile.h"

namespace qkvet::impl {

bool configure_family(const char* config);
const char* family_configurations();

bool configure_family(const char* config) {
  constexpr char kKey[] = "tile=";
  constexpr size_t kKeyEnd = sizeof kKey - 1;
  constexpr int64_t kLargest = 1024;
  if (std::strncmp(config, kKey, kKeyEnd) != 0) {
    return false;
  }
  int64_t tile = 0;
  const char* const end = config + std::strlen(config);
  const auto [stop, code] = std::from_chars(config + kKeyEnd, end, tile);
  const bool is_power =
      tile >= 4 && tile <= kLargest && (tile & (tile - 1)) == 0;
  if (code != std::errc() || stop != end || !is_power) {
    return false;
  }
  configured_tile = tile;
  return true;
}

const char* family_configurations() {
  return "allowed is tile=N, N a power of two from 4 to 1024";
}

}  // namespace qkvet::impl
