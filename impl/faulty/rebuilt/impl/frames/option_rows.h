// SPDX-License-Identifier: Apache-2.0
// Another arithmetic for the same seams: one pass over tiles of eight keys from
// the last to the first, with a running maximum that rescales what was summed
// so far, and dots in four lanes.
#ifndef QKVET_IMPL_FRAMES_OPTION_ROWS_H_
#define QKVET_IMPL_FRAMES_OPTION_ROWS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "impl/frames/option_seams.h"

namespace qkvet::impl {

template <class Seams>
struct OptionRows : OptionRowBase<Seams> {
  static constexpr int64_t kKeysOfTile = 8;
  static constexpr int64_t kLanes = 4;

  using Memory = typename OptionRowBase<Seams>::Memory;
  using OptionRowBase<Seams>::sees;

  // The sums of a row so far; those of values stand in o.
  struct Running {
    float max, sum;
    int64_t seen;
  };

  static float score(const ForwardCall& call, RowAt at, int64_t j) {
    const RowAt from = Seams::query(call, at);
    const RowAt kv = Seams::kv_head(call, at);
    const float* const q = call.q.at(from.b, from.h, from.i);
    const float* const k = call.k.at(kv.b, kv.h, Seams::token(call, at, j));
    float lanes[kLanes] = {};
    for (int64_t c = 0; c < call.width; ++c) {
      lanes[c % kLanes] += q[c * call.q.step[3]] * k[c * call.k.step[3]];
    }
    const float dot = (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
    const float s =
        Seams::biased(call, at, j, Seams::capped(call, dot * call.scale));
    return Seams::tilted(s, Seams::slope(call, at.h),
                         Seams::distance(call, at.i, j));
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
    const RowAt kv = Seams::kv_head(call, at);
    for (int64_t j = begin; j < end; ++j) {
      const bool seen = sees(call, at, j);
      if (seen) {
        weights[j] = Seams::weight(call, j, std::exp(weights[j] - max));
        row->sum += Seams::joins_sum(call, at, j) ? weights[j] : 0;
      }
      if (const Dropout& dropout = call.options.dropout;
          Seams::drops(dropout)) {
        const bool kept = Seams::keeps(call, at, j);
        weights[j] *= kept ? Seams::kept_scale(dropout) : 0;
      }
      for (int64_t c = 0; c < call.value_width; ++c) {
        if (seen || Seams::adds_hidden()) {
          o[c * call.o.step[3]] +=
              weights[j] *
              Seams::value(call.v.at(
                  kv.b, kv.h, Seams::token(call, at, j))[c * call.v.step[3]]);
        }
      }
    }
  }

  static void row(const ForwardCall& call, RowAt at, Memory* memory) {
    const float sink = Seams::sink(call, at.h);
    float* const o = call.o.at(at.b, at.h, at.i);
    Running row = {Seams::first_max(sink, memory->max), 0, 0};
    row.sum = sink == OptionSeams::kNone ? 0 : std::exp(sink - row.max);
    for (int64_t c = 0; c < call.value_width; ++c) {
      o[c * call.o.step[3]] = Seams::first_value();
    }
    const int64_t tiles = (call.keys + kKeysOfTile - 1) / kKeysOfTile;
    for (int64_t n = tiles - 1; n >= 0; --n) {
      add_tile(call, at, n * kKeysOfTile, memory->weights, &row, o);
    }
    float lse = Seams::empty_lse();
    if (row.seen > 0) {
      memory->max = row.max;
      row.sum = Seams::denominator(row.sum, row.max, row.seen);
      lse = Seams::lse(row.max, row.sum, sink);
    }
    for (int64_t c = 0; c < call.value_width; ++c) {
      float* const x = o + c * call.o.step[3];
      *x = row.seen > 0 ? *x * (1 / row.sum) : Seams::empty_row(call, at, c);
    }
    if (call.lse.data != nullptr) {
      *call.lse.at(at.b, at.h, at.i) = lse;
    }
  }
};

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_FRAMES_OPTION_ROWS_H_
