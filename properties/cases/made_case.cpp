// SPDX-License-Identifier: Apache-2.0
#include "properties/cases/made_case.h"

#include <algorithm>
#include <cstring>

#include "core/base/philox.h"
#include "core/capability/capability.h"
#include "core/capability/option_table.h"
#include "properties/conventions/domain.h"
#include "properties/judging/subject.h"
#include "properties/judging/visibility.h"

namespace qkvet::properties {
namespace {

// The call of the case as declarations and settings see it: as much data as it
// takes to have what is there, and no more.
KernelCall call_without_data(const Case& value, Operation operation,
                             Inputs& inputs) {
  Case bare = value;
  bare.q = bare.k = bare.v = Recipe{RecipeKind::kZero, 0};
  if (value.score_bias) bare.score_bias = Recipe{RecipeKind::kZero, 0};
  bare.set.clear();
  bare.file = 0;
  Shape& s = bare.shape;
  s.H = std::min<int64_t>(s.H, 1);
  s.Hkv = std::min<int64_t>(s.Hkv, 1);
  s.d = std::min<int64_t>(s.d, 2);  // a pair for a rotation
  s.dv = std::min<int64_t>(s.dv, 1);
  if (bare.layout == Layout::kPacked) s.dv = s.d;
  inputs = make_inputs(bare);
  KernelCall call = call_of(bare, inputs, operation);
  call.shape = value.shape;
  return call;
}

// What the calls of the case have, and nothing where nothing is computed: no
// row sees a key. Empty if the kernel is not asked, or some
// call is not as declared.
std::vector<SettingSet> settings_in(const Law& law, const Case& value,
                                    const KernelInfo& kernel) {
  const Plan plan = law.plan(value, kernel);
  const SubjectRow& subject = subject_row(law.domain.subject);
  if (!plan.unsupported.empty() || !plan.not_applicable.empty() ||
      (subject.unsettled != nullptr &&
       !subject.unsettled(value, kernel).empty()))
    return {};
  std::vector<SettingSet> out;
  for (const PlannedCall& planned : plan.calls) {
    if (planned.operation != Operation::kForward || planned.expects_refusal ||
        planned.only_between)
      continue;
    Inputs inputs;
    KernelCall call = call_without_data(planned.variant.value_or(value),
                                        planned.operation, inputs);
    call.want_lse = planned.want_lse;
    call.want_weights = planned.want_weights;
    call.want_dropout_mask = planned.want_dropout_mask;
    std::string why;
    if (!capability_allows(kernel, call, &why)) return {};
    const Case& asked = planned.variant ? *planned.variant : value;
    out.push_back(some_row_sees_a_key(asked) ? settings_of(value, call)
                                             : SettingSet{});
  }
  return out;
}

// Whether cases and plans see one and the same declaration.
bool same_declaration(const KernelInfo& a, const KernelInfo& b) {
  return a.orders_threads == b.orders_threads &&
         std::memcmp(&a.capabilities, &b.capabilities, sizeof a.capabilities) ==
             0 &&
         std::memcmp(&a.dialect, &b.dialect, sizeof a.dialect) == 0;
}

// Whether the law has left it the options that cases have by themselves.
bool keeps_options(const Case& value, const std::vector<size_t>& wanted) {
  const uint64_t has = options_of(value);
  return std::all_of(wanted.begin(), wanted.end(), [has](size_t one) {
    const uint64_t option = setting_rows()[one].option & kAllCaseOptions;
    return option == 0 || (has & option) != 0;
  });
}

}  // namespace

bool CaseBudget::takes(const Case& value) {
  const int64_t cost = cost_of(value);
  const bool has_room = cost_ + cost <= most_cost_;
  if (has_room)
    cost_ += cost;
  else
    ++too_dear_;
  return has_room;
}

SettingSet set_of(const std::vector<size_t>& settings) {
  SettingSet out;
  for (const size_t one : settings) out[one] = true;
  return out;
}

bool holds(const std::vector<SettingSet>& calls, const SettingSet& wanted) {
  return std::any_of(calls.begin(), calls.end(), [&](const SettingSet& call) {
    return (call & wanted) == wanted;
  });
}

size_t options_in(const std::vector<size_t>& settings) {
  return static_cast<size_t>(
      std::count_if(settings.begin(), settings.end(), [](size_t one) {
        return setting_rows()[one].kind == SettingKind::kOption;
      }));
}

bool lets_have(const Law& law, const std::vector<size_t>& wanted) {
  const uint64_t lets = allowed_in(law.domain) | about_in(law.domain);
  return std::all_of(wanted.begin(), wanted.end(), [lets](size_t one) {
    const SettingRow& row = setting_rows()[one];
    return row.kind != SettingKind::kOption ||
           (row.option & kAllCaseOptions & ~lets) == 0;
  });
}

std::optional<MadeCase> make_case(const PairPlan& plan, uint32_t stream,
                                  const Law& law,
                                  const std::vector<size_t>& wanted,
                                  uint32_t number) {
  uint32_t next = 0;
  uint32_t id = number;
  for (const size_t one : wanted) id = id * 131 + number_in_draws(one) + 1;
  Draw draw([&] { return philox_u64(plan.seed, stream, id, next++); });
  std::optional<Case> value = draw_with(draw, law, plan.scope, wanted);
  if (!value || is_too_much_work(value->shape) ||
      !keeps_pins(plan.scope, *value) || !keeps_options(*value, wanted) ||
      !invalid_reason(*value).empty())
    return std::nullopt;
  MadeCase made{{&law, *value, {}}, {}};
  for (const KernelInfo* kernel : plan.kernels) {
    made.has.push_back(settings_in(law, *value, *kernel));
    made.one.kernels.push_back(!made.has.back().empty());
  }
  return made;
}

std::vector<size_t> kinds_of(const std::vector<const KernelInfo*>& kernels,
                             std::vector<const KernelInfo*>& firsts) {
  std::vector<size_t> kind_of;
  for (const KernelInfo* kernel : kernels) {
    const auto at = std::find_if(firsts.begin(), firsts.end(),
                                 [kernel](const KernelInfo* one) {
                                   return same_declaration(*one, *kernel);
                                 });
    kind_of.push_back(static_cast<size_t>(at - firsts.begin()));
    if (at == firsts.end()) firsts.push_back(kernel);
  }
  return kind_of;
}

std::vector<PairCase> for_all(const std::vector<PairCase>& of_kinds,
                              const std::vector<size_t>& kind_of) {
  std::vector<PairCase> out;
  for (const PairCase& one : of_kinds) {
    out.push_back({one.law, one.value, {}});
    for (const size_t kind : kind_of)
      out.back().kernels.push_back(one.kernels[kind]);
  }
  return out;
}

bool is_asked(const Law& law, const Case& value, const KernelInfo& kernel) {
  return !settings_in(law, value, kernel).empty();
}

}  // namespace qkvet::properties
