// SPDX-License-Identifier: Apache-2.0
// controls/flash_p_rounded: FlashAttention for half storage, as GPU kernels do
// it, in scalar f32:
//
//   c = scale * log2(e),  w_j = exp2(fma(q.k_j, c, -(m * c)))   tiles of 64
//   keys l += w_j,  acc += round(w_j) v_j                  rounded to the
//   storage type where a tile raises m: l and acc times exp2((old - new) * c)
#include <cmath>
#include <cstdint>

#include "impl/controls/arithmetic.h"
#include "impl/declare.h"
#include "impl/half.h"
#include "impl/row_frame.h"

namespace qkvet::impl {
namespace {

constexpr int kTile = 64;

struct FlashPRounded {
  struct State {
    float factor;   // c
    float extreme;  // q.k of the largest score
    float sum;
  };

  // A negative scale turns the smallest product into the largest score.
  static float larger_score(const State& state, float a, float b) {
    return state.factor < 0 ? std::fmin(a, b) : std::fmax(a, b);
  }

  static void row(const Row& row) {
    State state = {row.scale * kLog2E, 0, 0};
    fill(row.acc, row.value_width, 0);
    for (int64_t first = 0; first < row.keys; first += kTile) {
      const int64_t left = row.keys - first;
      add_tile(row, first, left < kTile ? left : kTile, &state);
    }
    write_quotient(row, row.acc, state.sum);
    row.write_lse(state.extreme * row.scale + std::log(state.sum));
  }

  static void add_tile(const Row& row, int64_t first, int64_t count,
                       State* state) {
    float extreme = state->factor < 0 ? kInfinity : -kInfinity;
    for (int64_t n = 0; n < count; ++n) {
      const float* const k = row.k.row(first + n);
      row.scores[n] = dot_ascending(row.q, k, row.k.step, row.width);
      extreme = larger_score(*state, extreme, row.scores[n]);
    }
    if (first > 0) {
      extreme = larger_score(*state, extreme, state->extreme);
      rescale(row, extreme, state);
    }
    state->extreme = extreme;
    const float shift = extreme * state->factor;
    for (int64_t n = 0; n < count; ++n) {
      const float w = std::exp2(std::fma(row.scores[n], state->factor, -shift));
      state->sum += w;
      add_weighted(round_to(row.storage, w), row.v.row(first + n), row.v.step,
                   row.acc, row.value_width);
    }
  }

  static void rescale(const Row& row, float extreme, State* state) {
    const float w = std::exp2((state->extreme - extreme) * state->factor);
    state->sum *= w;
    for (int64_t c = 0; c < row.value_width; ++c) {
      row.acc[c] *= w;
    }
  }
};

// The preset says that P is rounded to the storage type, unnormalised. In
// proportion to the distance from the maximum: c is off by 1.23 units (log2(e)
// 0.23, its product with the scale 1), the multiply-add rounds 1, or, where a
// tile is rescaled, difference and product 2: 3.23 of 3.3. The rounding of m *
// c differs from tile to tile: 1 in proportion to the scores.
constexpr double kArgRoundings = 3.3;
constexpr double kRefRoundings = 1;

constexpr qkvet_precision kPrecision = [] {
  qkvet_precision p = sequential_f32();
  p.preset = QKVET_PRECISION_FLASH_HALF;
  p.scale_stage = QKVET_SCALE_FOLDED;
  p.tile = kTile;
  p.arg_roundings = kArgRoundings;
  p.ref_roundings = kRefRoundings;
  return p;
}();

}  // namespace

extern constinit const qkvet_kernel controls_flash_p_rounded = plain_kernel(
    "controls/flash_p_rounded", "P rounded to the storage type, folded exp2",
    {"impl/controls/flash_p_rounded.cpp", __LINE__}, &kPrecision,
    kRowForward<FlashPRounded>, &kPairHalfCapabilities);

}  // namespace qkvet::impl
