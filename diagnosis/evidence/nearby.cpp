// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/evidence/nearby.h"

#include <algorithm>

#include "core/base/philox.h"
#include "properties/cases/generate.h"
#include "properties/conventions/domain.h"
#include "properties/run/runner.h"

namespace qkvet::diagnosis {
namespace {

constexpr uint64_t kSeed = 0x5155;  // any: the same for every diagnosis

class Dice {
 public:
  explicit Dice(int n) : n_(static_cast<uint32_t>(n)) {}
  int64_t below(int64_t end) {
    return static_cast<int64_t>(philox_u64(kSeed, n_, at_++, 0) %
                                static_cast<uint64_t>(end));
  }
  bool heads() { return below(2) == 0; }

 private:
  uint32_t n_, at_ = 0;
};

// Lengths, members and pages belong to their extents.
bool has_fixed_extents(const Case& value) {
  return !value.q_len.empty() || !value.kv_len.empty() || !value.cu_q.empty() ||
         value.paging.size > 0 || value.append > 0;
}

int64_t other_extent(Dice& dice, int64_t extent) {
  constexpr int64_t kOthers[] = {2, 3, 4, 5, 7, 8, 9, 13};
  const int64_t grown = extent + dice.below(4);
  return dice.heads()
             ? grown
             : kOthers[static_cast<size_t>(dice.below(std::size(kOthers)))];
}

void draw_data(Dice& dice, const Domain& domain, Case& value) {
  if (!domain.free_data || dice.below(3) == 0) return;
  value.set.clear();
  value.q = value.k =
      make_recipe(dice.heads() ? RecipeKind::kNormal : RecipeKind::kLattice);
  if (value.shape.D > 0)
    value.x = value.w = value.bias = make_recipe(RecipeKind::kNormal);
  if (value.backward) value.d_o = make_recipe(RecipeKind::kNormal);
  if (domain.free_v) value.v = make_recipe(RecipeKind::kNormal);
  if (value.score_bias) value.score_bias = make_recipe(RecipeKind::kNormal);
}

void draw_extents(Dice& dice, Case& value) {
  Shape& s = value.shape;
  if (dice.below(3) == 0) s.B += 1;
  if (dice.below(3) == 0) s.H *= 2, s.Hkv *= dice.heads() ? 2 : 1;
  if (s.D > 0) {
    s.Tq = s.Tk = other_extent(dice, s.Tk);
    return;
  }
  if (dice.heads()) s.Tq = other_extent(dice, s.Tq);
  if (dice.heads()) s.Tk = other_extent(dice, s.Tk);
  if (dice.below(3) == 0) s.d = s.dv = s.d * 2;
  // The number of parts, and their kind, determine their distance.
  if (value.layout == Layout::kFar && dice.heads()) {
    s.B = 1 + dice.below(4);
    if (dice.heads()) s.H = 2 * s.group(), s.Hkv = 2;
  }
}

}  // namespace

Case nearby_case(const Law& law, const Case& value, int n) {
  Dice dice(n);
  Case near = value;
  near.seed = value.seed + static_cast<uint64_t>(n);
  draw_data(dice, law.domain, near);
  const bool story = value.subject() == Subject::kCache;
  if (!story && !has_fixed_extents(value)) draw_extents(dice, near);
  near = constrained(law, near);
  return invalid_reason(near).empty() ? near : value;
}

Case simplest_nearby(const Law& law, const Case& value, int n) {
  Case near = value;
  near.set.clear();
  const bool story = value.subject() == Subject::kCache;
  if (story || has_fixed_extents(value)) return value;
  near.shape.Tq = near.shape.Tk = 1;
  if (n > 0 && near.shape.D == 0) near.shape.d = near.shape.dv = 1;
  near = constrained(law, near);
  return invalid_reason(near).empty() ? near : value;
}

Case planned_nearby(const Law& law, const Case& value,
                    const JudgedKernel& kernel, int n) {
  Scope scope;
  keep_scope_to({KernelUnderTest{kernel}}, scope);
  scope.options &= ~kAllCaseOptions | options_of(value);
  const Shape& s = value.shape;
  const int64_t largest = std::max({s.Tq, s.Tk, s.d, s.dv});
  scope.largest = largest <= 24   ? SizeClass::kSmall
                  : largest <= 80 ? SizeClass::kMedium
                                  : SizeClass::kLarge;
  scope.dtypes = {storage_of(value)};
  return planned_case(law, kSeed, n, scope);
}

}  // namespace qkvet::diagnosis
