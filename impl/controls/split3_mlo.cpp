// SPDX-License-Identifier: Apache-2.0
// controls/split3_mlo: the keys in 3 parts, each with a maximum m, a sum l and
// an output o that is not normalised, merged as (m, l, o): both l and o times
// exp(m - largest m), added, and divided once.
#include <cmath>
#include <cstdint>

#include "impl/controls/arithmetic.h"
#include "impl/declare.h"
#include "impl/row_frame.h"

namespace qkvet::impl {
namespace {

constexpr int kParts = 3;

struct Split3Mlo {
  struct Part {
    int64_t begin = 0;
    int64_t end = 0;
    float max = -kInfinity;
  };

  static void find_maximum(const Row& row, Part* part) {
    for (int64_t j = part->begin; j < part->end; ++j) {
      const float* const k = row.k.row(j);
      const float dot = dot_ascending(row.q, k, row.k.step, row.width);
      row.scores[j] = usual_score(row, dot, j);
      part->max = std::fmax(part->max, row.scores[j]);
    }
  }

  // Adds a part to row.acc; returns what it adds to the denominator.
  static float merge(const Row& row, const Part& part, float max) {
    float sum = 0;
    fill(row.part, row.value_width, 0);
    for (int64_t j = part.begin; j < part.end; ++j) {
      const float weight = std::exp(row.scores[j] - part.max);
      sum += weight;
      add_weighted(weight, row.v.row(j), row.v.step, row.part, row.value_width);
    }
    const float factor = std::exp(part.max - max);
    for (int64_t c = 0; c < row.value_width; ++c) {
      row.acc[c] += factor * row.part[c];
    }
    return factor * sum;
  }

  static void row(const Row& row) {
    const int64_t size = (row.keys + kParts - 1) / kParts;
    Part parts[kParts];
    float max = row.terms.sink;
    for (int p = 0; p < kParts; ++p) {
      const int64_t begin = p * size, end = begin + size;
      parts[p].begin = begin < row.keys ? begin : row.keys;
      parts[p].end = end < row.keys ? end : row.keys;
      find_maximum(row, &parts[p]);
      max = std::fmax(max, parts[p].max);
    }
    float sum = std::exp(row.terms.sink - max);
    fill(row.acc, row.value_width, 0);
    for (const Part& part : parts) {
      if (part.begin < part.end) {
        sum += merge(row, part, max);
      }
    }
    write_quotient(row, row.acc, sum);
    row.write_lse(max + std::log(sum));
  }
};

// Sequential within a part and over the parts: no order is declared. The two
// differences s - m of the part and m - largest m add up to the distance from
// the largest, and each rounds once: 1 in proportion to their sum.
constexpr qkvet_precision kPrecision = [] {
  qkvet_precision p = sequential_f32();
  p.value_sum = QKVET_SUM_ANY;
  p.splits = kParts;
  p.merge = QKVET_MERGE_MLO;
  return p;
}();

}  // namespace

extern constinit const qkvet_kernel controls_split3_mlo = plain_kernel(
    "controls/split3_mlo", "keys in 3 parts, merged as (max, sum, o)",
    {"impl/controls/split3_mlo.cpp", __LINE__}, &kPrecision,
    kRowForward<Split3Mlo>, &kAllCapabilities);

}  // namespace qkvet::impl
