// SPDX-License-Identifier: Apache-2.0
#include "properties/cases/pair_cases.h"

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

// Draws for one pair under the law that is asked first, and under each other.
constexpr uint32_t kFirstTries = 8;
constexpr uint32_t kTries = 2;
// Further settings that a case is to hold beside its pair, at most; more
// options than these hide one another.
constexpr size_t kMostSettingsOfCase = 9;
constexpr size_t kMostOptionsOfCase = 4;
constexpr int kMostExtensions = 16;
// The dear cases that are left out until no further ones are looked for.
constexpr int kMostTooDear = 16;
// Declarations that are thought about in one run.
constexpr size_t kMostKinds = 12;

using Pair = std::pair<size_t, size_t>;

// A case, and what each kernel's calls of it have.
struct Made {
  PairCase one;
  std::vector<std::vector<SettingSet>> has;  // [kernel][call]
};

bool holds(const std::vector<SettingSet>& calls, const SettingSet& wanted) {
  return std::any_of(calls.begin(), calls.end(), [&](const SettingSet& call) {
    return (call & wanted) == wanted;
  });
}

SettingSet set_of(const std::vector<size_t>& settings) {
  SettingSet out;
  for (const size_t one : settings) out[one] = true;
  return out;
}

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

class Builder {
 public:
  explicit Builder(const PairPlan& plan)
      : plan_(plan),
        laws_(plan.laws.rbegin(), plan.laws.rend()),  // the general one first
        missing_(plan.kernels.size()) {
    found_.can = plan.met;  // at the least
  }

  PairCases run() {
    list_settings();
    for (const Pair& pair : pairs_) find(pair);
    for (size_t k = 0; k < missing_.size(); ++k)
      for (const auto& [a, b] : pairs_)
        missing_[k][a][b] = missing_[k][b][a] =
            found_.can[k][a][b] && !plan_.met[k][a][b];
    // Pairs that another's case has shown to be possible have no case yet.
    const bool knows_all = drawn_ < most_draws() / 2;
    for (const Pair& pair : pairs_) {
      if (std::ssize(found_.cases) >= plan_.most_cases ||
          drawn_ >= most_draws() || too_dear_ >= kMostTooDear)
        break;
      if (is_missing(pair)) add_case(pair);
    }
    if (!knows_all) found_.can.clear();
    return std::move(found_);
  }

 private:
  // Thinking takes time as well: so many drawn cases for each that may be
  // added, half of them to see what is possible.
  int64_t most_draws() const {
    constexpr int64_t kDrawsOfCase = 40;
    return kDrawsOfCase * plan_.most_cases;
  }

  bool declares(size_t kernel, size_t setting) const {
    const SettingRow& row = setting_rows()[setting];
    return row.kind != SettingKind::kOption ||
           plan_.kernels[kernel]->has_option(row.option);
  }

  // Two options first.
  void list_settings() {
    const std::vector<SettingRow>& rows = setting_rows();
    std::vector<size_t> settings;
    for (size_t n = 0; n < rows.size(); ++n) {
      if (!may_have(plan_.scope, rows[n])) continue;
      find({n, n});
      if (is_had(n)) settings.push_back(n);
    }
    for (size_t a = 0; a < settings.size(); ++a)
      for (size_t b = a + 1; b < settings.size(); ++b)
        if (may_meet_by_kind(settings[a], settings[b]))
          pairs_.emplace_back(settings[a], settings[b]);
    const auto kinds = [&rows](const Pair& pair) {
      return (rows[pair.first].kind != SettingKind::kOption) +
             (rows[pair.second].kind != SettingKind::kOption);
    };
    std::stable_sort(pairs_.begin(), pairs_.end(),
                     [&](const Pair& one, const Pair& two) {
                       return kinds(one) < kinds(two);
                     });
  }

  bool is_had(size_t setting) const {
    return std::any_of(
        found_.can.begin(), found_.can.end(),
        [setting](const PairTable& can) { return can[setting][setting]; });
  }

  // Whether some kernel may meet it and nobody knows how.
  bool is_open(const Pair& pair) const {
    const auto [a, b] = pair;
    for (size_t k = 0; k < plan_.kernels.size(); ++k) {
      const PairTable& can = found_.can[k];
      const bool apart_alone = a != b && (!can[a][a] || !can[b][b]);
      if (!can[a][b] && declares(k, a) && declares(k, b) && !apart_alone)
        return true;
    }
    return false;
  }

  bool is_missing(const Pair& pair) const {
    return std::any_of(missing_.begin(), missing_.end(),
                       [&pair](const PairTable& table) {
                         return table[pair.first][pair.second];
                       });
  }

