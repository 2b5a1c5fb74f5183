// SPDX-License-Identifier: Apache-2.0
#include "properties/cases/covering_cases.h"

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

// The most settings of a case; more options than these hide one another.
constexpr size_t kMostSettingsOfCase = 9;
constexpr size_t kMostOptionsOfCase = 4;
// The most declarations that are examined in one run.
constexpr size_t kMostKinds = 12;
// The search stops after this many were left out as too expensive.
constexpr int kMostTooDear = 16;

constexpr size_t choose(size_t n, size_t k) {
  return k == 0 ? 1 : n < k ? 0 : choose(n - 1, k - 1) * n / k;
}

// Calls seen(place) for every `count` of the first `end` of these, added to
// what `place` has already.
template <class Seen>
void for_combinations(const Combination& own, size_t count, size_t end,
                      size_t place, const Seen& seen) {
  if (count == 0) return seen(place);
  for (size_t n = count - 1; n < end; ++n)
    for_combinations(own, count - 1, n, place + choose(own[n], count), seen);
}

template <class Seen>
void for_combinations(const SettingSet& settings, size_t count,
                      const Seen& seen) {
  Combination own;
  for (size_t n = 0; n < kMostSettings; ++n)
    if (settings[n]) own.push_back(n);
  for_combinations(own, count, own.size(), 0, seen);
}

// The call of the case as declarations and settings see it: with only enough
// data to show which tensors there are.
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
  bare.rope.channels = 0;
  if (bare.layout == Layout::kPacked) s.dv = s.d;
  inputs = make_inputs(bare);
  KernelCall call = call_of(bare, inputs, operation);
  call.shape = value.shape;
  call.rope_channels = rope_channels(value);
  return call;
}

// The settings of the calls of the case; none for a call in which no row sees a
// key. Empty if the kernel is not asked, or if some call is not declared.
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

SettingSet set_of(const Combination& settings) {
  SettingSet out;
  for (const size_t one : settings) out[one] = true;
  return out;
}

size_t options_in(const Combination& settings) {
  return static_cast<size_t>(
      std::count_if(settings.begin(), settings.end(), [](size_t one) {
        return setting_rows()[one].kind == SettingKind::kOption;
      }));
}

bool may_join(size_t setting, const Combination& others) {
  return std::all_of(others.begin(), others.end(), [setting](size_t one) {
    return may_meet_by_kind(setting, one);
  });
}

}  // namespace

size_t place_of(const Combination& settings) {
  size_t place = 0;
  for (size_t n = 0; n < settings.size(); ++n)
    place += choose(settings[n], n + 1);
  return place;
}

bool CoveringCases::lets_have(const Law& law, const Combination& wanted) {
  const uint64_t lets = allowed_in(law.domain) | about_in(law.domain);
  return std::all_of(wanted.begin(), wanted.end(), [lets](size_t one) {
    const SettingRow& row = setting_rows()[one];
    return row.kind != SettingKind::kOption ||
           (row.option & kAllCaseOptions & ~lets) == 0;
  });
}

