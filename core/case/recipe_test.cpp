// SPDX-License-Identifier: Apache-2.0
#include "core/case/recipe.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/base/philox.h"

namespace qkvet::recipe_test {
namespace {

// The known answers that Random123 publishes for philox4x32 with 10 rounds.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t f = 0xffffffff;
  EXPECT_EQ(philox4x32({f, f, f, f}, {f, f}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                       {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

double value(RecipeKind kind, TensorName tensor, int64_t t, int64_t c,
             uint64_t seed = 3) {
  return recipe_value(make_recipe(kind), seed, tensor, 0, 0, t, c);
}

TEST(Recipe, NormalHasMeanZeroAndVarianceOne) {
  constexpr int kCount = 200000;
  double sum = 0, squares = 0;
  for (int i = 0; i < kCount; ++i) {
    const double z = value(RecipeKind::kNormal, TensorName::kQ, i, i % 7);
    EXPECT_LT(std::fabs(z), 3);
    sum += z;
    squares += z * z;
  }
  // Six standard errors of the mean, 1/sqrt(n), and of the mean square,
  // sqrt(kurtosis - 1)/sqrt(n) with kurtosis 2.6 for three uniforms.
  EXPECT_LT(std::fabs(sum / kCount), 6 / std::sqrt(kCount));
  EXPECT_LT(std::fabs(squares / kCount - 1), 6 * 1.27 / std::sqrt(kCount));
}

TEST(Recipe, NormalFitsAFloat) {
  for (int i = 0; i < 1000; ++i) {
    const double z = value(RecipeKind::kNormal, TensorName::kV, i, 0);
    EXPECT_EQ(static_cast<double>(static_cast<float>(z)), z);
  }
}

TEST(Recipe, RowsAreTheirValues) {
  for (int kind = 0; kind < kRecipeCount; ++kind) {
    const Recipe recipe = make_recipe(static_cast<RecipeKind>(kind));
    std::vector<double> row(5);
    recipe_row(recipe, 4, TensorName::kK, 1, 2, 3, row);
    for (int64_t c = 0; c < 5; ++c)
      EXPECT_EQ(row[static_cast<size_t>(c)],
                recipe_value(recipe, 4, TensorName::kK, 1, 2, 3, c))
          << recipe_text(recipe);
  }
}

TEST(Recipe, BiasesThatMaskHideWholeRowsAndSingleKeys) {
  for (const auto& [kind, sign] :
       {std::pair{RecipeKind::kMaskingN, -1.0}, {RecipeKind::kRaisedN, 1.0}}) {
    const Recipe recipe = make_recipe(kind);
    EXPECT_EQ(recipe.parameter, 4);
    EXPECT_EQ(masking_number(recipe), sign * 10000);
    EXPECT_EQ(masking_number({kind, 9}), sign * 1e9);
    EXPECT_EQ(masking_number({kind, 309}), sign * HUGE_VAL);
    int whole = 0, mixed = 0, zeros = 0;
    std::vector<double> row(12);
    for (int64_t t = 0; t < 200; ++t) {
      recipe_row(recipe, 5, TensorName::kBias, 0, 1, t, row);
      int numbers = 0;
      for (size_t c = 0; c < row.size(); ++c) {
        ASSERT_TRUE(row[c] == 0 || row[c] == sign * 10000);
        ASSERT_EQ(row[c], recipe_value(recipe, 5, TensorName::kBias, 0, 1, t,
                                       static_cast<int64_t>(c)));
        numbers += row[c] != 0;
      }
      whole += numbers == 12;
      mixed += numbers > 0 && numbers < 12;
      zeros += numbers == 0;
    }
    EXPECT_GT(whole, 30);
    EXPECT_LT(whole, 75);
    EXPECT_GT(mixed, 120);
    EXPECT_LT(zeros, 3);
  }
}

TEST(Recipe, EachDoesWhatItSays) {
  for (int64_t t = 0; t < 6; ++t)
    for (int64_t c = 0; c < 6; ++c) {
      EXPECT_EQ(value(RecipeKind::kOnehotN, TensorName::kV, t, c), t == c);
      EXPECT_EQ(value(RecipeKind::kZero, TensorName::kV, t, c), 0);
      EXPECT_EQ(value(RecipeKind::kOne, TensorName::kV, t, c), 1);
      const double bit = value(RecipeKind::kCount, TensorName::kV, t, c);
      EXPECT_TRUE(bit == 0 || bit == 1);
      const double quarter = value(RecipeKind::kLattice, TensorName::kK, t, c);
      EXPECT_EQ(quarter * 4, std::nearbyint(quarter * 4));
      EXPECT_LE(std::fabs(quarter), 1);
      EXPECT_EQ(value(RecipeKind::kEqual, TensorName::kK, t, c),
                value(RecipeKind::kEqual, TensorName::kK, 0, c));
    }
  for (int64_t t = 1; t < 9; ++t) {
    EXPECT_GT(value(RecipeKind::kAscendingN, TensorName::kK, t, 0),
              value(RecipeKind::kAscendingN, TensorName::kK, t - 1, 0));
    EXPECT_LT(value(RecipeKind::kDescendingN, TensorName::kK, t, 0),
              value(RecipeKind::kDescendingN, TensorName::kK, t - 1, 0));
    EXPECT_GE(value(RecipeKind::kLead, TensorName::kQ, t, 0), 1);
  }
  const Recipe dominant{RecipeKind::kDominantN, 5};
  EXPECT_GT(recipe_value(dominant, 1, TensorName::kK, 0, 0, 5, 0), 100);
  EXPECT_LT(recipe_value(dominant, 1, TensorName::kK, 0, 0, 4, 0), 3);
}

TEST(Recipe, CountTakesBothValues) {
  int ones = 0;
  for (int64_t t = 0; t < 1000; ++t)
    ones += value(RecipeKind::kCount, TensorName::kV, t, 0) == 1;
  EXPECT_GT(ones, 400);
  EXPECT_LT(ones, 600);
}

TEST(Recipe, SeedTensorAndIndexAllMatter) {
  const double base = value(RecipeKind::kNormal, TensorName::kQ, 2, 3);
  EXPECT_NE(base, value(RecipeKind::kNormal, TensorName::kQ, 2, 3, 4));
  EXPECT_NE(base, value(RecipeKind::kNormal, TensorName::kK, 2, 3));
  EXPECT_NE(base, value(RecipeKind::kNormal, TensorName::kQ, 3, 3));
  EXPECT_NE(base, value(RecipeKind::kNormal, TensorName::kQ, 2, 2));
  EXPECT_NE(base, recipe_value({}, 3, TensorName::kQ, 1, 0, 2, 3));
  EXPECT_NE(base, recipe_value({}, 3, TensorName::kQ, 0, 1, 2, 3));
}

TEST(Recipe, TextReadsBack) {
  for (int kind = 0; kind < kRecipeCount; ++kind) {
    Recipe recipe = make_recipe(static_cast<RecipeKind>(kind));
    std::string error;
    EXPECT_EQ(parse_recipe(recipe_text(recipe), &error), recipe);
    if (recipe.kind == RecipeKind::kDominantN) {
      recipe.parameter = 17;
      EXPECT_EQ(parse_recipe("dominant17", &error), recipe);
    }
  }
}

}  // namespace
}  // namespace qkvet::recipe_test
