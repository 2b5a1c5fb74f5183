// SPDX-License-Identifier: Apache-2.0
// Another arithmetic for the same hooks: one pass over tiles of eight keys from
// the last to the first, with a running maximum that rescales what was summed
// so far, and dots in four lanes.
#ifndef QKVET_IMPL_SKELETONS_OPTION_ROWS_H_
#define QKVET_IMPL_SKELETONS_OPTION_ROWS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "impl/skeletons/option_hooks.h"

namespace qkvet::impl {

template <class Hooks>
struct OptionRows : OptionRowBase<Hooks> {
  static constexpr int64_t kKeysOfTile = 8;
  static constexpr int64_t kLanes = 4;

  using Memory = typename OptionRowBase<Hooks>::Memory;
  using OptionRowBase<Hooks>::sees;

  // The sums of a row so far; those of values are in o.
  struct Running {
    float max, sum;
    int64_t seen;
  };

  static float score(const ForwardCall& call, RowAt at, int64_t j) {
    const RowAt from = Hooks::query(call, at);
    const RowAt kv = Hooks::kv_head(call, at);
    const float* const q = call.q.at(from.b, from.h, from.i);
    const float* const k = call.k.at(kv.b, kv.h, Hooks::token(call, at, j));
    float lanes[kLanes] = {};
    for (int64_t c = 0; c < call.width; ++c) {
      lanes[c % kLanes] += q[c * call.q.step[3]] * k[c * call.k.step[3]];
    }
    const float dot = (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
    const float s =
        Hooks::biased(call, at, j, Hooks::capped(call, dot * call.scale));
    return Hooks::tilted(s, Hooks::slope(call, at),
                         Hooks::distance(call, at.i, j));
  }

  static void rescale(const ForwardCall& call, float max, Running* row,
                      float* o) {
    const float factor = max == row->max ? 1 : std::exp(row->max - max);
    row->sum *= factor;
    for (int64_t c = 0; c < call.value_width; ++c) {
      o[c * call.o.step[3]] *= factor;
    }
    row->max = max;
  }

  static void add_tile(const ForwardCall& call, RowAt at, int64_t begin,
                       float* weights, Running* row, float* o) {
    const int64_t end = std::min(begin + kKeysOfTile, call.keys);
    float max = row->max;
    for (int64_t j = begin; j < end; ++j) {
      weights[j] = 0;
      if (sees(call, at, j)) {
        weights[j] = score(call, at, j);
        max = std::fmax(max, weights[j]);
        ++row->seen;
      }
    }
    rescale(call, max, row, o);
    const RowAt kv = Hooks::kv_head(call, at);
    for (int64_t j = begin; j < end; ++j) {
      const bool seen = sees(call, at, j);
      if (seen) {
        weights[j] = Hooks::weight(call, j, std::exp(weights[j] - max));
        row->sum += Hooks::joins_sum(call, at, j) ? weights[j] : 0;
      }
      if (const Dropout& dropout = call.options.dropout;
          Hooks::drops(dropout)) {
        const bool kept = Hooks::keeps(call, at, j);
        weights[j] *= kept ? Hooks::kept_scale(dropout) : 0;
      }
      for (int64_t c = 0; c < call.value_width; ++c) {
        if (seen || Hooks::adds_hidden()) {
          o[c * call.o.step[3]] +=
              weights[j] *
              Hooks::value(call.v.at(
                  kv.b, kv.h, Hooks::token(call, at, j))[c * call.v.step[3]]);
        }
      }
    }
  }

  static void row(const ForwardCall& call, RowAt at, Memory* memory) {
    const float sink = Hooks::sink(call, at.h);
    float* const o = call.o.at(at.b, at.h, at.i);
    Running row = {Hooks::first_max(sink, memory->max), 0, 0};
    row.sum = sink == OptionHooks::kNone ? 0 : std::exp(sink - row.max);
    for (int64_t c = 0; c < call.value_width; ++c) {
      o[c * call.o.step[3]] = Hooks::first_value();
    }
    const int64_t tiles = (call.keys + kKeysOfTile - 1) / kKeysOfTile;
    for (int64_t n = tiles - 1; n >= 0; --n) {
      add_tile(call, at, n * kKeysOfTile, memory->weights, &row, o);
    }
    float lse = Hooks::empty_lse();
    if (row.seen > 0) {
      memory->max = row.max;
      row.sum = Hooks::denominator(row.sum, row.max, row.seen);
      lse = Hooks::lse(row.max, row.sum, sink);
    }
    for (int64_t c = 0; c < call.value_width; ++c) {
      float* const x = o + c * call.o.step[3];
      *x = row.seen > 0 ? *x * (1 / row.sum) : Hooks::empty_row(call, at, c);
    }
    if (call.lse.data != nullptr) {
      *call.lse.at(at.b, at.h, at.i) = lse;
    }
  }
};

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_SKELETONS_OPTION_ROWS_H_
