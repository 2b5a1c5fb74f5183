// SPDX-License-Identifier: Apache-2.0
#include "impl/testing/cache_words.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace qkvet::impl {
namespace {

// The nearest number of a set that is symmetric about 0; between two of them
// the one whose number is even.
double nearest(double x, const std::vector<double>& numbers) {
  const double magnitude = std::fabs(x);
  const auto above =
      std::lower_bound(numbers.begin(), numbers.end(), magnitude);
  auto best = above;
  if (above == numbers.end()) {
    best = above - 1;
  } else if (above != numbers.begin()) {
    const double up = *above - magnitude, down = magnitude - *(above - 1);
    const bool below_is_even = (above - 1 - numbers.begin()) % 2 == 0;
    best = down < up || (down == up && below_is_even) ? above - 1 : above;
  }
  return std::copysign(*best, x);
}

std::vector<double> int8_numbers() {
  std::vector<double> numbers;
  for (int n = 0; n <= 127; ++n) {
    numbers.push_back(n);
  }
  return numbers;
}

}  // namespace

float word(const CacheProblem& p, Part part, uint64_t token, int64_t head,
           int64_t c) {
  if (token == kNanToken && part != Part::kQuery) {
    return std::numeric_limits<float>::quiet_NaN();
  }
  const auto index = static_cast<uint64_t>((head * 64 + c) * 3) +
                     static_cast<uint64_t>(part) + 1;
  return any_value(p.type, token, index);
}

float channel_scale(const CacheProblem& p, int64_t head, int64_t c) {
  return float(1 + (head + c) % 3) / (p.coded == Coded::kFp8 ? 1024 : 256);
}

const std::vector<double>& e4m3_numbers() {
  static const std::vector<double> all = [] {
    std::vector<double> numbers;
    numbers.reserve(128);
    for (int fraction = 0; fraction < 8; ++fraction) {
      numbers.push_back(fraction / 512.0);
    }
    for (int exponent = -6; exponent <= 8; ++exponent) {
      for (int fraction = 8; fraction < 16; ++fraction) {
        numbers.push_back(std::ldexp(fraction / 8.0, exponent));
      }
    }
    numbers.pop_back();  // 480 is NaN
    return numbers;
  }();
  return all;
}

double kept(const CacheProblem& p, Part part, uint64_t token, int64_t head,
            int64_t c) {
  const float given = word(p, part, token, head, c);
  if (p.coded == Coded::kNot || part == Part::kQuery) {
    return double(given);
  }
  static const std::vector<double> int8 = int8_numbers();
  const std::vector<double>& numbers =
      p.coded == Coded::kFp8 ? e4m3_numbers() : int8;
  float scale = channel_scale(p, head, c);
  if (!p.per_channel) {
    float most = 0;
    const int64_t width = part == Part::kKey ? p.width : p.value_width;
    for (int64_t n = 0; n < width; ++n) {
      most = std::max(most, std::fabs(word(p, part, token, head, n)));
    }
    scale = most / float(numbers.back());
  }
  return nearest(double(given) / double(scale), numbers) * double(scale);
}

}  // namespace qkvet::impl
