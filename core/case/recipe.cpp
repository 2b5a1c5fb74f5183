// SPDX-License-Identifier: Apache-2.0
#include "core/case/recipe.h"

#include <array>
#include <bit>
#include <charconv>
#include <cmath>

#include "core/base/philox.h"
#include "core/base/power_of_two.h"
#include "core/call/tensor_table.h"

namespace qkvet {
namespace {

struct RecipeRow {
  std::string_view name;
  bool has_parameter;
  int64_t usual;    // the parameter when none is written
  int64_t largest;  // allowed parameter
};

// Rows and keys are counted up to this many (core/case/case.cpp limits
// extents).
constexpr int64_t kMaxIndex = int64_t{1} << 24;
// 2^12 times a normal keeps q.k below 2^60 at any width: far from overflow.
constexpr int64_t kMaxExponent = 12;
// 10^309 is beyond every type, so it gives the largest number of each.
constexpr int64_t kMaxDecimal = 309;

// In the order of RecipeKind.
constexpr std::array<RecipeRow, kRecipeCount + 3> kRecipes = {{
    {"normal", false, 0, 0},
    {"small", false, 0, 0},
    {"zero", false, 0, 0},
    {"one", false, 0, 0},
    {"lattice", false, 0, 0},
    {"count", false, 0, 0},
    {"onehot", true, 0, kMaxIndex},
    {"equal", false, 0, 0},
    {"lead", false, 0, 0},
    {"ascending", true, 1, 64},
    {"descending", true, 1, 64},
    {"dominant", true, 0, kMaxIndex},
    {"large", true, 3, kMaxExponent},
    {"offset", true, 3, kMaxExponent},
    {"cancelling", true, 8, kMaxExponent},
    {"heavy", false, 0, 0},
    {"scaled", true, 2, kMaxExponent},
    {"file", false, 0, 0},
    {"masking", true, 4, kMaxDecimal},
    {"raised", true, 4, kMaxDecimal},
}};

constexpr std::array<DataPreset, 14> kPresets = {{
    {"normal", RecipeKind::kNormal, RecipeKind::kNormal, RecipeKind::kNormal,
     "what models see; finds wrong indices"},
    {"small", RecipeKind::kSmall, RecipeKind::kSmall, RecipeKind::kNormal,
     "weights nearly equal: the error of exp and of the sum show"},
    {"lattice", RecipeKind::kLattice, RecipeKind::kLattice,
     RecipeKind::kLattice,
     "scores and sums of V are exact: the bound is tight"},
    {"count", RecipeKind::kZero, RecipeKind::kNormal, RecipeKind::kCount,
     "every sum is exact: each lost or doubled key shows at any length"},
    {"onehotv", RecipeKind::kNormal, RecipeKind::kNormal, RecipeKind::kOnehotN,
     "the output is the weights"},
    {"onehotk", RecipeKind::kNormal, RecipeKind::kOnehotN, RecipeKind::kNormal,
     "every score is one element of q"},
    {"equal", RecipeKind::kNormal, RecipeKind::kEqual, RecipeKind::kNormal,
     "equal scores: the output is the mean"},
    {"ascending", RecipeKind::kLead, RecipeKind::kAscendingN,
     RecipeKind::kNormal, "the maximum moves with every key"},
    {"descending", RecipeKind::kLead, RecipeKind::kDescendingN,
     RecipeKind::kNormal, "the maximum is the first key"},
    {"dominant", RecipeKind::kLead, RecipeKind::kDominantN, RecipeKind::kNormal,
     "one key takes all, at a chosen lane and tile"},
    {"large", RecipeKind::kLargeN, RecipeKind::kLargeN, RecipeKind::kNormal,
     "scores beyond the range of exp"},
    {"offset", RecipeKind::kLead, RecipeKind::kOffsetN, RecipeKind::kNormal,
     "large scores whose differences are small"},
    {"cancelling", RecipeKind::kNormal, RecipeKind::kNormal,
     RecipeKind::kCancellingN, "sums of V that cancel"},
    {"heavy", RecipeKind::kHeavy, RecipeKind::kHeavy, RecipeKind::kHeavy,
     "few elements rule a row"},
}};

const RecipeRow& row_of(RecipeKind kind) {
  return kRecipes[static_cast<size_t>(kind)];
}

// About N(0,1): a sum of three uniform numbers of 21 bits, centred. Variance
// 3 * (2^42 - 1) / 12 * 4 / 2^42 = 1 (to 2^-42); an integer below 2^23 times
// 2^-21, so exact in every binary type with 23 bits or more.
double normal_from_bits(uint64_t bits) {
  constexpr int64_t kMask = (int64_t{1} << 21) - 1;
  const int64_t sum = static_cast<int64_t>(bits & kMask) +
                      static_cast<int64_t>((bits >> 21) & kMask) +
                      static_cast<int64_t>((bits >> 42) & kMask);
  return static_cast<double>(2 * sum - 3 * kMask) * 0x1p-21;
}

// The place of a tensor's sequence in the counter's last word, beside a member
// below kMaxIndex: its low four bits on top, as before there were more than
// sixteen, and four more under them.
constexpr uint32_t place_of(uint32_t stream) {
  return (stream & 15) << 28 | stream >> 4 << 24;
}
static_assert(place_of(15) == 0xF0000000 && place_of(16) == 0x01000000 &&
              place_of(255) == 0xFF000000);

// The two 64-bit numbers of channels c and c + 1, c even.
std::array<uint64_t, 2> bits_pair(uint64_t seed, TensorName tensor, int64_t b,
                                  int64_t h, int64_t t, int64_t c) {
  const PhiloxCounter counter = {
      static_cast<uint32_t>(c / 2), static_cast<uint32_t>(t),
      static_cast<uint32_t>(h),
      static_cast<uint32_t>(b) | place_of(tensor_row(tensor).stream)};
  const PhiloxCounter x = philox4x32(counter, philox_key(seed));
  return {x[0] | uint64_t{x[1]} << 32, x[2] | uint64_t{x[3]} << 32};
}

// Every factor rounds once, everywhere alike.
double power_of_ten(int64_t n) {
  double power = 1;
  for (; n > 0; --n) power *= 10;
  return power;
}

// One row in four has the number at every key, the others at every other one.
double masking_value(const Recipe& recipe, uint64_t row_bits, uint64_t bits) {
  const bool whole_row = row_bits % 4 == 0;
  return whole_row || bits >> 63 != 0 ? masking_number(recipe) : 0;
}

// `bits` are the element's own random bits.
double shaped(const Recipe& recipe, TensorName tensor, int64_t t, int64_t c,
              uint64_t bits) {
  constexpr double kSmallFactor = 0x1p-7;
  const auto exponent = static_cast<int>(recipe.parameter);
  // A dominant key's score is about 128 * q0 / sqrt(d): beyond exp's range
  // for narrow heads, plainly dominant for wide ones.
  constexpr double kDominance = 128;
  const double n = static_cast<double>(recipe.parameter);
  const double z = normal_from_bits(bits);
  switch (recipe.kind) {
    case RecipeKind::kNormal:
    case RecipeKind::kEqual:
    case RecipeKind::kFile:
      return z;
    case RecipeKind::kSmall:
      return z * kSmallFactor;
    case RecipeKind::kZero:
      return 0;
    case RecipeKind::kOne:
      return 1;
    case RecipeKind::kLattice: {
      const auto integer = static_cast<int64_t>((bits & 0xFFFFFFFF) % 9) - 4;
      const double unit = tensor == TensorName::kK ? 0.25 : 1;
      return static_cast<double>(integer) * unit;
    }
    case RecipeKind::kCount:
      return static_cast<double>(bits >> 63);
    case RecipeKind::kOnehotN: {
      // A key of 4 makes scores that differ visibly.
      const double hot = tensor == TensorName::kK ? 4 : 1;
      return t == c + recipe.parameter ? hot : 0;
    }
    case RecipeKind::kLead:
      return c == 0 ? 1 + std::fabs(z) : z * kSmallFactor;
    case RecipeKind::kAscendingN:
      return c == 0 ? static_cast<double>(t) * n * 0.25 : z * kSmallFactor;
    case RecipeKind::kDescendingN:
      return c == 0 ? static_cast<double>(-t) * n * 0.25 : z * kSmallFactor;
    case RecipeKind::kDominantN:
      return c == 0 && t == recipe.parameter ? kDominance : z;
    case RecipeKind::kLargeN:
      return z * power_of_two(exponent);
    case RecipeKind::kOffsetN:
      return z + power_of_two(exponent);
    case RecipeKind::kCancellingN:
      return z + (t % 2 == 0 ? 1 : -1) * power_of_two(exponent);
    case RecipeKind::kHeavy: {
      // z takes bit 62 and below; a geometric exponent out of z's own low
      // bits, at most 2^6.
      constexpr int kMaxShift = 6;
      const int shift = std::min(std::countr_zero(bits | 0x1000), kMaxShift);
      return z * power_of_two(shift);
    }
    case RecipeKind::kScaledN:
      return z * power_of_two(-exponent);
    case RecipeKind::kMaskingN:
    case RecipeKind::kRaisedN:
      break;  // masking_value()
  }
  return 0;
}

}  // namespace

const char* tensor_name(TensorName tensor) { return tensor_row(tensor).name; }

std::string owner_name(const MemoryFault& fault) {
  if (fault.of_reason) return "the reason's text";
  if (fault.of_heap) return "memory that the kernel allocated";
  return fault.tensor ? tensor_name(*fault.tensor) : "the workspace";
}

Recipe make_recipe(RecipeKind kind) { return {kind, row_of(kind).usual}; }

std::string recipe_text(const Recipe& recipe) {
  const RecipeRow& row = row_of(recipe.kind);
  std::string text(row.name);
  if (row.has_parameter && recipe.parameter != row.usual)
    text += std::to_string(recipe.parameter);
  return text;
}

double masking_number(const Recipe& recipe) {
  const double size = power_of_ten(recipe.parameter);
  return recipe.kind == RecipeKind::kMaskingN ? -size : size;
}

std::string of_bias_alone(const Recipe& recipe) {
  return "recipe \"" + recipe_text(recipe) +
         "\" is one of the bias of a forward call, or of the lse of a merge, "
         "and of nothing else";
}

std::optional<Recipe> parse_recipe(std::string_view text, std::string* error) {
  const size_t digits = std::min(text.find_first_of("0123456789"), text.size());
  const std::string_view name = text.substr(0, digits);
  for (int i = 0; i < std::ssize(kRecipes); ++i) {
    const RecipeRow& row = kRecipes[static_cast<size_t>(i)];
    if (row.name != name) continue;
    Recipe recipe = make_recipe(static_cast<RecipeKind>(i));
    if (digits == text.size()) return recipe;
    const char* end = text.data() + text.size();
    const auto [stop, code] =
        std::from_chars(text.data() + digits, end, recipe.parameter);
    if (row.has_parameter && code == std::errc() && stop == end &&
        recipe.parameter <= row.largest)
      return recipe;
    *error = row.has_parameter
                 ? "recipe \"" + std::string(text) + "\": the number after " +
                       std::string(name) + " is 0 .. " +
                       std::to_string(row.largest)
                 : "recipe \"" + std::string(text) +
                       "\": " + std::string(name) + " takes no number";
    return std::nullopt;
  }
  *error = "unknown recipe \"" + std::string(text) + "\"; allowed:";
  for (const RecipeRow& row : kRecipes) *error += " " + std::string(row.name);
  return std::nullopt;
}

uint64_t random_bits(uint64_t seed, TensorName tensor, int64_t b, int64_t h,
                     int64_t t, int64_t c) {
  return bits_pair(seed, tensor, b, h, t, c)[static_cast<size_t>(c % 2)];
}

double recipe_value(const Recipe& recipe, uint64_t seed, TensorName tensor,
                    int64_t b, int64_t h, int64_t t, int64_t c) {
  const int64_t source_t = recipe.kind == RecipeKind::kEqual ? 0 : t;
  const auto bits = bits_pair(seed, tensor, b, h, source_t, c);
  if (is_of_bias_alone(recipe.kind))
    return masking_value(recipe, bits_pair(seed, tensor, b, h, t, 0)[0],
                         bits[static_cast<size_t>(c % 2)]);
  return shaped(recipe, tensor, t, c, bits[static_cast<size_t>(c % 2)]);
}

void recipe_row(const Recipe& recipe, uint64_t seed, TensorName tensor,
                int64_t b, int64_t h, int64_t t, std::span<double> row) {
  const int64_t source_t = recipe.kind == RecipeKind::kEqual ? 0 : t;
  const auto width = static_cast<int64_t>(row.size());
  if (is_of_bias_alone(recipe.kind)) {
    for (int64_t c = 0; c < width; ++c)
      row[static_cast<size_t>(c)] =
          recipe_value(recipe, seed, tensor, b, h, t, c);
    return;
  }
  for (int64_t c = 0; c < width; c += 2) {
    const auto bits = bits_pair(seed, tensor, b, h, source_t, c);
    row[static_cast<size_t>(c)] = shaped(recipe, tensor, t, c, bits[0]);
    if (c + 1 < width)
      row[static_cast<size_t>(c + 1)] =
          shaped(recipe, tensor, t, c + 1, bits[1]);
  }
}

std::span<const DataPreset> data_presets() { return kPresets; }

}  // namespace qkvet
