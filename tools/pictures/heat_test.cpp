// SPDX-License-Identifier: Apache-2.0
// Heat maps, as text and as pictures, and what is told of a head in numbers.
#include <gtest/gtest.h>
#include <png.h>

#include <cmath>
#include <limits>

#include "tools/inspect/head_statistics.h"
#include "tools/pictures/heat_drawing.h"
#include "tools/pictures/heat_map.h"
#include "tools/pictures/pixel_font.h"

namespace qkvet::tools::heat_test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Equal scores under a causal mask: 1; 1/2 1/2; 1/3 1/3 1/3; ...
HeatMap triangle(int64_t n) {
  std::vector<double> weights;
  std::vector<uint8_t> sees;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) {
      weights.push_back(j <= i ? 1.0 / static_cast<double>(i + 1) : 0);
      sees.push_back(j <= i ? 1 : 0);
    }
  return weights_map("head 0", n, n, weights, sees);
}

HeadStatistics statistics(const HeatMap& map) {
  std::vector<int64_t> diagonals;
  for (int64_t i = 0; i < map.rows; ++i) diagonals.push_back(i);
  return head_statistics(
      {map.rows, map.columns, map.values, map.visible, diagonals});
}

TEST(HeatMap, LevelsFollowTheSquareRoot) {
  const std::pair<double, int> rows[] = {
      {0, 0},     {0.039, 0}, {0.041, 1}, {0.159, 1}, {0.161, 2},
      {0.359, 2}, {0.361, 3}, {0.639, 3}, {0.641, 4}, {1, 4},
      {-1, 4},    {7, 4},     {kNan, 4}};
  for (const auto& [value, level] : rows)
    EXPECT_EQ(heat_level(value), level) << value;
}

TEST(HeatMap, TheTriangleOfTheTextbookInCharacters) {
  const TextBlock text = heat_text(triangle(4), Ink::kUnicode);
  ASSERT_EQ(text.lines.size(), 6u);
  EXPECT_EQ(text.lines[2], "0  █1.00                  ");
  EXPECT_EQ(text.lines[3], "1  ▓0.50 ▓0.50            ");
  EXPECT_EQ(text.lines[4], "2  ▒0.33 ▒0.33 ▒0.33      ");
  EXPECT_EQ(text.lines[5], "3  ▒0.25 ▒0.25 ▒0.25 ▒0.25");
  EXPECT_EQ(text.width, 26u);
  const TextBlock plain = heat_text(triangle(4), Ink::kAscii);
  EXPECT_EQ(plain.lines[3], "1  #0.50 #0.50            ");
  // Wider ones without numbers, two columns a cell.
  const TextBlock wide = heat_text(triangle(9), Ink::kAscii);
  EXPECT_EQ(wide.lines[2], "0 @@                ");
  EXPECT_EQ(wide.lines[10], "8 ::::::::::::::::::");
}

TEST(HeatMap, ColourIsThereOnlyWhereItIsAskedFor) {
  for (const Ink ink : {Ink::kAscii, Ink::kUnicode})
    for (const std::string& line : heat_text(triangle(9), ink).lines)
      EXPECT_EQ(line.find('\x1b'), std::string::npos);
  const TextBlock painted = heat_text(triangle(9), Ink::kColour);
  EXPECT_NE(painted.lines[2].find("\x1b[38;5;16;48;5;220m"), std::string::npos)
      << painted.lines[2];
  EXPECT_EQ(painted.width, heat_text(triangle(9), Ink::kAscii).width);
}

TEST(HeatMap, DifferencesHaveASignAndSmallOnesAreNone) {
  HeatMap expected = triangle(9), actual = triangle(9);
  actual.values[0] -= 0.5;
  actual.values[1] = 0.5;  // hidden
  actual.values[9] += 0.0005;
  actual.values[10] = kNan;
  const TextBlock text =
      heat_text(difference_map("difference", expected, actual), Ink::kAscii);
  EXPECT_EQ(text.lines[2], "0 -#+#              ");
  EXPECT_EQ(text.lines[3], "1  .!!              ");
}

TEST(HeatMap, HiddenKeysWithAWeightAreShown) {
  HeatMap map = triangle(9);
  map.values[8] = 1;
  EXPECT_EQ(heat_text(map, Ink::kAscii).lines[2], "0 @@              @@");
}

