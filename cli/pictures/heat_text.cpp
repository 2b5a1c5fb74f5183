// SPDX-License-Identifier: Apache-2.0
// Heat maps in characters.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "cli/pictures/heat_map.h"

namespace qkvet::cli {
namespace {

constexpr std::array<const char*, kHeatLevels> kShades = {"·", "░", "▒", "▓",
                                                          "█"};
constexpr std::array<const char*, kHeatLevels> kAsciiShades = {".", ":", "+",
                                                               "#", "@"};
// Colours of the palette of 256, from dark to light as in pictures;
// differences: too much is orange, too little blue.
constexpr std::array<int, kHeatLevels> kColours = {53, 60, 30, 71, 220};
constexpr std::array<int, kHeatLevels> kTooMuchShades = {94, 130, 166, 172,
                                                         208};
constexpr std::array<int, kHeatLevels> kTooLittleShades = {17, 18, 20, 26, 33};
constexpr int kLightFrom = 4;  // levels on which dark letters are read

const char* shade(int level, Ink ink) {
  const auto n = static_cast<size_t>(level);
  return ink == Ink::kAscii ? kAsciiShades[n] : kShades[n];
}

std::string painted(const std::string& text, double value, bool difference) {
  const auto level = static_cast<size_t>(heat_level(value));
  const int colour = !difference ? kColours[level]
                     : value < 0 ? kTooLittleShades[level]
                                 : kTooMuchShades[level];
  const bool dark =
      heat_level(value) >= kLightFrom && !(difference && value < 0);
  return fmt::format("\x1b[38;5;{};48;5;{}m{}\x1b[0m", dark ? 16 : 231, colour,
                     text);
}

// "0.50", "+0.25", as wide as they ought to be.
std::string number(double value, bool difference) {
  const int width = difference ? 5 : 4;
  std::string text = std::isnan(value) ? "nan"
                     : difference      ? fmt::format("{:+.2f}", value)
                                       : fmt::format("{:.2f}", value);
  // Numbers out of range, which weights never are.
  if (text.size() > static_cast<size_t>(width))
    text = value < 0 ? "< -9" : "> 9";
  return fmt::format("{:>{}}", text, width);
}

class Painter {
 public:
  Painter(const HeatMap& map, Ink ink)
      : map_(map),
        ink_(ink),
        numbered_(std::max(map.rows, map.columns) <= kNumberedCells),
        cell_(!numbered_       ? 2
              : map.difference ? 7
                               : 6),
        label_(fmt::format("{}", (map.rows - 1) * map.row_step).size() + 1) {}

  TextBlock paint() const {
    TextBlock block;
    block.width = std::max(label_ + cell_ * static_cast<size_t>(map_.columns),
                           map_.title.size());
    block.lines.push_back(fmt::format("{:<{}}", map_.title, block.width));
    block.lines.push_back(fmt::format("{:<{}}", header(), block.width));
    for (int64_t i = 0; i < map_.rows; ++i) {
      std::string line = fmt::format("{:>{}} ", i * map_.row_step, label_ - 1);
      for (int64_t j = 0; j < map_.columns; ++j) line += cell(i, j);
      const size_t used = label_ + cell_ * static_cast<size_t>(map_.columns);
      block.lines.push_back(line + std::string(block.width - used, ' '));
    }
    return block;
  }

 private:
  // Numbers of keys, every fifth if cells are narrow.
  std::string header() const {
    std::string line(label_, ' ');
    for (int64_t j = 0; j < map_.columns; ++j) {
      if (!numbered_ && j % 5 != 0) continue;
      const size_t at = label_ + cell_ * static_cast<size_t>(j);
      const std::string text = std::to_string(j * map_.column_step);
      if (at + text.size() > label_ + cell_ * static_cast<size_t>(map_.columns))
        continue;
      line.resize(at, ' ');
      line += numbered_ ? fmt::format("{:>{}}", text, cell_) : text;
    }
    return line;
  }

  std::string cell(int64_t i, int64_t j) const {
    const double value = map_.at(i, j);
    const bool hidden = !map_.sees(i, j);
    const bool none = map_.difference ? std::fabs(value) < kShownDifference
                                      : hidden && value == 0;
    if (none) return empty_cell(hidden);
    std::string text = numbered_ ? number(value, map_.difference) : "";
    if (ink_ == Ink::kColour)
      return painted(numbered_ ? " " + text + " " : signed_cell(value, " "),
                     value, map_.difference);
    const char* mark = std::isnan(value) ? "!" : shade(heat_level(value), ink_);
    return numbered_ ? " " + (mark + text) : signed_cell(value, mark);
  }
  // Hidden, or no difference.
  std::string empty_cell(bool hidden) const {
    std::string text(cell_, ' ');
    if (hidden || !map_.difference) return text;
    const char* dot = ink_ == Ink::kAscii ? "." : "·";
    text.pop_back();
    return text + dot;
  }
  // Two columns: the shade twice, or a sign and the shade.
  std::string signed_cell(double value, const char* mark) const {
    if (!map_.difference || std::isnan(value)) return std::string(mark) + mark;
    return (value < 0 ? "-" : "+") + std::string(mark);
  }

  const HeatMap& map_;
  Ink ink_;
  bool numbered_;
  size_t cell_;   // columns of one
  size_t label_;  // columns of the numbers of queries, with a space
};

}  // namespace

TextBlock heat_text(const HeatMap& map, Ink ink) {
  return Painter(map, ink).paint();
}

std::string side_by_side(const std::vector<TextBlock>& blocks, size_t width) {
  constexpr size_t kGap = 3;
  std::string out;
  for (size_t from = 0; from < blocks.size();) {
    size_t end = from, used = 0;
    while (end < blocks.size() &&
           (end == from || used + kGap + blocks[end].width <= width)) {
      used += blocks[end].width + (end == from ? 0 : kGap);
      ++end;
    }
    size_t lines = 0;
    for (size_t n = from; n < end; ++n)
      lines = std::max(lines, blocks[n].lines.size());
    if (from > 0) out += "\n";
    for (size_t l = 0; l < lines; ++l) {
      std::string line = " ";
      for (size_t n = from; n < end; ++n) {
        line += n == from ? " " : std::string(kGap, ' ');
        line += l < blocks[n].lines.size() ? blocks[n].lines[l]
                                           : std::string(blocks[n].width, ' ');
      }
      line.resize(line.find_last_not_of(' ') + 1);
      out += line + "\n";
    }
    from = end;
  }
  return out;
}

std::string legend_text(Ink ink, bool with_difference) {
  std::string out;
  for (int level = kHeatLevels - 1; level >= 0; --level) {
    // The middle of the level, and its beginning.
    const double middle = (level + 0.5) / kHeatLevels;
    const double from = static_cast<double>(std::max(level, 1)) / kHeatLevels;
    const std::string mark =
        ink == Ink::kColour
            ? painted("  ", middle * middle, /*difference=*/false)
            : shade(level, ink);
    out += fmt::format("{} {} {:.2g}   ", mark, level == 0 ? "below" : "from",
                       from * from);
  }
  out += "blank: hidden";
  if (!with_difference) return out;
  return out +
         fmt::format("\n  + {}too much, - {}too little, no shade below {}",
                     ink == Ink::kColour ? "(orange) " : "",
                     ink == Ink::kColour ? "(blue) " : "", kShownDifference);
}

}  // namespace qkvet::cli
