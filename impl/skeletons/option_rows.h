// SPDX-License-Identifier: Apache-2.0
// The arithmetic of options_kernel.h, row by row: every sum sequential and
// ascending with the sink first, products rounded, expf, one division an
// element at the end.
#ifndef QKVET_IMPL_SKELETONS_OPTION_ROWS_H_
#define QKVET_IMPL_SKELETONS_OPTION_ROWS_H_

#include <cmath>
#include <cstdint>

#include "impl/skeletons/option_hooks.h"

namespace qkvet::impl {

template <class Hooks>
struct OptionRows : OptionRowBase<Hooks> {
  using Memory = typename OptionRowBase<Hooks>::Memory;
  using OptionRowBase<Hooks>::score;
  using OptionRowBase<Hooks>::sees;

  // Column c of o.
  static float column(const ForwardCall& call, RowAt at, int64_t c,
                      const float* weights, float sum) {
    const RowAt kv = Hooks::kv_head(call, at);
    float acc = Hooks::first_value();
    for (int64_t n = 0; n < call.keys; ++n) {
      const int64_t j = nth_key(n, call.keys);
      if (Hooks::reaches(call, at, j, sees(call, at, j))) {
        const float v = Hooks::value(call.v.at(
            kv.b, kv.h, Hooks::token(call, at, j))[c * call.v.step[3]]);
        acc =
            Hooks::add_value(call, acc, Hooks::met(call, weights[j], sum) * v);
      }
    }
    return Hooks::output(call, acc, sum);
  }

  // Scores into memory->weights and their maximum into memory->max; returns how
  // many keys are seen.
  static int64_t scores(const ForwardCall& call, RowAt at, Memory* memory) {
    float max = Hooks::first_max(Hooks::sink(call, at.h), memory->max);
    int64_t seen = 0;
    for (int64_t j = 0; j < call.keys; ++j) {
      memory->weights[j] = 0;
      if (sees(call, at, j)) {
        memory->weights[j] = score(call, at, j);
        max = std::fmax(max, memory->weights[j]);
        ++seen;
      }
    }
    memory->max = seen > 0 ? max : memory->max;
    return seen;
  }

  static void drop(const ForwardCall& call, RowAt at, float* weights) {
    const Dropout& dropout = call.options.dropout;
    for (int64_t j = 0; Hooks::drops(dropout) && j < call.keys; ++j) {
      weights[j] *= Hooks::keeps(call, at, j) ? Hooks::kept_scale(dropout) : 0;
    }
  }

  static void row(const ForwardCall& call, RowAt at, Memory* memory) {
    const int64_t seen = scores(call, at, memory);
    float sum = 0;
    float lse = Hooks::empty_lse();
    if (seen > 0) {
      const float max = Hooks::shift(memory->max);
      const float sink = Hooks::sink(call, at.h);
      sum = std::exp(sink - max);
      for (int64_t n = 0; n < call.keys; ++n) {
        const int64_t j = nth_key(n, call.keys);
        if (sees(call, at, j)) {
          float* const weight = memory->weights + j;
          *weight = Hooks::weight(call, j, std::exp(*weight - max));
          sum = Hooks::add(call, at, j, sum, *weight);
        }
      }
      drop(call, at, memory->weights);
      sum = Hooks::denominator(sum, max, seen);
      lse = Hooks::lse(max, sum, sink);
    }
    float* const o = call.o.at(at.b, at.h, at.i);
    for (int64_t c = 0; c < call.value_width; ++c) {
      o[c * call.o.step[3]] = seen > 0
                                  ? column(call, at, c, memory->weights, sum)
                                  : Hooks::empty_row(call, at, c);
    }
    if (call.lse.data != nullptr) {
      *call.lse.at(at.b, at.h, at.i) = lse;
    }
  }
};

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_SKELETONS_OPTION_ROWS_H_
