// SPDX-License-Identifier: Apache-2.0
// The hooks of another correct kernel, an online softmax: half_tile() keys at a
// time, including hidden ones; sums are rescaled when the maximum grows. It has
// the hooks of option_hooks.h for visible keys and scores, and these hooks of a
// tile:
//
//   hidden_maximum   of hidden keys, before all keys  -> weights
//   raised           the maximum after a tile         -> weights
//   reference        the number subtracted before exp -> weights
//   rescaled         a sum of values, when it grows   -> values
//   padding          the score after the last key     -> denominator
#ifndef QKVET_IMPL_SKELETONS_TILED_HOOKS_H_
#define QKVET_IMPL_SKELETONS_TILED_HOOKS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "impl/skeletons/options_kernel.h"
#include "impl/skeletons/tile.h"

namespace qkvet::impl {

struct TiledHooks : OptionHooks {
  static float hidden_maximum() { return kNone; }
  // `max` is that of the tile, `old` that of all keys before it.
  static float raised(float old, float max) { return std::fmax(old, max); }
  static float reference(float max) { return max == kNone ? 0 : max; }
  static float rescaled(float sum, float factor) { return sum * factor; }
  static float padding(const ForwardCall&) { return kNone; }
};

template <class Hooks>
struct TiledRows : OptionRowBase<Hooks> {
  using typename OptionRowBase<Hooks>::Memory;
  using OptionRowBase<Hooks>::score;
  using OptionRowBase<Hooks>::sees;

  // The sums so far; those of values are in o.
  struct Running {
    float max, sum;
    int64_t seen;
  };

  // The maximum of the keys from `begin` on; writes their scores to `scores`.
  static float tile_maximum(const ForwardCall& call, RowAt at, int64_t begin,
                            int64_t end, float* scores, Running* row) {
    float max = end > call.keys ? Hooks::padding(call) : OptionHooks::kNone;
    for (int64_t j = begin; j < std::min(end, call.keys); ++j) {
      if (sees(call, at, j)) {
        scores[j] = score(call, at, j);
        max = std::fmax(max, scores[j]);
        ++row->seen;
      }
    }
    return row->seen > 0 ? max : std::fmax(max, Hooks::hidden_maximum());
  }

  static void add_tile(const ForwardCall& call, RowAt at, int64_t begin,
                       float* weights, Running* row) {
    const int64_t end = begin + half_tile();
    float* const o = call.o.at(at.b, at.h, at.i);
    const float max = Hooks::raised(
        row->max, tile_maximum(call, at, begin, end, weights, row));
    const float reference = Hooks::reference(max);
    const float factor = std::exp(row->max - reference);
    row->sum *= factor;
    for (int64_t c = 0; c < call.value_width; ++c) {
      o[c * call.o.step[3]] = Hooks::rescaled(o[c * call.o.step[3]], factor);
    }
    row->max = max;
    const RowAt kv = Hooks::kv_head(call, at);
    for (int64_t j = begin; j < end; ++j) {
      if (j >= call.keys) {
        row->sum += std::exp(Hooks::padding(call) - reference);
      } else if (sees(call, at, j)) {
        const float weight = std::exp(weights[j] - reference);
        row->sum += weight;
        const float met = Hooks::met(call, weight, row->sum);
        for (int64_t c = 0; c < call.value_width; ++c) {
          o[c * call.o.step[3]] +=
              met * call.v.at(kv.b, kv.h, j)[c * call.v.step[3]];
        }
      }
    }
  }

  static void row(const ForwardCall& call, RowAt at, Memory* memory) {
    float* const o = call.o.at(at.b, at.h, at.i);
    const float sink = Hooks::sink(call, at.h);
    Running row = {sink, sink > OptionHooks::kNone ? 1.0f : 0.0f, 0};
    for (int64_t c = 0; c < call.value_width; ++c) {
      o[c * call.o.step[3]] = 0;
    }
    for (int64_t j = 0; j < call.keys; j += half_tile()) {
      add_tile(call, at, j, memory->weights, &row);
    }
    for (int64_t c = 0; c < call.value_width; ++c) {
      float* const x = o + c * call.o.step[3];
      *x = row.seen > 0 ? *x / row.sum : 0;
    }
    if (call.lse.data != nullptr) {
      *call.lse.at(at.b, at.h, at.i) =
          row.seen > 0 ? row.max + std::log(row.sum) : OptionHooks::kNone;
    }
  }
};

// Rescaling keeps the order of the sums: one lane, keys ascending. Wider tiles
// rescale less often than is declared here.
inline constexpr qkvet_precision kTiledHooksPrecision = [] {
  qkvet_precision p = sequential_f32();
  p.tile = 2;
  return p;
}();

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_SKELETONS_TILED_HOOKS_H_
