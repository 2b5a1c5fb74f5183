// SPDX-License-Identifier: Apache-2.0
// Correct merges with other arithmetic.
#include <cmath>
#include <numbers>

#include "impl/controls/control.h"
#include "impl/skeletons/merge_skeleton.h"

namespace qkvet::impl {

// The generic model, declared: roundings in other places than in PlainMerge
// stay within it.
inline constexpr qkvet_precision kGenericMerge = [] {
  qkvet_precision p = {};
  p.struct_size = sizeof(p);
  p.declared = QKVET_KNOB_TILE;
  p.tile = 16;
  return p;
}();

// Every lse counts in base 2, as FlashInfer returns it.
struct Base2Merge : PlainMerge {
  static float weight(float lse, float max) { return std::exp2(lse - max); }
  static float merged_lse(float max, float sum, int64_t) {
    return max + std::log2(sum);
  }
};

inline constexpr qkvet_dialect kBase2Dialect = [] {
  qkvet_dialect d = common_dialect();
  d.lse_base = QKVET_LSE_BASE2;
  return d;
}();

QKVET_CONTROL(merge_base2) = merge_kernel("controls/merge_base2",
                                          "every lse counts in base 2",
                                          QKVET_PLACE, &kMergeTable<Base2Merge>,
                                          &kGenericMerge, &kBase2Dialect);

// A natural lse, and powers of two inside: the factor is rounded, and also
// every product with it.
struct PowersOfTwoMerge : PlainMerge {
  static constexpr float kLog2e = std::numbers::log2e_v<float>;
  static float weight(float lse, float max) {
    return std::exp2((lse - max) * kLog2e);
  }
  static float merged_lse(float max, float sum, int64_t) {
    return max + std::log2(sum) * std::numbers::ln2_v<float>;
  }
};

QKVET_CONTROL(merge_powers_of_two) = merge_kernel(
    "controls/merge_powers_of_two", "a natural lse by powers of two",
    QKVET_PLACE, &kMergeTable<PowersOfTwoMerge>, &kGenericMerge);

// lse only in the layout [n, H, T].
QKVET_CONTROL(merge_lse_heads_first) = merge_kernel(
    "controls/merge_lse_heads_first", "every lse has its heads first",
    QKVET_PLACE,
    &kMergeTable<PlainMerge, QKVET_MERGE_RAGGED | QKVET_MERGE_IN_PLACE |
                                 QKVET_MERGE_ROW_MASK |
                                 QKVET_MERGE_LSE_HEADS_FIRST |
                                 QKVET_MERGE_LSE_HEADS_FIRST_ONLY>);

// Weights are exp(lse_i - lse) of the merged lse, as in papers: there is no
// division.
struct WeightsOfTheMergedLse : PlainMerge {
  static float merged(const float* lse, int64_t count) {
    const float max = PlainMerge::maximum(lse, count);
    float sum = 0;
    for (int64_t n = 0; n < count; ++n) {
      sum += std::exp(lse[n] - max);
    }
    return max == kNone ? kNone : max + std::log(sum);
  }
  static float maximum(const float* lse, int64_t count) {
    return merged(lse, count);
  }
};

QKVET_CONTROL(merge_by_merged_lse) = merge_kernel(
    "controls/merge_by_merged_lse", "weights against the merged lse",
    QKVET_PLACE, &kMergeTable<WeightsOfTheMergedLse>, &kGenericMerge);

}  // namespace qkvet::impl
