// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numbers>

#include "core/base/half.h"
#include "studies/acceptance/acceptance.h"

namespace qkvet::studies {
namespace {

constexpr uint64_t kSeed = 1;
constexpr uint64_t kOtherSeed = 2;
// Pairs of a row and a key, and keys of all heads, in one call.
constexpr int64_t kMostPairs = int64_t{1} << 18;
constexpr int64_t kMostKeys = int64_t{1} << 15;
constexpr int64_t kMostHeads = 8;

// One channel of a row.
double drawn(InputLaw law, uint64_t bits) {
  const auto integer = [](uint64_t x) {
    return static_cast<double>(x % 5) - 2;
  };
  switch (law) {
    case InputLaw::kUniform:
      return static_cast<double>(bits >> 40) * 0x1p-23 - 1;
    case InputLaw::kPositive:
      return static_cast<double>(bits >> 40) * 0x1p-24;
    case InputLaw::kIntegers:
      return integer(bits >> 32);
    case InputLaw::kSparseIntegers:
      return bits % 5 == 0 ? integer(bits >> 32) : 0;
    case InputLaw::kNormal:
      break;
  }
  return 0;
}

// The recipe `normal` ends at 3 standard deviations, so other rules would never
// meet their rare large values: the sum of two ends at 4.2.
void normal_row(TensorName tensor, int64_t b, int64_t t,
                std::vector<double>& other, std::span<double> row) {
  const Recipe normal = make_recipe(RecipeKind::kNormal);
  other.resize(row.size());
  recipe_row(normal, kSeed, tensor, b, 0, t, row);
  recipe_row(normal, kOtherSeed, tensor, b, 0, t, other);
  for (size_t c = 0; c < row.size(); ++c)
    row[c] = (row[c] + other[c]) / std::numbers::sqrt2;
}

// Calls fill(b, t, row) for every row of a tensor.
template <class Fill>
std::vector<double> filled(int64_t B, int64_t rows, int64_t width, Fill fill) {
  std::vector<double> out(static_cast<size_t>(B * rows * width));
  double* at = out.data();
  for (int64_t b = 0; b < B; ++b)
    for (int64_t t = 0; t < rows; ++t, at += width)
      fill(b, t, std::span<double>(at, static_cast<size_t>(width)));
  return out;
}

std::vector<double> by_law(InputLaw law, TensorName tensor, int64_t B,
                           int64_t rows, int64_t width) {
  std::vector<double> other;
  return filled(B, rows, width,
                [&](int64_t b, int64_t t, std::span<double> row) {
                  if (law == InputLaw::kNormal)
                    return normal_row(tensor, b, t, other, row);
                  for (size_t c = 0; c < row.size(); ++c)
                    row[c] = drawn(law, random_bits(kSeed, tensor, b, 0, t,
                                                    static_cast<int64_t>(c)));
                });
}

std::vector<double> by_recipe(const Recipe& recipe, TensorName tensor,
                              int64_t B, int64_t rows, int64_t width) {
  return filled(B, rows, width,
                [&](int64_t b, int64_t t, std::span<double> row) {
                  recipe_row(recipe, kSeed, tensor, b, 0, t, row);
                });
}

Shape shape_of(const Setting& setting, const Extents& extents) {
  Shape shape;
  shape.B = extents.B;
  shape.Tq = extents.Tq;
  shape.Tk = extents.Tk;
  shape.d = shape.dv = setting.d;
  return shape;
}

}  // namespace

const char* law_text(InputLaw law) {
  switch (law) {
    case InputLaw::kNormal:
      return "N(0,1)";
    case InputLaw::kUniform:
      return "U(-1,1)";
    case InputLaw::kPositive:
      return "U[0,1)";
    case InputLaw::kIntegers:
      return "integers -2 .. 2";
    case InputLaw::kSparseIntegers:
      return "integers -2 .. 2, 80 % zeros";
  }
  return "";
}

Extents decode_extents(int64_t rows, int64_t n) {
  const int64_t fitting = std::clamp<int64_t>(kMostPairs / n, 1, rows);
  int64_t heads = std::clamp<int64_t>(kMostKeys / n, 1, kMostHeads);
  while (fitting % heads != 0) --heads;
  return {heads, fitting / heads, n};
}

Extents square_extents(int64_t heads, int64_t n, Causal causal) {
  return {heads, n, n, causal};
}

CallData::CallData(const Setting& setting, const Extents& extents)
    : shape_(shape_of(setting, extents)),
      dtype_(setting.dtype),
      causal_(extents.causal) {
  const Shape& s = shape_;
  q_ = by_law(setting.law, TensorName::kQ, s.B, s.Tq, s.d);
  k_ = by_law(setting.law, TensorName::kK, s.B, s.Tk, s.d);
  v_ = by_law(setting.law, TensorName::kV, s.B, s.Tk, s.dv);
  store();
}

CallData::CallData(const Setting& setting, const Extents& extents,
                   const Recipes& recipes)
    : shape_(shape_of(setting, extents)),
      dtype_(setting.dtype),
      causal_(extents.causal) {
  const Shape& s = shape_;
  q_ = by_recipe(recipes.q, TensorName::kQ, s.B, s.Tq, s.d);
  k_ = by_recipe(recipes.k, TensorName::kK, s.B, s.Tk, s.d);
  v_ = by_recipe(recipes.v, TensorName::kV, s.B, s.Tk, s.dv);
  store();
}

void CallData::store() {
  const auto keep = [this](std::vector<double>& exact,
                           std::vector<float>& single) {
    single.reserve(exact.size());
    for (double& x : exact) {
      x = round_to(dtype_, x);
      single.push_back(static_cast<float>(x));
    }
  };
  keep(q_, q32_);
  keep(k_, k32_);
  keep(v_, v32_);
}

Problem CallData::problem() const {
  return make_problem(shape_, causal_, std::nullopt, q_.data(), k_.data(),
                      v_.data());
}

int64_t CallData::visible(int64_t i) const {
  if (causal_ == Causal::kNone) return shape_.Tk;
  return i + 1 + (causal_ == Causal::kBottomRight ? shape_.Tk - shape_.Tq : 0);
}

}  // namespace qkvet::studies
