// SPDX-License-Identifier: Apache-2.0
// The keys in kParts runs of equal length (the last ones shorter or empty),
// each a softmax of its own that ends in (o, lse), as Flash-Decoding does, and
// then o = sum over parts of exp(lse_part - lse) o_part.
#ifndef QKVET_IMPL_CONTROLS_SPLIT_H_
#define QKVET_IMPL_CONTROLS_SPLIT_H_

#include <cmath>
#include <cstdint>

#include "impl/controls/arithmetic.h"
#include "impl/declare.h"

namespace qkvet::impl {

template <int kParts>
struct SplitLse {
  struct Part {
    int64_t begin = 0;
    int64_t end = 0;
    float sum = 0;  // of exp(score - maximum of the part)
    float lse = -kInfinity;
  };

  // Scores of the part become its weights, relative to its own maximum.
  static void weigh(const Row& row, Part* part) {
    float max = -kInfinity;
    for (int64_t j = part->begin; j < part->end; ++j) {
      const float* const k = row.k.row(j);
      const float dot = dot_ascending(row.q, k, row.k.step, row.width);
      row.scores[j] = usual_score(row, dot, j);
      max = std::fmax(max, row.scores[j]);
    }
    for (int64_t j = part->begin; j < part->end; ++j) {
      row.scores[j] = std::exp(row.scores[j] - max);
      part->sum += row.scores[j];
    }
    part->lse = max + std::log(part->sum);
  }

  // A sink counts as a part without values.
  static float total_lse(const Part* parts, float sink) {
    float max = sink;
    for (int p = 0; p < kParts; ++p) {
      max = std::fmax(max, parts[p].lse);
    }
    float sum = std::exp(sink - max);
    for (int p = 0; p < kParts; ++p) {
      if (parts[p].begin < parts[p].end) {
        sum += std::exp(parts[p].lse - max);
      }
    }
    return max + std::log(sum);
  }

  static void row(const Row& row) {
    const int64_t size = (row.keys + kParts - 1) / kParts;
    Part parts[kParts];
    for (int p = 0; p < kParts; ++p) {
      parts[p].begin = p * size < row.keys ? p * size : row.keys;
      parts[p].end =
          parts[p].begin + size < row.keys ? parts[p].begin + size : row.keys;
      if (parts[p].begin < parts[p].end) {
        weigh(row, &parts[p]);
      }
    }
    const float lse = total_lse(parts, row.terms.sink);
    fill(row.acc, row.value_width, 0);
    for (const Part& part : parts) {
      if (part.begin < part.end) {
        merge(row, part, std::exp(part.lse - lse));
      }
    }
    for (int64_t c = 0; c < row.value_width; ++c) {
      row.o[c * row.o_step] = row.acc[c];
    }
    row.write_lse(lse);
  }

  static void merge(const Row& row, const Part& part, float weight) {
    fill(row.part, row.value_width, 0);
    for (int64_t j = part.begin; j < part.end; ++j) {
      add_weighted(row.scores[j], row.v.row(j), row.v.step, row.part,
                   row.value_width);
    }
    for (int64_t c = 0; c < row.value_width; ++c) {
      row.acc[c] += weight * (row.part[c] / part.sum);
    }
  }
};

// Sequential within a part and over the parts: together neither one lane nor a
// pairwise tree, so no order is declared for the values. An element is divided
// once, within its part.
template <int kParts>
constexpr qkvet_precision split_precision() {
  qkvet_precision p = sequential_f32();
  p.value_sum = QKVET_SUM_ANY;
  p.splits = kParts;
  p.merge = QKVET_MERGE_LSE;
  return p;
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CONTROLS_SPLIT_H_
