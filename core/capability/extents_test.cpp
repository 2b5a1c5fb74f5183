// SPDX-License-Identifier: Apache-2.0
#include "core/capability/extents.h"

#include <gtest/gtest.h>

namespace qkvet {
namespace {

qkvet_capabilities with_widths(std::string_view text) {
  qkvet_capabilities declared{};
  declared.options = QKVET_OPTION_VALUE_WIDTH;
  EXPECT_EQ(read_widths(text, declared), "");
  return declared;
}

TEST(Extents, WidthsAreSpelledAsTheyAreRead) {
  const qkvet_capabilities declared = with_widths("128  192/128 64");
  EXPECT_EQ(declared.width_count, 3);
  EXPECT_EQ(declared.widths[1].d, 192);
  EXPECT_EQ(declared.widths[1].dv, 128);
  EXPECT_EQ(declared.widths[2].dv, 0);
  EXPECT_EQ(widths_text(declared), "128 192/128 64");
  EXPECT_EQ(widths_text({}), "");
  // Narrow ones come first, and each has its dv.
  const DeclaredExtents extents = extents_of(declared);
  ASSERT_EQ(extents.widths.size(), 3u);
  EXPECT_EQ(extents.widths[0].dv, 64);
  EXPECT_EQ(extents.widths[2].d, 192);
}

TEST(Extents, BadWidthsGetOneClearLine) {
  for (const char* text : {"x", "0", "64/", "/64", "64/0", "64/64/64", "-1"}) {
    qkvet_capabilities declared{};
    EXPECT_EQ(read_widths(text, declared),
              "\"" + std::string(text) +
                  "\": a width is a positive number, or two as 192/128: d and "
                  "dv");
  }
  std::string many;
  for (int n = 1; n <= 17; ++n) many += std::to_string(n) + " ";
  qkvet_capabilities declared{};
  EXPECT_EQ(read_widths(many, declared), "more than 16 widths");
}

TEST(Extents, WhatNoKernelCanMeanIsNamed) {
  EXPECT_EQ(bad_extents({}), "");
  EXPECT_EQ(bad_extents(with_widths("64 192/128")), "");
  const auto bad = [](auto edit) {
    qkvet_capabilities declared = with_widths("64 192/128");
    edit(declared);
    return bad_extents(declared);
  };
  EXPECT_EQ(bad([](auto& c) { c.width_count = 17; }),
            "width_count is 17, at most 16");
  EXPECT_EQ(bad([](auto& c) { c.width_count = -1; }),
            "width_count is -1, at most 16");
  EXPECT_EQ(bad([](auto& c) { c.widths[1].dv = -8; }),
            "widths[1] is 192 by -8");
  EXPECT_EQ(bad([](auto& c) { c.options = 0; }),
            "widths[1] has dv = 128, and VALUE_WIDTH is not declared");
  EXPECT_EQ(bad([](auto& c) { c.d.max = 128; }),
            "widths[1]: d = 192 is above the declared 128");
  EXPECT_EQ(bad([](auto& c) { c.dv.multiple = 128; }),
            "widths[0]: dv = 64 is not a multiple of 128");
  EXPECT_EQ(bad([](auto& c) {
              c.h = {9, 15, 8};
            }),
            "h cannot keep the rule min 9, max 15, multiple 8");
  EXPECT_EQ(bad([](auto& c) { c.b.min = -1; }),
            "b cannot keep the rule min -1, max 0, multiple 0");
}

TEST(Extents, EachKindOfCallHasItsRules) {
  qkvet_capabilities declared = with_widths("64 192/128");
  declared.b = {2, 0, 0};
  declared.h = {0, 0, 4};
  declared.tq = {0, 1, 0};
  const DeclaredExtents extents = extents_of(declared);
  const auto broken = [&extents](const Shape& shape, ExtentsOf of) {
    return broken_extent(extents, shape, of);
  };
  Shape s{.B = 2, .H = 4, .Hkv = 4, .Tq = 1, .Tk = 9, .d = 192, .dv = 128};
  EXPECT_EQ(broken(s, kOfAttention), "");
  s.d = 64;
  EXPECT_EQ(broken(s, kOfAttention),
            "d = 64 with dv = 128 is no declared width");
  EXPECT_EQ(broken(s, kOfMerges), "");  // some width has that dv
  s.dv = 96;
  EXPECT_EQ(broken(s, kOfMerges), "dv = 96 is no declared width");
  s.dv = 64;
  s.B = 1;
  EXPECT_EQ(broken(s, kOfAttention), "B = 1 is below the declared 2");
  EXPECT_EQ(broken(s, kOfLayers), "B = 1 is below the declared 2");
  EXPECT_EQ(broken(s, kOfCaches), "");
  s.Tq = 2;
  EXPECT_EQ(broken(s, kOfLayers), "B = 1 is below the declared 2");
  s.H = s.Hkv = 6;
  EXPECT_EQ(broken(s, kOfCaches), "H = 6 is not a multiple of 4");
  EXPECT_EQ(broken(s, kOfMerges), "H = 6 is not a multiple of 4");
  EXPECT_EQ(broken({.B = 0, .H = 0, .Hkv = 0, .d = 0, .dv = 0}, kOfAttention),
            "");
}

TEST(Extents, ShapesMoveToWhatIsDeclared) {
  const DeclaredExtents extents = extents_of(with_widths("64 192/128 100"));
  bool narrow = false, wide = false;
  for (int64_t d = 1; d <= 24; ++d)
    for (int64_t dv = 1; dv <= 24; ++dv) {
      Shape s{.d = d, .dv = dv};
      keep_widths(extents, 0, s);
      EXPECT_EQ(broken_extent(extents, s, kOfAttention), "");
      narrow |= s.d == 64;
      wide |= s.d == 192;
      s = {.d = d, .dv = dv};
      keep_widths(extents, 8, s);  // channels in groups of eight
      EXPECT_EQ(s.d % 8, 0);
    }
  EXPECT_TRUE(narrow && wide);
  Shape s{.d = 192, .dv = 128};
  keep_widths(extents, 0, s);
  EXPECT_EQ(s.dv, 128);  // declared ones stay
}

TEST(Extents, HeadsMoveToWhatIsDeclared) {
  const struct {
    qkvet_extent_rule h, group;
    bool grouped;
    int64_t H, Hkv, kept, kept_kv;
  } rows[] = {
      {{}, {}, true, 6, 2, 6, 2},
      {{}, {}, false, 6, 2, 6, 6},
      {{}, {2, 0, 2}, true, 3, 3, 6, 3},
      {{32, 32, 0}, {}, true, 4, 1, 32, 8},
      {{32, 32, 0}, {}, false, 4, 1, 32, 32},
      {{0, 0, 16}, {8, 8, 0}, true, 7, 1, 16, 2},
      {{0, 12, 6}, {4, 4, 0}, true, 5, 5, 12, 3},  // 18 is too many
      {{0, 4, 0}, {}, true, 8, 2, 4, 1},
      {{7, 0, 0}, {2, 2, 0}, true, 1, 1, 8, 4},  // 7 has no group of two
  };
  for (const auto& row : rows) {
    DeclaredExtents extents;
    extents.rules[static_cast<size_t>(ExtentName::kH)] = row.h;
    extents.rules[static_cast<size_t>(ExtentName::kGroup)] = row.group;
    Shape s{.H = row.H, .Hkv = row.Hkv};
    keep_heads(extents, row.grouped, s);
    EXPECT_EQ(s.H, row.kept) << row.H << " heads";
    EXPECT_EQ(s.Hkv, row.kept_kv) << row.H << " heads";
    EXPECT_EQ(broken_extent(extents, s, kOfAttention), "");
  }
}

}  // namespace
}  // namespace qkvet
