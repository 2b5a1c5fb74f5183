// SPDX-License-Identifier: Apache-2.0
// Correct merges with other arithmetic.
#include <cmath>
#include <numbers>

#include "impl/controls/control.h"
#include "impl/skeletons/merge_skeleton.h"

namespace qkvet::impl {
namespace {

// The generic model, declared: roundings in other places than in PlainMerge
// stay within it.
constexpr qkvet_precision kGenericMerge = [] {
  qkvet_precision p = {};
  p.struct_size = sizeof(p);
  p.declared = QKVET_KNOB_TILE;
  p.tile = 16;
  return p;
}();
template <class Merge>
constexpr qkvet_kernel kGeneric = merge_kernel("", "", {}, &kMergeTable<Merge>,
                                               &kGenericMerge);

// Every lse counts in base 2, as FlashInfer returns it.
struct Base2Merge : PlainMerge {
  static float weight(float lse, float max) { return std::exp2(lse - max); }
  static float merged_lse(float max, float sum, int64_t) {
    return max + std::log2(sum);
  }
};
constexpr qkvet_dialect kBase2Dialect = [] {
  qkvet_dialect d = common_dialect();
  d.lse_base = QKVET_LSE_BASE2;
  return d;
}();

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

// lse only in the layout [n, H, T].
constexpr qkvet_merge_table kHeadsFirst =
    kMergeTable<PlainMerge, QKVET_MERGE_RAGGED | QKVET_MERGE_IN_PLACE |
                                QKVET_MERGE_ROW_MASK |
                                QKVET_MERGE_LSE_HEADS_FIRST |
                                QKVET_MERGE_LSE_HEADS_FIRST_ONLY>;

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

}  // namespace

QKVET_CONTROL(merge_base2, "every lse counts in base 2", kGeneric<Base2Merge>,
              &qkvet_kernel::dialect, &kBase2Dialect);
QKVET_CONTROL(merge_powers_of_two, "a natural lse by powers of two",
              kGeneric<PowersOfTwoMerge>);
QKVET_CONTROL(merge_lse_heads_first, "every lse has its heads first",
              merge_kernel("", "", {}, &kHeadsFirst));
QKVET_CONTROL(merge_by_merged_lse, "weights against the merged lse",
              kGeneric<WeightsOfTheMergedLse>);

}  // namespace qkvet::impl
