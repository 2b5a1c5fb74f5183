// SPDX-License-Identifier: Apache-2.0
// serving/gathered: copies the pages of a member to adjacent rows and attends
// over those, with every option, as in systems with an attention that does not
// support pages. Online softmax over tiles of 64 keys.
//
// Contract: that of serving_skeleton.h.
#include <cmath>
#include <cstdint>
#include <limits>

#include "impl/call/declare.h"
#include "impl/serving/kernel.h"
#include "impl/skeletons/row_skeleton.h"
#include "impl/skeletons/serving_skeleton.h"

namespace qkvet::impl {
namespace {

constexpr int kTile = 64;
constexpr float kNone = -std::numeric_limits<float>::infinity();

// Online softmax (Milakov and Gimelshein 2018): when a tile raises the maximum,
// denominator and P v so far are multiplied by exp(old - new). Within a tile
// keys are added one by one. A sink is added before the first tile, with a
// weight of 1.
struct Online64 {
  static void row(const Row& row) {
    float max = row.terms.sink;
    float sum = max > kNone ? 1 : 0;
    for (int64_t c = 0; c < row.value_width; ++c) {
      row.acc[c] = 0;
    }
    for (int64_t first = 0; first < row.keys; first += kTile) {
      const int64_t left = row.keys - first;
      add_tile(row, first, left < kTile ? left : kTile, &max, &sum);
    }
    for (int64_t c = 0; c < row.value_width; ++c) {
      row.o[c * row.o_step] = row.acc[c] / sum;
    }
    row.write_lse(max + std::log(sum));
  }

  static float score(const Row& row, int64_t j) {
    float dot = 0;
    for (int64_t c = 0; c < row.width; ++c) {
      dot += row.q[c] * row.k.row(j)[c * row.k.step];
    }
    return row.score(dot * row.scale, j);
  }

  static void add_tile(const Row& row, int64_t first, int64_t count, float* max,
                       float* sum) {
    float tile_max = kNone;
    for (int64_t n = 0; n < count; ++n) {
      row.scores[n] = score(row, first + n);
      tile_max = std::fmax(tile_max, row.scores[n]);
    }
    if (first == 0 && *sum == 0) {
      *max = tile_max;
    } else if (!(tile_max <= *max)) {
      rescale(row, std::exp(*max - tile_max), sum);
      *max = tile_max;
    }
    for (int64_t n = 0; n < count; ++n) {
      const float weight = std::exp(row.scores[n] - *max);
      const float* const v = row.v.row(first + n);
      *sum += weight;
      for (int64_t c = 0; c < row.value_width; ++c) {
        row.acc[c] += weight * v[c * row.v.step];
      }
    }
  }

  static void rescale(const Row& row, float factor, float* sum) {
    *sum *= factor;
    for (int64_t c = 0; c < row.value_width; ++c) {
      row.acc[c] *= factor;
    }
  }
};

constexpr qkvet_precision kPrecision = [] {
  qkvet_precision p = sequential_f32();
  p.tile = kTile;
  return p;
}();

// It computes on a copy, which does not depend on the place of pages.
constexpr qkvet_capabilities kCapabilities = [] {
  qkvet_capabilities c = capabilities_with(
      (kAllOptions & ~QKVET_OPTION_PACKED) | kServingOptions |
          QKVET_OPTION_PACKED_PAGES | QKVET_OPTION_PAGED_CSR |
          QKVET_OPTION_PAGED_CHANNEL_GROUPS | QKVET_OPTION_VALUES_IN_KEYS |
          QKVET_OPTION_INT32_LENGTHS | kListOptions,
      {kF32, kF16, kBf16});
  c.flags |= QKVET_FLAG_LAYOUT_INVARIANT | QKVET_FLAG_PAGE_PLACEMENT_INVARIANT;
  return with_paths(c, {{QKVET_AXIS_TK, kTile}});
}();

}  // namespace

extern constinit const qkvet_kernel serving_gathered = family_serving(
    QKVET_FAMILY "/gathered", "pages gathered to rows, then every option",
    {"impl/serving/gathered.cpp", __LINE__}, &kPrecision,
    ServingKernel<ServingHooks, compute_rows<Online64>>::forward,
    &kCapabilities);

}  // namespace qkvet::impl
