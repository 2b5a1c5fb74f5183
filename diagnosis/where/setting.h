// SPDX-License-Identifier: Apache-2.0
// The space of cases in which a failure is searched: those of one law, with
// data of one kind, so that these are no reason for a pass.
#ifndef QKVET_DIAGNOSIS_WHERE_SETTING_H_
#define QKVET_DIAGNOSIS_WHERE_SETTING_H_

#include <string>
#include <vector>

#include "diagnosis/where/vocabulary.h"
#include "properties/cases/scope.h"
#include "properties/run/runner.h"

namespace qkvet::diagnosis {

class Setting {
 public:
  enum class Data : uint8_t {
    kNormal,  // everywhere
    kOfCase,  // the recipes of the failing case
    kOfPlan   // as the plan draws it
  };
  // `like` provides the most frequent storage types, and with kOfCase the data.
  Setting(const Law& law, Data data, Case like, const KernelUnderTest& kernel);

  const Law& law() const { return *law_; }
  Data data() const { return data_; }
  // The nearest case of this setting.
  Case dressed(Case value) const;
  // Whether the kernel declares it and it is cheap enough to run.
  bool allows(const Case& value) const;
  Case planned(uint64_t seed, int64_t number) const;
  // The approximate largest extent of planned cases; it grows, and never
  // shrinks.
  void make_room_for(int64_t extent);
  // The values of the terms: for the case, and for the calls that the law
  // makes.
  TermValues values(const Case& value) const;
  // The values of these terms alone; all others are 0.
  TermValues values_of(const std::vector<size_t>& terms,
                       const Case& value) const;
  uint64_t options() const { return scope_.options; }
  // "normal data", "q=large3, v=one"; "" for the plan's. If each case of the
  // law has an option: "v=one with a sink, which the law sets".
  std::string data_text() const;
  std::string text_of_data() const;  // the same without options

 private:
  std::string set_by_law() const;

  const Law* law_;
  Data data_;
  Case like_;
  KernelInfo kernel_;
  Scope scope_;
};

// Settings that may show a failure, and the case that should fail there: the
// plainest first, agreement on normal data, and the failure's own law on the
// plan's data last. Sometimes only a call of the law fails and the case passes:
// a mask instead of its causal rule.
struct FailingSetting {
  Setting setting;
  Case like;
};
std::vector<FailingSetting> settings_of(const Failure& failure,
                                        const KernelUnderTest& kernel);
// Agreement on the plan's data, which may have large scores, and cases that
// should fail there because of their scores.
std::vector<FailingSetting> settings_of_scores(const Failure& failure,
                                               const KernelUnderTest& kernel);

// Multiplications, estimated from extents.
int64_t work_of(const Case& value);

// Cases that differ from `value` in an extent, an option or the causal rule,
// one at a time, before dressed().
std::vector<Case> variations(const Case& value, const Setting& setting);
// Those that differ in an option or the causal rule.
std::vector<Case> variations_of_options(const Case& value,
                                        const Setting& setting);
// `value` with the extents of another.
Case with_extents_of(Case value, const Case& other);

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_WHERE_SETTING_H_
