// SPDX-License-Identifier: Apache-2.0
#include "core/capability/extents.h"

#include <algorithm>
#include <charconv>
#include <iterator>

namespace qkvet {
namespace {

constexpr uint8_t kOfHeads = kOfAttention | kOfLayers | kOfCaches;

constexpr std::array<ExtentRow, kExtentCount> kExtentRows = {
    {{"d", "d", &qkvet_capabilities::d, [](const Shape& s) { return s.d; },
      kOfHeads},
     {"dv", "dv", &qkvet_capabilities::dv, [](const Shape& s) { return s.dv; },
      kOfHeads | kOfMerges},
     {"group", "H / Hkv", &qkvet_capabilities::group,
      [](const Shape& s) { return s.Hkv == 0 ? 0 : s.group(); }, kOfHeads},
     {"tq", "Tq", &qkvet_capabilities::tq, [](const Shape& s) { return s.Tq; },
      kOfAttention},
     {"tk", "Tk", &qkvet_capabilities::tk, [](const Shape& s) { return s.Tk; },
      kOfAttention},
     {"b", "B", &qkvet_capabilities::b, [](const Shape& s) { return s.B; },
      kOfAttention | kOfLayers},
     {"h", "H", &qkvet_capabilities::h, [](const Shape& s) { return s.H; },
      kOfHeads | kOfMerges}}};

constexpr int32_t kMostWidths =
    static_cast<int32_t>(std::size(qkvet_capabilities{}.widths));

qkvet_width whole(const qkvet_width& width) {
  return {width.d, width.dv == 0 ? width.d : width.dv};
}

std::string width_text(const qkvet_width& width) {
  const auto [d, dv] = whole(width);
  return std::to_string(d) + (dv == d ? "" : "/" + std::to_string(dv));
}

// "" if the extent keeps the rule. Extents of 0 are EMPTY_EXTENTS' business.
std::string broken_rule(const char* name, int64_t extent,
                        const qkvet_extent_rule& rule) {
  if (extent == 0 || allows(rule, extent)) return "";
  const std::string lead =
      std::string(name) + " = " + std::to_string(extent) + " is ";
  if (extent < rule.min)
    return lead + "below the declared " + std::to_string(rule.min);
  if (rule.max > 0 && extent > rule.max)
    return lead + "above the declared " + std::to_string(rule.max);
  return lead + "not a multiple of " + std::to_string(rule.multiple);
}

bool is_listed(const DeclaredExtents& extents, const Shape& s, ExtentsOf of) {
  if (extents.widths.empty() || s.d == 0 || s.dv == 0) return true;
  return std::any_of(extents.widths.begin(), extents.widths.end(),
                     [&](const qkvet_width& width) {
                       return width.dv == s.dv &&
                              (of == kOfMerges || width.d == s.d);
                     });
}

// A group of H heads that the rule allows, as close to `group` as one is; 0:
// none.
int64_t closest_group(const qkvet_extent_rule& rule, int64_t H, int64_t group) {
  for (int64_t away = 0; away <= H; ++away)
    for (const int64_t one : {group - away, group + away})
      if (one >= 1 && one <= H && H % one == 0 && allows(rule, one)) return one;
  return 0;
}

// Reads "64" or "192/128".
bool read_width(std::string_view word, qkvet_width& width) {
  const auto read = [](std::string_view text, int64_t& value) {
    const char* const end = text.data() + text.size();
    const auto [stop, code] = std::from_chars(text.data(), end, value);
    return code == std::errc() && stop == end && value >= 1;
  };
  const size_t slash = word.find('/');
  if (slash == std::string_view::npos) return read(word, width.d);
  return read(word.substr(0, slash), width.d) &&
         read(word.substr(slash + 1), width.dv);
}

}  // namespace

const std::array<ExtentRow, kExtentCount>& extent_rows() { return kExtentRows; }

DeclaredExtents extents_of(const qkvet_capabilities& declared) {
  DeclaredExtents extents;
  for (size_t n = 0; n < kExtentCount; ++n)
    extents.rules[n] = declared.*kExtentRows[n].rule;
  for (int32_t n = 0; n < std::clamp(declared.width_count, 0, kMostWidths); ++n)
    extents.widths.push_back(whole(declared.widths[n]));
  std::stable_sort(extents.widths.begin(), extents.widths.end(),
                   [](const qkvet_width& a, const qkvet_width& b) {
                     return a.d + a.dv < b.d + b.dv;
                   });
  return extents;
}

bool is_same(const qkvet_extent_rule& a, const qkvet_extent_rule& b) {
  return a.min == b.min && a.max == b.max && a.multiple == b.multiple;
}

std::string broken_extent(const DeclaredExtents& extents, const Shape& shape,
                          ExtentsOf of) {
  for (size_t n = 0; n < kExtentCount; ++n) {
    if ((kExtentRows[n].of & of) == 0) continue;
    std::string broken = broken_rule(
        kExtentRows[n].name, kExtentRows[n].extent(shape), extents.rules[n]);
    if (!broken.empty()) return broken;
  }
  if (is_listed(extents, shape, of)) return "";
  const std::string dv = "dv = " + std::to_string(shape.dv);
  return (of == kOfMerges ? dv
                          : "d = " + std::to_string(shape.d) + " with " + dv) +
         " is no declared width";
}

int64_t nearest_allowed(int64_t extent, const qkvet_extent_rule& rule) {
  const int64_t multiple = std::max<int64_t>(rule.multiple, 1);
  const int64_t low = std::max<int64_t>(rule.min, 1);
  extent = std::max(extent, low);
  if (rule.max > 0) extent = std::min(extent, rule.max);
  const int64_t up = (extent + multiple - 1) / multiple * multiple;
  return rule.max > 0 && up > rule.max ? extent / multiple * multiple : up;
}

bool allows(const qkvet_extent_rule& rule, int64_t extent) {
  return extent >= rule.min && (rule.max <= 0 || extent <= rule.max) &&
         (rule.multiple <= 0 || extent % rule.multiple == 0);
}

void keep_widths(const DeclaredExtents& extents, int64_t channels,
                 Shape& shape) {
  if (extents.widths.empty()) {
    shape.d = nearest_allowed(shape.d, extents.of(ExtentName::kD));
    shape.dv = nearest_allowed(shape.dv, extents.of(ExtentName::kDv));
    return;
  }
  std::vector<qkvet_width> fit;
  std::copy_if(extents.widths.begin(), extents.widths.end(),
               std::back_inserter(fit), [channels](const qkvet_width& width) {
                 return channels == 0 || width.d % channels == 0;
               });
  if (fit.empty()) fit = extents.widths;
  for (const qkvet_width& width : fit)
    if (width.d == shape.d && width.dv == shape.dv) return;
  const qkvet_width& width =
      fit[static_cast<size_t>(shape.d + shape.dv) % fit.size()];
  shape.d = width.d;
  shape.dv = width.dv;
}

void keep_heads(const DeclaredExtents& extents, bool grouped, Shape& shape) {
  const qkvet_extent_rule& group = extents.of(ExtentName::kGroup);
  const qkvet_extent_rule& heads = extents.of(ExtentName::kH);
  if (!grouped) shape.Hkv = shape.H;
  if (shape.Hkv == 0) return;
  if (!allows(group, shape.group()))
    shape.H = shape.Hkv * nearest_allowed(shape.group(), group);
  if (allows(heads, shape.H)) return;
  // The next heads that some declared group divides, up from the nearest ones
  // and then from the fewest.
  constexpr int kTries = 64;
  const int64_t step = std::max<int64_t>(heads.multiple, 1);
  for (const int64_t from : {shape.H, int64_t{1}})
    for (int64_t n = 0, H = nearest_allowed(from, heads);
         n < kTries && allows(heads, H); ++n, H += step) {
      const int64_t one = closest_group(group, H, shape.group());
      if (one == 0 || (!grouped && one != 1)) continue;
      shape.H = H;
      shape.Hkv = H / one;
      return;
    }
}

std::string bad_extents(const qkvet_capabilities& declared) {
  for (const ExtentRow& row : kExtentRows) {
    const qkvet_extent_rule& rule = declared.*row.rule;
    if (std::min({rule.min, rule.max, rule.multiple}) < 0 ||
        !allows(rule, nearest_allowed(1, rule)))
      return std::string(row.key) + " cannot keep the rule min " +
             std::to_string(rule.min) + ", max " + std::to_string(rule.max) +
             ", multiple " + std::to_string(rule.multiple);
  }
  if (declared.width_count < 0 || declared.width_count > kMostWidths)
    return "width_count is " + std::to_string(declared.width_count) +
           ", at most " + std::to_string(kMostWidths);
  const bool own_dv = (declared.options & QKVET_OPTION_VALUE_WIDTH) != 0;
  for (int32_t n = 0; n < declared.width_count; ++n) {
    const auto [d, dv] = whole(declared.widths[n]);
    const std::string which = "widths[" + std::to_string(n) + "]";
    if (d < 1 || dv < 1)
      return which + " is " + std::to_string(d) + " by " + std::to_string(dv);
    if (d != dv && !own_dv)
      return which + " has dv = " + std::to_string(dv) +
             ", and VALUE_WIDTH is not declared";
    for (const ExtentName name : {ExtentName::kD, ExtentName::kDv}) {
      const ExtentRow& row = kExtentRows[static_cast<size_t>(name)];
      const std::string broken = broken_rule(
          row.name, name == ExtentName::kD ? d : dv, declared.*row.rule);
      if (!broken.empty()) return which + ": " + broken;
    }
  }
  return "";
}

std::string widths_text(const qkvet_capabilities& declared) {
  std::string text;
  for (int32_t n = 0; n < declared.width_count; ++n)
    text += (text.empty() ? "" : " ") + width_text(declared.widths[n]);
  return text;
}

std::string read_widths(std::string_view text, qkvet_capabilities& declared) {
  declared.width_count = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    if (declared.width_count == kMostWidths)
      return "more than " + std::to_string(kMostWidths) + " widths";
    qkvet_width width{};
    if (!read_width(word, width))
      return "\"" + std::string(word) +
             "\": a width is a positive number, or two as 192/128: d and dv";
    declared.widths[declared.width_count++] = width;
  }
  return "";
}

}  // namespace qkvet
