// SPDX-License-Identifier: Apache-2.0
#include "cli/base/arguments.h"

#include <sys/random.h>

#include <algorithm>
#include <charconv>
#include <thread>

namespace qkvet::cli {

std::optional<double> parse_budget(const std::string& text,
                                   std::string* error) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, value);
  if (code == std::errc() && value > 0) {
    const std::string unit(stop, end);
    constexpr double kMost = 1e7;  // some four months
    const double seconds = unit == "m" ? 60 * value : value;
    if ((unit.empty() || unit == "s" || unit == "m") && seconds <= kMost)
      return seconds;
  }
  *error = "--budget " + text + ": allowed is a time like 60s or 2m";
  return std::nullopt;
}

std::optional<uint64_t> parse_seed(const std::string& text,
                                   std::string* error) {
  uint64_t seed = 0;
  const char* end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, seed);
  if (code == std::errc() && stop == end) return seed;
  // The drawn seed is printed. std::random_device would require a newer C
  // library than the rest of the program.
  if (text == "random" && getrandom(&seed, sizeof seed, 0) == sizeof seed)
    return seed;
  *error = "--seed " + text + ": allowed 0 .. 18446744073709551615, or random";
  return std::nullopt;
}

int jobs_or_cores(int jobs) {
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  return jobs > 0 ? jobs : std::max(1, cores);
}

}  // namespace qkvet::cli
