// SPDX-License-Identifier: Apache-2.0
// Changes of numbers: single values of the inputs, factors, recipes.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/call/option_numbers.h"
#include "fuzz/input/mutate.h"
#include "fuzz/input/subjects.h"

namespace qkvet::fuzz {
namespace {

double largest_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF16:
      return 65504;
    case Dtype::kF64:
      return std::numeric_limits<double>::max();
    default:
      // bf16 rounds the largest f32 to infinity; this one both have.
      return 0x1.fep+127;
  }
}

// A step on the scale on which magnitudes count: mostly a factor of a small
// power of two, sometimes a neighbour, the sign, or one of the special numbers.
double changed_value(double now, Dtype dtype, Draw& draw) {
  const double largest = largest_of(dtype);
  double next = now;
  switch (draw.range(0, 9)) {
    case 0:
      next = -now;
      break;
    case 1:
      next = now * (1 + std::ldexp(1.0, -static_cast<int>(draw.range(1, 24))));
      break;
    case 2:
      next = 0;
      break;
    case 3:
      next = draw.chance(50) ? 1 : std::ldexp(1.0, -126);
      break;
    case 4:
      next = now + static_cast<double>(draw.range(-4, 4));
      break;
    default:
      next =
          std::ldexp(now == 0 ? 1 : now, static_cast<int>(draw.range(-3, 4)));
  }
  return std::clamp(next, -largest, largest);
}

void change_set(Case& value, Draw& draw) {
  const auto n = static_cast<int64_t>(value.set.size());
  if (n > 0 && draw.chance(12)) {
    value.set.erase(value.set.begin() + draw.range(0, n - 1));
    return;
  }
  if (n > 0 && draw.chance(60)) {
    SetValue& one = value.set[static_cast<size_t>(draw.range(0, n - 1))];
    one.value = draw.chance(10)
                    ? value.set[static_cast<size_t>(draw.range(0, n - 1))].value
                    : changed_value(one.value, value.q_dtype, draw);
    return;
  }
  if (value.set.size() >= kMaxSetValues) return;
  const auto tensors = fuzzed_subject(value).tensors;
  SetValue one;
  one.tensor = tensors[draw.bits() % tensors.size()];
  const auto extents = tensor_extents(value, one.tensor);
  for (size_t i = 0; i < one.index.size(); ++i)
    one.index[i] = extents[i] > 0 ? draw.range(0, extents[i] - 1) : 0;
  one.value = changed_value(draw.chance(50) ? 1 : -1, value.q_dtype, draw);
  value.set.push_back(one);
}

// Scales all set values of one tensor: this is how a score grows.
void change_many(Case& value, Draw& draw) {
  if (value.set.empty()) return change_set(value, draw);
  const SetValue like = value.set[draw.bits() % value.set.size()];
  const int exponent = static_cast<int>(draw.range(-2, 3));
  const double largest = largest_of(value.q_dtype);
  for (SetValue& one : value.set)
    if (one.tensor == like.tensor)
      one.value =
          std::clamp(std::ldexp(one.value, exponent), -largest, largest);
}

void change_factor(Case& value, Draw& draw) {
  for (const OptionNumber& option : kOptionNumbers) {
    float& number = value.*option.in_call;
    if (!(number > 0) || !draw.chance(40)) continue;
    number = std::clamp(std::ldexp(number, static_cast<int>(draw.range(-2, 2))),
                        0x1p-20f, 0x1p+20f);
    return;
  }
  if (!value.scale) {
    value.scale = 1.0f;
    return;
  }
  if (draw.chance(15)) {
    value.scale.reset();
    return;
  }
  value.scale =
      draw.chance(15)
          ? -*value.scale
          : std::clamp(
                std::ldexp(*value.scale, static_cast<int>(draw.range(-2, 2))),
                -0x1p+20f, 0x1p+20f);
}

void change_recipe(Case& value, Draw& draw) {
  const auto one = [&](Recipe& recipe) {
    if (draw.chance(50))
      recipe.parameter =
          std::clamp<int64_t>(recipe.parameter + draw.range(-2, 2), 0, 16);
    else
      recipe =
          make_recipe(static_cast<RecipeKind>(draw.range(0, kRecipeCount - 1)));
  };
  const FuzzedSubject& subject = fuzzed_subject(value);
  if (subject.one_preset && draw.chance(30)) return draw_data(draw, value);
  if (value.score_bias && draw.chance(20)) return one(*value.score_bias);
  one(value.*draw.of(subject.recipes));
}

}  // namespace

void change_values(Case& value, bool recipes, Draw& draw) {
  const int64_t which = draw.range(0, 99);
  if (which < 8) {
    value.seed = draw.bits() >> 44;
  } else if (which < 20) {
    change_factor(value, draw);
  } else if (which < 45 && recipes) {
    change_recipe(value, draw);
  } else if (which < 60) {
    change_many(value, draw);
  } else {
    change_set(value, draw);
  }
}

}  // namespace qkvet::fuzz