  // Whether the law lets a case have both.
  static bool allows(const Law& law, const Pair& pair) {
    const uint32_t lets = allowed_in(law.domain) | about_in(law.domain);
    for (const size_t one : {pair.first, pair.second}) {
      const SettingRow& row = setting_rows()[one];
      if (row.kind == SettingKind::kOption &&
          (allowed_of(row.option) & ~lets) != 0)
        return false;
    }
    return true;
  }

  std::optional<Made> make(const Law& law, const std::vector<size_t>& wanted,
                           uint32_t number) {
    ++drawn_;
    uint32_t next = 0;
    uint32_t id = number;
    for (const size_t one : wanted)
      id = id * 131 + static_cast<uint32_t>(one) + 1;
    Draw draw([&] { return philox_u64(plan_.seed, kStream, id, next++); });
    std::optional<Case> value = draw_with(draw, law, plan_.scope, wanted);
    if (!value || !keeps_pins(plan_.scope, *value) ||
        !keeps_options(*value, wanted) || !invalid_reason(*value).empty())
      return std::nullopt;
    Made made{{&law, *value, {}}, {}};
    for (const KernelInfo* kernel : plan_.kernels) {
      made.has.push_back(settings_in(law, *value, *kernel));
      made.one.kernels.push_back(!made.has.back().empty());
    }
    return made;
  }

  // Whether the law has left it the options that cases have by themselves.
  static bool keeps_options(const Case& value,
                            const std::vector<size_t>& wanted) {
    const uint32_t has = options_of(value);
    return std::all_of(wanted.begin(), wanted.end(), [has](size_t one) {
      const uint32_t bits = allowed_of(setting_rows()[one].option);
      return bits == 0 || (has & bits) != 0;
    });
  }

  // Every pair that its calls have can be met.
  void note(const Made& made) {
    for (size_t k = 0; k < made.has.size(); ++k)
      for (const SettingSet& call : made.has[k])
        for (size_t n = 0; n < setting_rows().size(); ++n)
          if (call[n]) found_.can[k][n] |= call;
  }

  // Looks for cases until every kernel that may have the pair has one. Of a
  // setting and itself: for cases that have it.
  void find(const Pair& pair) {
    const std::vector<size_t> wanted =
        pair.first == pair.second ? std::vector{pair.first}
                                  : std::vector{pair.first, pair.second};
    bool first = true;
    for (const Law* law : laws_) {
      if (!is_open(pair)) return;
      if (!allows(*law, pair)) continue;
      const uint32_t tries = first ? kFirstTries : kTries;
      first = false;
      for (uint32_t n = 0;
           n < tries && drawn_ < most_draws() / 2 && is_open(pair); ++n)
        if (const auto made = make(*law, wanted, n)) note(*made);
    }
  }

  // Pairs that are missing and that the case would meet.
  int64_t gain(const Made& made) const {
    int64_t sum = 0;
    for (size_t k = 0; k < made.has.size(); ++k) {
      PairTable had{};
      for (const SettingSet& call : made.has[k])
        for (size_t n = 0; n < setting_rows().size(); ++n)
          if (call[n]) had[n] |= call;
      for (size_t n = 0; n < setting_rows().size(); ++n)
        sum += static_cast<int64_t>((had[n] & missing_[k][n]).count());
    }
    return sum;
  }

  // Whether a kernel that lacks the pair has all of these in one call.
  bool serves(const Made& made, const Pair& pair,
              const std::vector<size_t>& wanted) const {
    const SettingSet all = set_of(wanted);
    for (size_t k = 0; k < made.has.size(); ++k)
      if (missing_[k][pair.first][pair.second] && holds(made.has[k], all))
        return true;
    return false;
  }

  // The settings that miss most of those that are wanted, the first ones first.
  std::vector<size_t> extensions(const std::vector<size_t>& wanted) const {
    const std::vector<SettingRow>& rows = setting_rows();
    const SettingSet all = set_of(wanted);
    std::vector<std::pair<int64_t, size_t>> out;
    for (size_t n = 0; n < rows.size(); ++n) {
      if (std::any_of(wanted.begin(), wanted.end(),
                      [n](size_t one) { return !may_meet_by_kind(n, one); }))
        continue;
      int64_t lacks = 0;
      for (const PairTable& table : missing_)
        lacks += static_cast<int64_t>((table[n] & all).count());
      if (lacks > 0) out.emplace_back(-lacks, n);
    }
    std::sort(out.begin(), out.end());
    std::vector<size_t> settings;
    for (const auto& [lacks, n] : out) settings.push_back(n);
    return settings;
  }

