// SPDX-License-Identifier: Apache-2.0
// The extents that a kernel declares: a rule for each of them, and the widths
// that it lists.
#ifndef QKVET_CORE_CAPABILITY_EXTENTS_H_
#define QKVET_CORE_CAPABILITY_EXTENTS_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/shape.h"
#include "qkvet/kernel.h"

namespace qkvet {

// The kinds of calls that a rule is about.
enum ExtentsOf : uint8_t {
  kOfAttention = 1,  // forward() and its gradient
  kOfLayers = 2,
  kOfCaches = 4,
  kOfMerges = 8
};

struct ExtentRow {
  const char* key;   // "group": the field, and what declarations call it
  const char* name;  // "H / Hkv"
  qkvet_extent_rule qkvet_capabilities::*rule;
  int64_t (*extent)(const Shape&);  // B counts the members of a packed batch
  uint8_t of;                       // ExtentsOf
};
enum class ExtentName : uint8_t { kD, kDv, kGroup, kTq, kTk, kB, kH };
inline constexpr size_t kExtentCount = 7;
// In the order of ExtentName.
const std::array<ExtentRow, kExtentCount>& extent_rows();

// The declared extents. Without a declaration all of them are allowed.
struct DeclaredExtents {
  std::array<qkvet_extent_rule, kExtentCount> rules{};
  std::vector<qkvet_width> widths;  // the narrowest first; dv is never 0

  const qkvet_extent_rule& of(ExtentName name) const {
    return rules[static_cast<size_t>(name)];
  }
};
DeclaredExtents extents_of(const qkvet_capabilities& declared);
bool is_same(const qkvet_extent_rule& a, const qkvet_extent_rule& b);

// "" or what is not declared of these extents.
std::string broken_extent(const DeclaredExtents& extents, const Shape& shape,
                          ExtentsOf of);

// The extent that the rule allows next to this one.
int64_t nearest_allowed(int64_t extent, const qkvet_extent_rule& rule);
bool allows(const qkvet_extent_rule& rule, int64_t extent);

// Replaces d and dv by declared widths unless they are declared. d is a
// multiple of `channels` if any declared width is.
void keep_widths(const DeclaredExtents& extents, int64_t channels,
                 Shape& shape);
// H and Hkv of a group and of a number of heads that are declared, next to
// those of the shape. Without `grouped` Hkv is H.
void keep_heads(const DeclaredExtents& extents, bool grouped, Shape& shape);

// "" or the contradiction in the declaration.
std::string bad_extents(const qkvet_capabilities& declared);

// "64 128 192/128", as declarations spell widths; read_widths() returns "" or
// what is wrong with the text.
std::string widths_text(const qkvet_capabilities& declared);
std::string read_widths(std::string_view text, qkvet_capabilities& declared);

}  // namespace qkvet

#endif  // QKVET_CORE_CAPABILITY_EXTENTS_H_
