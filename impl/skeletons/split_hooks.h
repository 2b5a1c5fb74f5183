// SPDX-License-Identifier: Apache-2.0
// The hooks of another correct kernel: keys in two parts, each with an lse of
// its own, by which they are merged. It has the hooks of option_hooks.h for the
// visible keys, and those of the parts:
//
//   weighed     the weights of a part, complete         -> values, lse
//   stored      the state of a part before merging      -> values, lse
//   reference   the number subtracted before exp        -> values, lse
//   sinks       how often the sink counts               -> values, lse
#ifndef QKVET_IMPL_SKELETONS_SPLIT_HOOKS_H_
#define QKVET_IMPL_SKELETONS_SPLIT_HOOKS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "impl/skeletons/options_kernel.h"

namespace qkvet::impl {

// One part of the keys of a row.
struct SplitPart {
  int64_t number = 0, begin = 0, end = 0;
  int64_t seen = 0;
  float lse = OptionHooks::kNone;
  float sum = 0;  // of exp(score - maximum of the part)
};

struct SplitHooks : OptionHooks {
  // The weights of hidden keys are undefined here; `max` is the maximum of the
  // part.
  static void weighed(const ForwardCall&, RowAt, const SplitPart&,
                      float /*max*/, float* /*weights*/) {}
  static void stored(const ForwardCall&, SplitPart*) {}
  static float reference(float max) { return max == kNone ? 0 : max; }
  // How often the sink counts if `parts` parts see a key.
  static float sinks(int64_t /*parts*/) { return 1; }
};

template <class Hooks>
struct SplitRows : OptionRowBase<Hooks> {
  using typename OptionRowBase<Hooks>::Memory;
  using OptionRowBase<Hooks>::score;
  using OptionRowBase<Hooks>::sees;

  static constexpr int64_t kParts = 2;

  static void weigh(const ForwardCall& call, RowAt at, float* weights,
                    SplitPart* part) {
    float max = OptionHooks::kNone;
    for (int64_t j = part->begin; j < part->end; ++j) {
      if (sees(call, at, j)) {
        weights[j] = score(call, at, j);
        max = std::fmax(max, weights[j]);
        ++part->seen;
      }
    }
    for (int64_t j = part->begin; j < part->end; ++j) {
      if (sees(call, at, j)) {
        weights[j] = std::exp(weights[j] - max);
      }
    }
    Hooks::weighed(call, at, *part, max, weights);
    for (int64_t j = part->begin; j < part->end; ++j) {
      if (sees(call, at, j)) {
        part->sum += weights[j];
      }
    }
    part->lse = part->seen > 0 ? max + std::log(part->sum) : part->lse;
    Hooks::stored(call, part);
  }

  // -infinity: no row.
  static float merged_lse(const SplitPart* parts, float sink) {
    float max = OptionHooks::kNone;
    int64_t seeing = 0;
    for (int64_t p = 0; p < kParts; ++p) {
      max = std::fmax(max, parts[p].lse);
      seeing += parts[p].seen > 0 ? 1 : 0;
    }
    max = seeing > 0 ? std::fmax(max, sink) : max;
    const float reference = Hooks::reference(max);
    float sum =
        seeing > 0 ? Hooks::sinks(seeing) * std::exp(sink - reference) : 0;
    for (int64_t p = 0; p < kParts; ++p) {
      sum += std::exp(parts[p].lse - reference);
    }
    return reference + std::log(sum);
  }

  static float column(const ForwardCall& call, RowAt at, int64_t c,
                      const float* weights, const SplitPart* parts, float lse) {
    const RowAt kv = Hooks::kv_head(call, at);
    float acc = 0;
    for (int64_t p = 0; p < kParts; ++p) {
      float sum = 0;
      for (int64_t j = parts[p].begin; j < parts[p].end; ++j) {
        if (sees(call, at, j)) {
          sum += weights[j] * call.v.at(kv.b, kv.h, j)[c * call.v.step[3]];
        }
      }
      const float mean = parts[p].seen > 0 ? sum / parts[p].sum : 0;
      acc += std::exp(parts[p].lse - lse) * mean;
    }
    return acc;
  }

  static void row(const ForwardCall& call, RowAt at, Memory* memory) {
    const int64_t size = (call.keys + kParts - 1) / kParts;
    SplitPart parts[kParts];
    for (int64_t p = 0; p < kParts; ++p) {
      parts[p].number = p;
      parts[p].begin = std::min(p * size, call.keys);
      parts[p].end = std::min(parts[p].begin + size, call.keys);
      weigh(call, at, memory->weights, &parts[p]);
    }
    const float lse = merged_lse(parts, Hooks::sink(call, at.h));
    float* const o = call.o.at(at.b, at.h, at.i);
    for (int64_t c = 0; c < call.value_width; ++c) {
      o[c * call.o.step[3]] =
          lse == OptionHooks::kNone
              ? 0
              : column(call, at, c, memory->weights, parts, lse);
    }
    if (call.lse.data != nullptr) {
      *call.lse.at(at.b, at.h, at.i) = lse;
    }
  }
};

// Sequential within a part and over the parts: together neither one lane nor a
// tree. An element is divided once, within its part.
inline constexpr qkvet_precision kSplitHooksPrecision = [] {
  qkvet_precision p = sequential_f32();
  p.value_sum = QKVET_SUM_ANY;
  p.splits = 2;
  p.merge = QKVET_MERGE_LSE;
  return p;
}();

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_SKELETONS_SPLIT_HOOKS_H_
