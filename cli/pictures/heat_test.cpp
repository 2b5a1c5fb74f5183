// SPDX-License-Identifier: Apache-2.0
// Heat maps, as text and as pictures, and the statistics of a head.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cli/inspect/head_statistics.h"
#include "cli/pictures/heat_map.h"
#include "report/map_svg.h"
#include "report/svg.h"

namespace qkvet::cli::heat_test {
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
  EXPECT_EQ(map.row_step, 4);
  EXPECT_EQ(map.column_step, 4);
  EXPECT_EQ(map.rows, 18);
  EXPECT_EQ(map.columns, 18);
  // The mean over rows 0 .. 3 of sums that are 1.
  EXPECT_DOUBLE_EQ(map.at(0, 0), 1);
  for (int64_t i = 0; i < map.rows; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < map.columns; ++j) sum += map.at(i, j);
    EXPECT_NEAR(sum, 1, 1e-14) << i;
  }
  EXPECT_TRUE(map.sees(0, 0));
  EXPECT_FALSE(map.sees(0, 1));
  EXPECT_NE(reduction_text(map).find("4 queries x 4 keys"), std::string::npos);
  EXPECT_EQ(reduction_text(triangle(32)), "");
  EXPECT_EQ(reduced(triangle(32)).rows, 32);
  // One wrong element is visible among the ones around it.
  HeatMap wrong = triangle(70);
  wrong.values[5] = 0.25;
  wrong.values[8] = kNan;
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

// Each row sees only the previous token.
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

// The triangle, with a wrong weight, one at a hidden key and NaN.
HeatMap wrong_triangle() {
  HeatMap wrong = triangle(4);
  wrong.values[0] = 0.5;
  wrong.values[3] = 0.25;
  wrong.values[15] = kNan;
  return wrong;
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at)
    ++n;
  return n;
}

TEST(HeatPicture, ColoursOfWeightsAndDifferences) {
  const HeatMap right = triangle(4), wrong = wrong_triangle();
  EXPECT_EQ(heat_colour(right, 0, 0, 1), "#fde725") << "1: the end of viridis";
  EXPECT_EQ(heat_colour(right, 3, 0, 1), "#21918c") << "1/4: its middle";
  EXPECT_EQ(heat_colour(right, 0, 1, 1), "") << "hidden";
  EXPECT_EQ(heat_colour(wrong, 0, 3, 1), "#21918c") << "hidden, with a weight";
  EXPECT_EQ(heat_colour(wrong, 3, 3, 1), kHatch);
  const HeatMap off = difference_map("difference", right, wrong);
  EXPECT_EQ(heat_colour(off, 0, 0, 0.5), diverging_colour(-1)) << "too little";
  EXPECT_EQ(heat_colour(off, 0, 3, 0.25), diverging_colour(1)) << "too much";
  EXPECT_EQ(heat_colour(off, 1, 0, 1), diverging_colour(0));
  EXPECT_EQ(heat_colour(off, 0, 1, 1), "");
}

// Different things must look different to a red-green blind eye (the second and
// the third axis of Machado, Oliveira and Fernandes, 2009, for deuteranopia),
// and in grey if they differ by amount.
TEST(HeatPicture, ColoursAreToldApartWithoutRedAndGreen) {
  struct Seen {
    double yellow, blue, grey;
  };
  const auto seen = [](const std::string& colour) {
    const int rgb = std::stoi(colour.substr(1), nullptr, 16);
    const double r = rgb >> 16, g = (rgb >> 8) & 255, b = rgb & 255;
    return Seen{0.280085 * r + 0.672501 * g + 0.047413 * b,
                -0.011820 * r + 0.042940 * g + 0.968881 * b,
                0.299 * r + 0.587 * g + 0.114 * b};
  };
  for (int n = 0; n < 10; ++n)
    EXPECT_LT(seen(sequential_colour(n / 10.0)).grey + 8,
              seen(sequential_colour((n + 1) / 10.0)).grey)
        << n;
  for (const double share : {0.3, 0.5, 0.75, 1.0}) {
    const Seen low = seen(diverging_colour(-share)),
               high = seen(diverging_colour(share)),
               none = seen(diverging_colour(0));
    EXPECT_GT(low.blue - low.yellow, 15) << share;
    EXPECT_GT(high.yellow - high.blue, 15) << share;
    EXPECT_LT(low.grey + 20, none.grey) << share;
    EXPECT_LT(high.grey + 20, none.grey) << share;
  }
}