  // A case of the pair and of further settings that miss theirs.
  std::optional<Made> widest(const Pair& pair) {
    std::vector<size_t> wanted = {pair.first, pair.second};
    std::optional<Made> best;
    for (const Law* law : laws_) {
      if (!allows(*law, pair)) continue;
      for (uint32_t n = 0; n < kFirstTries && !best; ++n)
        if (auto made = make(*law, wanted, n);
            made && serves(*made, pair, wanted))
          best = std::move(made);
      if (best) break;
    }
    if (!best) return best;
    int tries = 0;
    for (bool more = true; more && wanted.size() < kMostSettingsOfCase;) {
      more = false;
      for (const size_t setting : extensions(wanted)) {
        if (++tries > kMostExtensions) break;
        const SettingRow& row = setting_rows()[setting];
        if (row.kind == SettingKind::kOption &&
            options_in(wanted) >= kMostOptionsOfCase)
          continue;
        std::vector<size_t> wider = wanted;
        wider.push_back(setting);
        auto made = make(*best->one.law, wider, 0);
        if (!made || !serves(*made, pair, wider) || gain(*made) <= gain(*best))
          continue;
        best = std::move(made);
        wanted = std::move(wider);
        more = true;
        break;
      }
    }
    return best;
  }

  static size_t options_in(const std::vector<size_t>& settings) {
    return static_cast<size_t>(
        std::count_if(settings.begin(), settings.end(), [](size_t one) {
          return setting_rows()[one].kind == SettingKind::kOption;
        }));
  }

  void add_case(const Pair& pair) {
    std::optional<Made> made = widest(pair);
    if (!made) return;
    const int64_t cost = cost_of(made->one.value);
    if (cost_ + cost > plan_.most_cost) {
      ++too_dear_;
      return;
    }
    cost_ += cost;
    for (size_t k = 0; k < made->has.size(); ++k)
      for (const SettingSet& call : made->has[k])
        for (size_t n = 0; n < setting_rows().size(); ++n)
          if (call[n]) missing_[k][n] &= ~call;
    found_.cases.push_back(std::move(made->one));
  }

  static constexpr uint32_t kStream = 0x70616972;  // apart from plans

  const PairPlan& plan_;
  std::vector<const Law*> laws_;
  std::vector<Pair> pairs_;
  std::vector<PairTable> missing_;
  PairCases found_;
  int64_t cost_ = 0;
  int64_t drawn_ = 0;
  int too_dear_ = 0;  // cases that were left out for what they cost
};

}  // namespace

bool is_asked(const Law& law, const Case& value, const KernelInfo& kernel) {
  return !settings_in(law, value, kernel).empty();
}

int64_t cost_of(const Case& value) {
  constexpr int64_t kBeside = int64_t{1} << 15;
  return kBeside + work_of(value.shape);
}

PairCases cases_for_pairs(const PairPlan& plan) {
  // Each kernel costs as much to think about: those of one declaration are
  // one, which lacks what any of them does.
  PairPlan kinds{plan.laws, plan.seed,       plan.scope,    {},
                 {},        plan.most_cases, plan.most_cost};
  std::vector<size_t> kind_of;  // of each kernel
  for (size_t k = 0; k < plan.kernels.size(); ++k) {
    const auto at = std::find_if(
        kinds.kernels.begin(), kinds.kernels.end(), [&](const KernelInfo* one) {
          return same_declaration(*one, *plan.kernels[k]);
        });
    kind_of.push_back(static_cast<size_t>(at - kinds.kernels.begin()));
    if (at == kinds.kernels.end()) {
      kinds.kernels.push_back(plan.kernels[k]);
      kinds.met.push_back(plan.met[k]);
      continue;
    }
    for (size_t n = 0; n < kMostSettings; ++n)
      kinds.met[kind_of[k]][n] &= plan.met[k][n];
  }
  if (kinds.kernels.size() > kMostKinds) return {};
  const PairCases of_kinds = Builder(kinds).run();
  PairCases out;
  for (const PairCase& one : of_kinds.cases) {
    out.cases.push_back({one.law, one.value, {}});
    for (const size_t kind : kind_of)
      out.cases.back().kernels.push_back(one.kernels[kind]);
  }
  for (size_t k = 0; k < kind_of.size(); ++k) {
    out.can.push_back(of_kinds.can[kind_of[k]]);
    for (size_t n = 0; n < kMostSettings; ++n) out.can[k][n] |= plan.met[k][n];
  }
  return out;
}

}  // namespace qkvet::properties
