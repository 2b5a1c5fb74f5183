// SPDX-License-Identifier: Apache-2.0
// A case that was drawn to have settings together, and what the calls of it
// really have: what cases for missing pairs and triples are made of.
#ifndef QKVET_PROPERTIES_CASES_MADE_CASE_H_
#define QKVET_PROPERTIES_CASES_MADE_CASE_H_

#include <optional>
#include <vector>

#include "properties/cases/pair_cases.h"

namespace qkvet::properties {

// Settings that a case is to hold, at most; more options than these hide one
// another.
inline constexpr size_t kMostSettingsOfCase = 9;
inline constexpr size_t kMostOptionsOfCase = 4;
// Declarations that are thought about in one run.
inline constexpr size_t kMostKinds = 12;

struct MadeCase {
  PairCase one;
  std::vector<std::vector<SettingSet>> has;  // [kernel][call]
};

// What added cases may cost together.
class CaseBudget {
 public:
  explicit CaseBudget(int64_t most_cost) : most_cost_(most_cost) {}
  // Whether there is room for the case, which takes it then.
  bool takes(const Case& value);
  // So many were left out for what they cost that no more are looked for.
  bool is_spent() const { return too_dear_ >= kMostTooDear; }

 private:
  static constexpr int kMostTooDear = 16;
  int64_t most_cost_;
  int64_t cost_ = 0;
  int too_dear_ = 0;
};

SettingSet set_of(const std::vector<size_t>& settings);
bool holds(const std::vector<SettingSet>& calls, const SettingSet& wanted);
size_t options_in(const std::vector<size_t>& settings);

// Whether the law lets a case have these.
bool lets_have(const Law& law, const std::vector<size_t>& wanted);

// One draw of many, by `number`; nothing where the case is none, or has lost an
// option to its law. `stream`: whose draws they are.
std::optional<MadeCase> make_case(const PairPlan& plan, uint32_t stream,
                                  const Law& law,
                                  const std::vector<size_t>& wanted,
                                  uint32_t number);

// Each kernel costs as much to think about: those of one declaration are one.
// The kind of each kernel, and the first kernel of each kind.
std::vector<size_t> kinds_of(const std::vector<const KernelInfo*>& kernels,
                             std::vector<const KernelInfo*>& firsts);
// Cases for kinds, as cases for the kernels of these.
std::vector<PairCase> for_all(const std::vector<PairCase>& of_kinds,
                              const std::vector<size_t>& kind_of);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CASES_MADE_CASE_H_