TEST(HeatPicture, ACellForEachWeightTellsItsNumber) {
  const std::string svg = heat_svg("a < b", {triangle(4)}, 1);
  EXPECT_NE(svg.find("<title>a &lt; b</title>"), std::string::npos);
  EXPECT_NE(svg.find("<title>query 1, key 0: 0.5</title>"), std::string::npos);
  EXPECT_NE(svg.find("<title>query 0, key 1: 0, hidden</title>"),
            std::string::npos);
  EXPECT_EQ(count_of(svg, "<title>query "), 16u);
  // Ten of them are written into their cells; hidden ones are not.
  EXPECT_EQ(count_of(svg, "class=\"number "), 10u);
  EXPECT_NE(svg.find(">0.33</text>"), std::string::npos);
  for (const char* part :
       {">key</text>", ">query</text>", ">weight</text>",
        "prefers-color-scheme: dark", ">hidden by the mask</text>"})
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  EXPECT_EQ(svg.find(">not a number</text>"), std::string::npos);
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  // With a kernel: the wrong cells, and the largest error.
  const std::string beside =
      heat_svg("t",
               {triangle(4), wrong_triangle(),
                difference_map("off", triangle(4), wrong_triangle())},
               3);
  for (const char* part : {">actual - expected</text>", ">-0.5</text>",
                           ">+0.25</text>", ">not a number</text>"})
    EXPECT_NE(beside.find(part), std::string::npos) << part;
}

TEST(HeatPicture, TilesAreApartAndNumbersStandAtTheirBorders) {
  EXPECT_EQ(cells_between_gaps(1), 1);
  EXPECT_EQ(cells_between_gaps(8), 1);
  EXPECT_EQ(cells_between_gaps(9), 2);
  EXPECT_EQ(cells_between_gaps(64), 8);
  EXPECT_EQ(cells_between_gaps(70), 16);
  MapPicture map{"t", {"query", 1}, {"key", 32}, std::vector<MapCell>(32), 320};
  const std::string svg = map_svg(map);
  // Cells are 10 wide, with 2 more between the 4th and the 5th.
  std::vector<double> x;
  for (size_t at = 0; (at = svg.find("<rect x=\"", at)) != std::string::npos;)
    x.push_back(std::stod(svg.substr(at += 9)));
  ASSERT_EQ(x.size(), 32u);
  EXPECT_NEAR(x[3] - x[2], 10, 0.1);
  EXPECT_NEAR(x[4] - x[3], 12, 0.1);
  for (const char* number : {">0</text>", ">4</text>", ">28</text>"})
    EXPECT_NE(svg.find(number), std::string::npos) << number;
  EXPECT_EQ(svg.find(">5</text>"), std::string::npos);
  EXPECT_NE(svg.find(">key, query 0</text>"), std::string::npos);
}

// Every "NAME=\"number" of the text.
std::vector<double> numbers_behind(const std::string& text,
                                   const std::string& name) {
  std::vector<double> out;
  for (size_t at = 0; (at = text.find(name, at)) != std::string::npos;)
    out.push_back(std::stod(text.substr(at += name.size())));
  return out;
}

TEST(HeatPicture, NothingStandsOutsideAndALongTitleIsCut) {
  for (const std::pair<int64_t, int64_t> extents :
       {std::pair(1, 1), std::pair(1, 4000), std::pair(3, 2), std::pair(2, 9),
        std::pair(70, 40)}) {
    const auto [rows, columns] = extents;
    const MapPicture map{
        "a title",
        {"query", rows},
        {"key", columns},
        std::vector<MapCell>(static_cast<size_t>(rows * columns))};
    const MapSize size = map_size(map);
    const std::string svg = map_svg(map);
    for (const double x : numbers_behind(svg, " x=\"")) {
      EXPECT_GE(x, 0) << rows << " x " << columns;
      EXPECT_LE(x, size.width) << rows << " x " << columns;
    }
    for (const double y : numbers_behind(svg, " y=\"")) {
      EXPECT_GE(y, 0) << rows << " x " << columns;
      EXPECT_LE(y, size.height) << rows << " x " << columns;
    }
    EXPECT_LE(size.width, 1000) << rows << " x " << columns;
  }
  const std::string title(4000, 'x');
  const std::string svg = heat_svg(title, {reduced(triangle(40))}, 4);
  EXPECT_NE(svg.find("<title>" + title), std::string::npos);
  EXPECT_NE(svg.find("xxx...</text>"), std::string::npos);
}

}  // namespace
}  // namespace qkvet::cli::heat_test
