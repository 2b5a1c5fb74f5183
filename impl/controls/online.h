// SPDX-License-Identifier: Apache-2.0
// Online softmax (Milakov and Gimelshein 2018; FlashAttention): keys come in
// tiles, and when a tile raises the maximum, denominator and P v so far are
// multiplied by exp(old - new). Within a tile keys are added one by one.
//
// kLag > 0: the maximum in use may stay behind the true one by up to kLag
// (FlashAttention 4), which saves most rescalings; weights then reach
// exp(kLag).
//
// A sink is there before the first tile, with a weight of 1.
#ifndef QKVET_IMPL_CONTROLS_ONLINE_H_
#define QKVET_IMPL_CONTROLS_ONLINE_H_

#include <cmath>
#include <cstdint>

#include "impl/controls/arithmetic.h"

namespace qkvet::impl {

struct OnlineShape {
  int tile;                 // keys a tile
  bool descending = false;  // last key first
  float lag = 0;            // natural log units
};

// Exp takes what a natural exponent is, whatever base it computes in.
template <OnlineShape kShape, ExpFunction Exp = libm_exp>
struct Online {
  // Key of position n in the order of visiting.
  static int64_t key(const Row& row, int64_t n) {
    return kShape.descending ? row.keys - 1 - n : n;
  }

  static void row(const Row& row) {
    float max = row.terms.sink;
    float sum = max > -kInfinity ? 1 : 0;
    fill(row.acc, row.value_width, 0);
    for (int64_t first = 0; first < row.keys; first += kShape.tile) {
      const int64_t left = row.keys - first;
      const int64_t count = left < kShape.tile ? left : kShape.tile;
      add_tile(row, first, count, &max, &sum);
    }
    write_quotient(row, row.acc, sum);
    row.write_lse(max + std::log(sum));
  }

  static void add_tile(const Row& row, int64_t first, int64_t count, float* max,
                       float* sum) {
    float tile_max = -kInfinity;
    for (int64_t n = 0; n < count; ++n) {
      const int64_t j = key(row, first + n);
      const float dot =
          dot_ascending(row.q, row.k.row(j), row.k.step, row.width);
      row.scores[n] = usual_score(row, dot, j);
      tile_max = std::fmax(tile_max, row.scores[n]);
    }
    if (first == 0 && *sum == 0) {
      *max = tile_max;
    } else if (!(tile_max - *max <= kShape.lag)) {
      const float factor = Exp(*max - tile_max);
      *sum *= factor;
      for (int64_t c = 0; c < row.value_width; ++c) {
        row.acc[c] *= factor;
      }
      *max = tile_max;
    }
    for (int64_t n = 0; n < count; ++n) {
      const float weight = Exp(row.scores[n] - *max);
      *sum += weight;
      add_weighted(weight, row.v.row(key(row, first + n)), row.v.step, row.acc,
                   row.value_width);
    }
  }
};

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CONTROLS_ONLINE_H_