std::optional<MadeCase> CoveringCases::make(const Law& law,
                                            const Combination& wanted,
                                            uint32_t number) {
  ++drawn;
  uint32_t next = 0;
  uint32_t id = number;
  for (const size_t one : wanted) id = id * 131 + number_in_draws(one) + 1;
  Draw draw([&] { return philox_u64(plan.seed, search.stream, id, next++); });
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

bool CoveringCases::is_missing(size_t place) const {
  return std::any_of(missing_.begin(), missing_.end(),
                     [place](const auto& one) { return one[place]; });
}

int64_t CoveringCases::missing_in(const SettingSet& settings) const {
  int64_t sum = 0;
  for_combinations(settings, search.together, [&](size_t place) {
    if (search.counts_kernels)
      for (const auto& of_kernel : missing_) sum += of_kernel[place];
    else
      sum += is_missing(place);
  });
  return sum;
}

// Combinations that are missing and that the case would meet.
int64_t CoveringCases::gain(const MadeCase& made) const {
  std::vector<std::pair<size_t, size_t>> met;  // by kernel
  for (size_t k = 0; k < made.has.size(); ++k)
    for (const SettingSet& call : made.has[k])
      for_combinations(call, search.together, [&](size_t place) {
        if (missing_[k][place]) met.emplace_back(k, place);
      });
  std::sort(met.begin(), met.end());
  return std::unique(met.begin(), met.end()) - met.begin();
}

// Whether a kernel that lacks the combination has all of `wanted` in one call.
bool CoveringCases::serves(const MadeCase& made, size_t place,
                           const Combination& wanted) const {
  const SettingSet all = set_of(wanted);
  for (size_t k = 0; k < made.has.size(); ++k)
    if (missing_[k][place] &&
        std::any_of(
            made.has[k].begin(), made.has[k].end(),
            [&all](const SettingSet& call) { return (call & all) == all; }))
      return true;
  return false;
}

// Settings with missing combinations with the wanted ones, those with the most
// first.
Combination CoveringCases::extensions(const Combination& wanted) const {
  const SettingSet all = set_of(wanted);
  const int64_t among_them = missing_in(all);
  std::vector<std::pair<int64_t, size_t>> out;
  for (size_t n = 0; n < setting_rows().size(); ++n) {
    if (!may_join(n, wanted)) continue;
    SettingSet wider = all;
    wider[n] = true;
    const int64_t lacks = missing_in(wider) - among_them;
    if (lacks > 0) out.emplace_back(-lacks, n);
  }
  std::sort(out.begin(), out.end());
  Combination settings;
  for (const auto& [lacks, n] : out) settings.push_back(n);
  return settings;
}

std::optional<MadeCase> CoveringCases::first_of(const Combination& wanted) {
  int tried = 0;
  for (const Law* law : laws) {
    if (!lets_have(*law, wanted)) continue;
    if (++tried > search.most_laws) break;
    for (uint32_t n = 0; n < search.tries; ++n)
      if (auto made = make(*law, wanted, n);
          made && serves(*made, place_of(wanted), wanted))
        return made;
  }
  return std::nullopt;
}

// A case of the combination and of further settings that lack theirs.
std::optional<MadeCase> CoveringCases::widest(Combination wanted) {
  const size_t place = place_of(wanted);
  std::optional<MadeCase> best = first_of(wanted);
  if (!best) return best;
  Combination further = extensions(wanted);
  int tries = 0;
  for (size_t at = 0;
       at < further.size() && wanted.size() < kMostSettingsOfCase &&
       tries < search.most_extensions;
       ++tries) {
    const size_t setting = further[at++];
    if (!may_join(setting, wanted)) continue;  // added earlier
    Combination wider = wanted;
    wider.push_back(setting);
    if (options_in(wider) > kMostOptionsOfCase) continue;
    auto made = make(*best->one.law, wider, 0);
    if (!made || !serves(*made, place, wider) || gain(*made) <= gain(*best))
      continue;
    best = std::move(made);
    wanted = std::move(wider);
    if (!search.extends_anew) continue;
    further = extensions(wanted);
    at = 0;
  }
  return best;
}

// Whether there is room for the case, which takes it then.
bool CoveringCases::takes(const Case& value) {
  const int64_t cost = cost_of(value);
  const bool has_room = cost_ + cost <= plan.most_cost;
  if (has_room)
    cost_ += cost;
  else
    ++too_dear_;
  return has_room;
}

std::vector<PairCase> CoveringCases::cover(
    const std::vector<Combination>& in_order,
    std::vector<std::vector<bool>> missing) {
  missing_ = std::move(missing);
  for (const Combination& one : in_order) {
    if (std::ssize(cases_) >= plan.most_cases || drawn >= most_draws ||
        too_dear_ >= kMostTooDear)
      break;
    if (!is_missing(place_of(one))) continue;
    std::optional<MadeCase> made = widest(one);
    if (!made || !takes(made->one.value)) continue;
    for (size_t k = 0; k < made->has.size(); ++k)
      for (const SettingSet& call : made->has[k])
        for_combinations(call, search.together,
                         [&](size_t place) { missing_[k][place] = false; });
    cases_.push_back(std::move(made->one));
  }
  return std::move(cases_);
}

std::optional<PairPlan> plan_of_kinds(const PairPlan& plan,
                                      std::vector<size_t>& kind_of) {
  PairPlan kinds{plan.laws, plan.seed,       plan.scope,    {},
                 {},        plan.most_cases, plan.most_cost};
  for (const KernelInfo* kernel : plan.kernels) {
    const auto at = std::find_if(kinds.kernels.begin(), kinds.kernels.end(),
                                 [kernel](const KernelInfo* one) {
                                   return same_declaration(*one, *kernel);
                                 });
    kind_of.push_back(static_cast<size_t>(at - kinds.kernels.begin()));
    if (at == kinds.kernels.end()) kinds.kernels.push_back(kernel);
  }
  return kinds.kernels.size() > kMostKinds ? std::nullopt
                                           : std::optional(kinds);
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
