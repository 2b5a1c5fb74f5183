// SPDX-License-Identifier: Apache-2.0
#include "properties/cases/data_cases.h"

#include <algorithm>
#include <cstring>

#include "core/base/philox.h"
#include "properties/cases/draw.h"
#include "properties/conventions/domain.h"
#include "properties/judging/subject.h"

namespace qkvet::properties {
namespace {

constexpr int64_t kKeysOfData = 9, kWidthOfData = 8;

std::optional<Case> draw_with_data(Draw& draw, const Law& law,
                                   const Scope& scope, const DataPreset& preset,
                                   bool one_row) {
  Case value;
  value.backward = true;
  draw_dtype(draw, scope, value);
  Shape& s = value.shape;
  draw_heads(draw, SizeClass::kSmall, s);
  s.Tk = draw.range(2, kKeysOfData);
  s.Tq = one_row ? 1 : draw.range(2, kKeysOfData);
  s.d = draw.range(1, kWidthOfData);
  s.dv = draw.chance(70) ? s.d : draw.range(1, kWidthOfData);
  keep_to_declared(scope, value);
  apply_pins(scope, value);
  draw_data_of(draw, preset, value);
  value.d_o =
      make_recipe(draw.chance(50) ? RecipeKind::kNormal : RecipeKind::kLattice);
  auto made = declared_case(law, scope, constrained(law, std::move(value)));
  if (!made || !keeps_pins(scope, *made) || !invalid_reason(*made).empty())
    return std::nullopt;
  return made;
}

bool is_asked_for(const Law& law, const Case& value, const KernelInfo& kernel) {
  const Plan plan = law.plan(value, kernel);
  return plan.unsupported.empty() && plan.not_applicable.empty();
}

}  // namespace

std::vector<PairCase> data_cases(const PairPlan& plan) {
  std::vector<PairCase> cases;
  const auto law =
      std::find_if(plan.laws.begin(), plan.laws.end(), [](const Law* one) {
        const char* const agreement =
            subject_row(one->domain.subject).agreement;
        return agreement != nullptr && std::strcmp(one->id, agreement) == 0;
      });
  if (law == plan.laws.end()) return cases;
  constexpr uint32_t kStream = 0x64617461;  // separate from plans
  uint32_t number = 0;
  for (const bool one_row : {true, false})
    for (const DataPreset& preset : data_presets()) {
      uint32_t next = 0;
      Draw draw([&] { return philox_u64(plan.seed, kStream, number, next++); });
      ++number;
      const auto value =
          draw_with_data(draw, **law, plan.scope, preset, one_row);
      if (!value || std::ssize(cases) >= plan.most_cases) continue;
      PairCase one{*law, *value, {}};
      for (const KernelInfo* kernel : plan.kernels)
        one.kernels.push_back(is_asked_for(**law, *value, *kernel));
      if (std::count(one.kernels.begin(), one.kernels.end(), true) > 0)
        cases.push_back(std::move(one));
    }
  return cases;
}

}  // namespace qkvet::properties
