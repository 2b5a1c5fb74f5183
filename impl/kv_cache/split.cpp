// SPDX-License-Identifier: Apache-2.0
// kv_cache/split: contiguous memory, and the keys of a row in parts of 5, each
// a softmax of its own that returns (o, lse); then o = sum over parts of
// exp(lse_part - lse) o_part, as in Flash-Decoding (Dao et al. 2023). With more
// than 40 keys the parts are longer: there are at most 8.
//
// Contract: that of kv_cache/contiguous.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "impl/kv_cache/kernel.h"
#include "impl/skeletons/cache_memory.h"

namespace qkvet::impl {
namespace {

constexpr int64_t kPartKeys = 5;
// The limit for a kernel without declarations.
constexpr int64_t kMostParts = 8;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct SplitRow {
  struct Part {
    int64_t begin, end;
    float sum;  // of exp(score - maximum of the part)
    float lse;
  };

  // Scores of the part become its weights, relative to its own maximum.
  static void weigh(const Row& row, Part* part) {
    float max = -kInfinity;
    for (int64_t j = part->begin; j < part->end; ++j) {
      const float* const k = row.k.row(j);
      float dot = 0;
      for (int64_t c = 0; c < row.width; ++c) {
        dot += row.q[c] * k[c * row.k.step];
      }
      row.scores[j] = row.score(dot * row.scale, j);
      max = std::fmax(max, row.scores[j]);
    }
    part->sum = 0;
    for (int64_t j = part->begin; j < part->end; ++j) {
      row.scores[j] = std::exp(row.scores[j] - max);
      part->sum += row.scores[j];
    }
    part->lse = max + std::log(part->sum);
  }

  static void merge(const Row& row, const Part& part, float weight) {
    std::fill_n(row.part, row.value_width, 0.0f);
    for (int64_t j = part.begin; j < part.end; ++j) {
      const float* const v = row.v.row(j);
      for (int64_t c = 0; c < row.value_width; ++c) {
        row.part[c] += row.scores[j] * v[c * row.v.step];
      }
    }
    for (int64_t c = 0; c < row.value_width; ++c) {
      row.acc[c] += weight * (row.part[c] / part.sum);
    }
  }

  static void row(const Row& row) {
    const int64_t size =
        std::max(kPartKeys, (row.keys + kMostParts - 1) / kMostParts);
    Part parts[kMostParts];
    int64_t count = 0;
    float max = row.terms.sink;
    for (int64_t begin = 0; begin < row.keys; begin += size) {
      Part& part = parts[count++];
      part = {begin, std::min(begin + size, row.keys), 0, 0};
      weigh(row, &part);
      max = std::fmax(max, part.lse);
    }
    float sum =
        row.terms.sink > -kInfinity ? std::exp(row.terms.sink - max) : 0;
    for (int64_t p = 0; p < count; ++p) {
      sum += std::exp(parts[p].lse - max);
    }
    const float lse = max + std::log(sum);
    std::fill_n(row.acc, row.value_width, 0.0f);
    for (int64_t p = 0; p < count; ++p) {
      merge(row, parts[p], std::exp(parts[p].lse - lse));
    }
    for (int64_t c = 0; c < row.value_width; ++c) {
      row.o[c * row.o_step] = row.acc[c];
    }
    row.write_lse(lse);
  }
};

class SplitCache : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

 protected:
  qkvet_status attend_rows(const ForwardCall& call,
                           qkvet_text* why) const override {
    return compute_rows<SplitRow>(call, why);
  }
};

// Sequential within a part and over the parts: together neither one lane nor a
// pairwise tree, so no order is declared for the values. An element is divided
// once, within its part.
constexpr qkvet_precision kPrecision = [] {
  qkvet_precision p = sequential_f32();
  p.value_sum = QKVET_SUM_ANY;
  p.splits = kMostParts;
  p.merge = QKVET_MERGE_LSE;
  return p;
}();

}  // namespace

extern constinit const qkvet_kernel kv_cache_split = family_cache(
    QKVET_FAMILY "/split", "keys in parts of 5, merged by log-sum-exp",
    {"impl/kv_cache/split.cpp", __LINE__},
    &kCacheTable<SplitCache, kCacheOptions | kCacheScores>, &kPrecision);

}  // namespace qkvet::impl