TEST(HeatMap, LongRowsAreReducedToSumsOverKeys) {
  const HeatMap map = reduced(triangle(70), 32);
  EXPECT_EQ(map.row_step, 3);
  EXPECT_EQ(map.column_step, 3);
  EXPECT_EQ(map.rows, 24);
  EXPECT_EQ(map.columns, 24);
  // The mean over rows 0 .. 2 of sums that are 1.
  EXPECT_DOUBLE_EQ(map.at(0, 0), 1);
  for (int64_t i = 0; i < map.rows; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < map.columns; ++j) sum += map.at(i, j);
    EXPECT_NEAR(sum, 1, 1e-14) << i;
  }
  EXPECT_TRUE(map.sees(0, 0));
  EXPECT_FALSE(map.sees(0, 1));
  EXPECT_NE(reduction_text(map).find("3 queries x 3 keys"), std::string::npos);
  EXPECT_EQ(reduction_text(triangle(32)), "");
  EXPECT_EQ(reduced(triangle(32)).rows, 32);
  // One wrong element does not drown in those around it.
  HeatMap wrong = triangle(70);
  wrong.values[5] = 0.25;
  wrong.values[6] = kNan;
  const HeatMap difference =
      reduced(difference_map("", triangle(70), wrong), 32);
  EXPECT_EQ(difference.at(0, 1), 0.25);
  EXPECT_TRUE(std::isnan(difference.at(0, 2)));
}

TEST(HeatMap, BlocksStandBesideEachOtherAsFarAsThereIsRoom) {
  const TextBlock block{{"ab", "cd"}, 2};
  EXPECT_EQ(side_by_side({block, block}, 80), "  ab   ab\n  cd   cd\n");
  EXPECT_EQ(side_by_side({block, block}, 6), "  ab\n  cd\n\n  ab\n  cd\n");
}

TEST(HeadStatistics, EqualWeightsAreUniform) {
  const HeadStatistics head = statistics(triangle(4));
  EXPECT_EQ(head.rows, 3);
  EXPECT_EQ(head.previous_rows, 3);
  EXPECT_NEAR(head.previous, (1.0 / 2 + 1.0 / 3 + 1.0 / 4) / 3, 1e-15);
  EXPECT_NEAR(head.first, (1.0 / 2 + 1.0 / 3 + 1.0 / 4) / 3, 1e-15);
  EXPECT_NEAR(head.from_uniform, 0, 1e-15);
  EXPECT_NEAR(head.entropy_bits, (1 + std::log2(3.0) + 2) / 3, 1e-15);
  EXPECT_NEAR(head.entropy_part, 1, 1e-15);
  EXPECT_EQ(head.largest, 0.5);
  EXPECT_EQ(head.largest_row, 1);
  EXPECT_TRUE(head.finite);
}

// Each row looks at the token before alone.
TEST(HeadStatistics, AHeadOfThePreviousToken) {
  HeatMap map = triangle(4);
  for (int64_t i = 0; i < 4; ++i)
    for (int64_t j = 0; j < 4; ++j)
      map.values[static_cast<size_t>(i * 4 + j)] =
          j == std::max<int64_t>(i - 1, 0) ? 1 : 0;
  const HeadStatistics head = statistics(map);
  EXPECT_EQ(head.previous, 1);
  EXPECT_NEAR(head.first, 1.0 / 3, 1e-15);
  EXPECT_EQ(head.entropy_bits, 0);
  EXPECT_NEAR(head.from_uniform, (1.0 / 2 + 2.0 / 3 + 3.0 / 4) / 3, 1e-15);
  EXPECT_EQ(head.largest, 1);
}

TEST(HeadStatistics, RowsWithoutAChoiceDoNotCount) {
  const HeadStatistics head = statistics(triangle(1));
  EXPECT_EQ(head.rows, 0);
  EXPECT_EQ(head.largest, 0);
  HeatMap map = triangle(3);
  map.values[3] = kNan;
  EXPECT_FALSE(statistics(map).finite);
}

// The pixels of a PNG file, by the library that wrote it.
std::vector<uint8_t> decoded(const std::string& bytes, int* width,
                             int* height) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  EXPECT_NE(
      png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()), 0)
      << image.message;
  image.format = PNG_FORMAT_RGB;
  std::vector<uint8_t> pixels(PNG_IMAGE_SIZE(image));
  EXPECT_NE(png_image_finish_read(&image, nullptr, pixels.data(), 0, nullptr),
            0)
      << image.message;
  *width = static_cast<int>(image.width);
  *height = static_cast<int>(image.height);
  return pixels;
}

