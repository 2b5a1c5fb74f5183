// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/quarter_turns.h"

namespace qkvet::properties {
namespace {

constexpr double kCos[] = {1, 0, -1, 0};
constexpr double kSin[] = {0, 1, 0, -1};

int64_t quarters(int64_t position, int64_t pair) {
  return position * (1 + pair % 3) % 4;
}

struct Rows {
  int64_t heads, rows;
  const std::vector<int64_t>& positions;  // [B,rows]
};

void turn(const Case& value, const Rows& all, std::vector<double>& data) {
  const int64_t d = value.shape.d;
  const int64_t pairs = rope_channels(value) / 2;
  const bool half = value.rope.style == RopeStyle::kHalf;
  for (int64_t row = 0; row < value.shape.B * all.heads * all.rows; ++row) {
    const int64_t b = row / (all.heads * all.rows);
    const auto at = static_cast<size_t>(b * all.rows + row % all.rows);
    for (int64_t n = 0; n < pairs; ++n) {
      double* const first =
          &data[static_cast<size_t>(row * d)] + (half ? n : 2 * n);
      double* const second = first + (half ? pairs : 1);
      for (int64_t q = quarters(all.positions[at], n); q > 0; --q) {
        const double old = *first;
        *first = -*second;
        *second = old;
      }
    }
  }
}

}  // namespace

void quarter_turns(const Case& value, int64_t rows, Inputs& inputs) {
  const int64_t pairs = rope_channels(value) / 2;
  inputs.rope_cos.clear();
  inputs.rope_sin.clear();
  for (int64_t at = 0; at < rows * pairs; ++at) {
    const int64_t quarter = quarters(at / pairs, at % pairs);
    inputs.rope_cos.push_back(kCos[quarter]);
    inputs.rope_sin.push_back(kSin[quarter]);
  }
}

void turn_by_hand(const Case& value, Inputs& inputs) {
  const Shape& s = value.shape;
  turn(value, {s.H, s.Tq, inputs.q_positions}, inputs.q);
  turn(value, {s.Hkv, s.Tk, inputs.k_positions}, inputs.k);
  inputs.rope_cos.clear();
  inputs.rope_sin.clear();
  inputs.q_positions.clear();
  inputs.k_positions.clear();
}

Case with_rotation(Case value) {
  if (value.shape.d % 2 == 0 && value.rope.style == RopeStyle::kNone)
    value.rope.style = RopeStyle::kHalf;
  return value;
}

}  // namespace qkvet::properties
