// SPDX-License-Identifier: Apache-2.0
#include "core/capability/paths.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>

namespace qkvet {
namespace {

struct Axis {
  int32_t axis;
  std::string_view name;
  std::string_view constant;
};
constexpr std::array<Axis, 6> kAxes = {{{QKVET_AXIS_TQ, "Tq", "QKVET_AXIS_TQ"},
                                        {QKVET_AXIS_TK, "Tk", "QKVET_AXIS_TK"},
                                        {QKVET_AXIS_D, "d", "QKVET_AXIS_D"},
                                        {QKVET_AXIS_DV, "dv", "QKVET_AXIS_DV"},
                                        {QKVET_AXIS_B, "B", "QKVET_AXIS_B"},
                                        {QKVET_AXIS_H, "H", "QKVET_AXIS_H"}}};

constexpr int32_t kMostPaths =
    static_cast<int32_t>(std::size(qkvet_capabilities{}.paths));

const Axis* find_axis(int32_t axis) {
  const auto* const found =
      std::find_if(kAxes.begin(), kAxes.end(),
                   [axis](const Axis& one) { return one.axis == axis; });
  return found == kAxes.end() ? nullptr : found;
}

const char* const kRange = "allowed: 2 to 131072";
static_assert(QKVET_MOST_PATH == 131072);
const char* const kAllowed =
    ": allowed: Tq Tk d dv B H, each with = and a number from 2 to 131072";

bool is_extent(int64_t at) { return at >= 2 && at <= QKVET_MOST_PATH; }

}  // namespace

std::string bad_paths(const qkvet_capabilities& declared) {
  if (declared.path_count < 0 || declared.path_count > kMostPaths)
    return "path_count is " + std::to_string(declared.path_count) +
           ", at most " + std::to_string(kMostPaths);
  for (int32_t n = 0; n < declared.path_count; ++n) {
    const qkvet_path& path = declared.paths[n];
    const std::string which = "paths[" + std::to_string(n) + "]";
    if (find_axis(path.axis) == nullptr)
      return which + " has the unknown axis " + std::to_string(path.axis);
    if (!is_extent(path.at))
      return which + " is at " + std::to_string(path.at) + "; " + kRange;
  }
  return "";
}

std::vector<qkvet_path> paths_of(const qkvet_capabilities& declared) {
  return {declared.paths,
          declared.paths + std::clamp(declared.path_count, 0, kMostPaths)};
}

std::string path_text(const qkvet_path& path) {
  const Axis* const axis = find_axis(path.axis);
  return std::string(axis == nullptr ? "?" : axis->name) + "=" +
         std::to_string(path.at);
}

std::string paths_text(const qkvet_capabilities& declared) {
  std::string text;
  for (const qkvet_path& path : paths_of(declared))
    text += (text.empty() ? "" : " ") + path_text(path);
  return text;
}

std::string read_paths(std::string_view text, qkvet_capabilities& declared) {
  declared.path_count = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    const size_t equals = std::min(word.find('='), word.size());
    const std::string_view number =
        word.substr(std::min(equals + 1, word.size()));
    const auto* const axis = std::find_if(
        kAxes.begin(), kAxes.end(),
        [&](const Axis& one) { return one.name == word.substr(0, equals); });
    qkvet_path path{};
    const char* const last = number.data() + number.size();
    const auto [stop, code] = std::from_chars(number.data(), last, path.at);
    if (axis == kAxes.end() || code != std::errc() || stop != last ||
        !is_extent(path.at))
      return "\"" + std::string(word) + "\"" + kAllowed;
    if (declared.path_count == kMostPaths)
      return "more than " + std::to_string(kMostPaths) + " paths";
    path.axis = axis->axis;
    declared.paths[declared.path_count++] = path;
  }
  return "";
}

std::string axis_constant(const qkvet_path& path) {
  const Axis* const axis = find_axis(path.axis);
  return axis == nullptr ? "0" : std::string(axis->constant);
}

}  // namespace qkvet
