// SPDX-License-Identifier: Apache-2.0
// Orders of sums, found from the meetings of their terms: sums that are really
// added, in f32, and meetings that no sum has.
#include "cli/identify/sum_order.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "qkvet/kernel.h"

namespace qkvet::cli::sum_order_test {
namespace {

using Terms = std::vector<float>;

float ascending(const Terms& x) {
  float sum = 0;
  for (const float term : x) sum += term;
  return sum;
}

float descending(const Terms& x) {
  float sum = 0;
  for (size_t i = x.size(); i-- > 0;) sum += x[i];
  return sum;
}

float halves(const Terms& x) {
  if (x.size() == 1) return x[0];
  const auto half = static_cast<int64_t>((x.size() + 1) / 2);
  return halves(Terms(x.begin(), x.begin() + half)) +
         halves(Terms(x.begin() + half, x.end()));
}

float lanes8(const Terms& x) {
  float lane[8] = {};
  for (size_t i = 0; i < x.size(); ++i) lane[i % 8] += x[i];
  for (const size_t half : {4, 2, 1})
    for (size_t l = 0; l < half; ++l) lane[l] += lane[l + half];
  return lane[0];
}

// The same, with lanes added one after the other: no tree.
float lanes8_in_a_row(const Terms& x) {
  float lane[8] = {};
  for (size_t i = 0; i < x.size(); ++i) lane[i % 8] += x[i];
  float sum = 0;
  for (const float one : lane) sum += one;
  return sum;
}

// Two registers of four.
float registers(const Terms& x) {
  float lane[2][4] = {};
  for (size_t i = 0; i < x.size(); ++i) lane[i / 4 % 2][i % 4] += x[i];
  for (size_t l = 0; l < 4; ++l) lane[0][l] += lane[1][l];
  return (lane[0][0] + lane[0][1]) + (lane[0][2] + lane[0][3]);
}

float blocks16(const Terms& x) {
  float sum = 0;
  for (size_t from = 0; from < x.size(); from += 16) {
    float block = 0;
    for (size_t i = from; i < std::min(from + 16, x.size()); ++i) block += x[i];
    sum += block;
  }
  return sum;
}

Meetings meetings_by(float (*sum)(const Terms&), int n) {
  Meetings meets(static_cast<size_t>(n),
                 std::vector<int>(static_cast<size_t>(n), 1));
  for (size_t i = 0; i < meets.size(); ++i)
    for (size_t j = 0; j < meets.size(); ++j) {
      if (i == j) continue;
      Terms terms(meets.size(), 1);
      terms[i] = 0x1p40f;
      terms[j] = -0x1p40f;
      meets[i][j] = n - static_cast<int>(sum(terms));
    }
  return meets;
}

TEST(SumOrder, IsNamedOfSumsThatAreReallyAdded) {
  const struct {
    float (*sum)(const Terms&);
    const char* words;
    int32_t order, lanes;
  } rows[] = {
      {ascending, "one after the other, ascending", QKVET_SUM_LANES, 1},
      {descending, "one after the other, descending", QKVET_SUM_ANY, 0},
      {halves, "pairwise, by recursive halves", QKVET_SUM_PAIRWISE, 0},
      {lanes8,
       "in 8 lanes, term k in lane k mod 8; lanes added pairwise, the vector "
       "folded onto itself",
       QKVET_SUM_LANES, 8},
      {lanes8_in_a_row,
       "in 8 lanes, term k in lane k mod 8; lanes added one after the other, "
       "ascending",
       QKVET_SUM_ANY, 8},
      {blocks16,
       "in blocks of 16, each one after the other, ascending; blocks added one "
       "after the other, ascending",
       QKVET_SUM_ANY, 0}};
  for (const auto& row : rows)
    for (const int n : {64, 61}) {
      const SumOrderFound found = name_of(meetings_by(row.sum, n));
      EXPECT_EQ(found.words, row.words) << n;
      EXPECT_EQ(found.sum, row.order) << row.words;
      EXPECT_EQ(found.lanes, row.lanes) << row.words;
    }
  const SumOrderFound found = name_of(meetings_by(registers, 64));
  EXPECT_TRUE(found.words.starts_with("in 8 lanes")) << found.words;
  EXPECT_EQ(found.sum, QKVET_SUM_LANES);
}

TEST(SumOrder, IsATreeInText) {
  EXPECT_EQ(tree_of(meetings_by(ascending, 4)), "(((0 1) 2) 3)");
  EXPECT_EQ(tree_of(meetings_by(descending, 4)), "(0 (1 (2 3)))");
  EXPECT_EQ(tree_of(meetings_by(halves, 4)), "((0 1) (2 3))");
  EXPECT_EQ(tree_of(meetings_of("lanes2", 4)), "((0 2) (1 3))");
  EXPECT_EQ(tree_of({}), "");
}

TEST(SumOrder, OfNoTreeHasNoName) {
  Meetings meets = meetings_by(ascending, 8);
  meets[0][1] = meets[1][0] = 5;  // above fewer terms than below it
  EXPECT_EQ(tree_of(meets), "");
  EXPECT_EQ(name_of(meets).words, "");
  // A tree that is no order of addition.
  const Meetings odd = {{1, 4, 2, 4}, {4, 1, 4, 3}, {2, 4, 1, 4}, {4, 3, 4, 1}};
  EXPECT_EQ(name_of(odd).words, "");
}

}  // namespace
}  // namespace qkvet::cli::sum_order_test