TEST(HeatDrawing, APngDecodesToTheColoursOfItsCells) {
  HeatMap wrong = triangle(4);
  wrong.values[0] = 0.5;
  wrong.values[3] = 0.25;
  wrong.values[15] = kNan;
  const std::vector<HeatMap> maps = {
      triangle(4), wrong, difference_map("difference", triangle(4), wrong)};
  const Drawing drawing = draw_heat_maps("f32,B1,H1,Tq4,Tk4,d2", maps, 3);
  std::string error;
  const std::string bytes = png_bytes(drawing, &error);
  ASSERT_EQ(error, "");
  int width = 0, height = 0;
  const std::vector<uint8_t> pixels = decoded(bytes, &width, &height);
  ASSERT_EQ(width, drawing.width);
  ASSERT_EQ(height, drawing.height);
  const auto colour = [&](const CellPlace& at) {
    const auto n = static_cast<size_t>(
        3 * ((at.y + at.size / 2) * width + at.x + at.size / 2));
    return Rgb{pixels[n], pixels[n + 1], pixels[n + 2]};
  };
  for (size_t n = 0; n < maps.size(); ++n)
    for (int64_t i = 0; i < 4; ++i)
      for (int64_t j = 0; j < 4; ++j)
        EXPECT_EQ(colour(cell_place(maps, 3, n, i, j)),
                  heat_colour(maps[n], i, j))
            << n << " " << i << " " << j;
  // What the colours are: 1, 1/2 and 0 of viridis, hidden, NaN.
  const auto cell = [&](size_t n, int64_t i, int64_t j) {
    return colour(cell_place(maps, 3, n, i, j));
  };
  EXPECT_EQ(cell(0, 0, 0), (Rgb{253, 231, 37}));
  EXPECT_EQ(cell(0, 3, 0), (Rgb{33, 145, 140}));
  EXPECT_EQ(cell(0, 0, 1), (Rgb{228, 228, 228}));
  EXPECT_EQ(cell(1, 0, 3), (Rgb{33, 145, 140})) << "hidden, with a weight";
  EXPECT_EQ(cell(1, 3, 3), (Rgb{255, 0, 255}));
  EXPECT_GT(cell(2, 0, 0).b, cell(2, 0, 0).r) << "too little";
  EXPECT_GT(cell(2, 0, 3).r, cell(2, 0, 3).b) << "too much";
  EXPECT_EQ(cell(2, 1, 0), (Rgb{250, 250, 250}));
}

TEST(HeatDrawing, AnSvgHasACellForEachWeightAndTellsItsNumber) {
  const Drawing drawing = draw_heat_maps("a < b", {triangle(4)}, 1);
  const std::string svg = svg_text(drawing);
  EXPECT_NE(svg.find("<title>a &lt; b</title>"), std::string::npos);
  EXPECT_NE(svg.find("<title>i=1 j=0: 0.5</title>"), std::string::npos);
  EXPECT_NE(svg.find("<title>i=0 j=1: 0, hidden</title>"), std::string::npos);
  size_t cells = 0;
  for (size_t at = 0; (at = svg.find("><title>i=", at)) != std::string::npos;
       ++at)
    ++cells;
  EXPECT_EQ(cells, 16u);
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
}

TEST(HeatDrawing, NothingStandsOutsideAndALongTitleIsCut) {
  const std::string title(4000, 'x');
  const std::vector<HeatMap> maps(5, triangle(40));
  std::vector<HeatMap> small;
  for (const HeatMap& map : maps) small.push_back(reduced(map));
  const Drawing drawing = draw_heat_maps(title, small, 4);
  for (const Rect& rect : drawing.rects) {
    EXPECT_GE(rect.x, 0);
    EXPECT_LE(rect.x + rect.width, drawing.width);
    EXPECT_LE(rect.y + rect.height, drawing.height);
  }
  for (const Label& label : drawing.labels)
    EXPECT_LE(label.x, drawing.width - 12) << label.text;
  EXPECT_NE(svg_text(drawing).find(title), std::string::npos);
  EXPECT_TRUE(drawing.labels.back().text.ends_with("..."));
}

TEST(PixelFont, LettersDifferAndUnknownOnesAreABox) {
  const auto dots = [](char c) {
    std::string out;
    for (int y = 0; y < kGlyphHeight; ++y)
      for (int x = 0; x < kGlyphWidth; ++x)
        out += glyph_dot(c, x, y) ? '#' : '.';
    return out;
  };
  const std::string all = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,=-+_/:()[] ";
  for (const char a : all)
    for (const char b : all) EXPECT_EQ(dots(a) == dots(b), a == b) << a << b;
  EXPECT_EQ(dots('q'), dots('Q'));
  EXPECT_EQ(dots('\x7f'), dots('~'));
  EXPECT_NE(dots('~'), dots(' '));
}

}  // namespace
}  // namespace qkvet::tools::heat_test
