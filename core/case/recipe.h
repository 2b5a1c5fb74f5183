// SPDX-License-Identifier: Apache-2.0
// Recipes: how the data of a tensor is made. A value is a pure function of
// (recipe, seed, tensor, b, h, t, c), by integer arithmetic and exact
// conversions only. core/cases.md lists what each one finds.
#ifndef QKVET_CORE_CASE_RECIPE_H_
#define QKVET_CORE_CASE_RECIPE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/call/call.h"

namespace qkvet {

enum class RecipeKind : uint8_t {
  kNormal,  // about N(0,1), in (-3, 3)
  kSmall,   // normal / 128
  kZero,
  kOne,
  kLattice,      // small integers; quarters in k: scores are exact
  kCount,        // 0 or 1
  kOnehotN,      // 1 where t = c + N, else 0
  kEqual,        // the same at every t
  kLead,         // channel 0 in [1, 4), the others small: leads the scores
  kAscendingN,   // channel 0 rises with t by N quarters, the others small
  kDescendingN,  // the same, falling
  kDominantN,    // row t = N is far above the others in channel 0
  kLargeN,       // normal * 2^N
  kOffsetN,      // normal + 2^N
  kCancellingN,  // normal + 2^N at even t, - 2^N at odd t
  kHeavy,        // normal with heavy tails
  kScaledN,      // normal / 2^N
  kFile,         // data from a file (file_data.h); if a law needs further data,
                 // normal
  kMaskingN,     // only of a score bias or the lse of a merge: 0 or -10^N, one
                 // row in four all of it
  kRaisedN       // the same with 10^N
};
inline constexpr int kRecipeCount = 17;  // of those that make any tensor

// Recipes of a score bias, which the lse of a merge is, and of no other tensor.
// Numbers beyond the storage type of the bias are its largest finite ones.
constexpr bool is_of_bias_alone(RecipeKind kind) {
  return kind == RecipeKind::kMaskingN || kind == RecipeKind::kRaisedN;
}

struct Recipe {
  RecipeKind kind = RecipeKind::kNormal;
  int64_t parameter = 0;  // the N of the names above; 0 elsewhere

  friend bool operator==(const Recipe&, const Recipe&) = default;
};

// The recipe with its usual parameter.
Recipe make_recipe(RecipeKind kind);

// "normal", "onehot", "onehot5": the parameter follows the name, and is left
// out where it is the usual one.
std::string recipe_text(const Recipe& recipe);
// On failure *error is one line that names what is allowed.
std::optional<Recipe> parse_recipe(std::string_view text, std::string* error);

// The number of such a recipe, before it is cut to its storage type.
double masking_number(const Recipe& recipe);
// Why a tensor has no recipe of a bias.
std::string of_bias_alone(const Recipe& recipe);

// The value before it is rounded to its storage type.
double recipe_value(const Recipe& recipe, uint64_t seed, TensorName tensor,
                    int64_t b, int64_t h, int64_t t, int64_t c);
// The values of one row, c = 0 .. width - 1.
void recipe_row(const Recipe& recipe, uint64_t seed, TensorName tensor,
                int64_t b, int64_t h, int64_t t, std::span<double> row);

// The random bits of one element, the same for every recipe.
uint64_t random_bits(uint64_t seed, TensorName tensor, int64_t b, int64_t h,
                     int64_t t, int64_t c);

// A named choice of recipes for q, k and v together, with its aim.
struct DataPreset {
  std::string_view name;
  RecipeKind q, k, v;
  std::string_view aim;
};
std::span<const DataPreset> data_presets();

}  // namespace qkvet

#endif  // QKVET_CORE_CASE_RECIPE_H_
