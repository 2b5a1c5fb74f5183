// SPDX-License-Identifier: Apache-2.0
// The cases that are run in the search for a sentence, under one law and on one
// kind of data: their verdicts, and whether calls, work and time are left for
// more.
#ifndef QKVET_DIAGNOSIS_WHERE_ASKED_CASES_H_
#define QKVET_DIAGNOSIS_WHERE_ASKED_CASES_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "diagnosis/evidence/evidence.h"
#include "diagnosis/where/fails_where.h"
#include "diagnosis/where/setting.h"

namespace qkvet::diagnosis {

// Fresh cases against which a sentence is checked; some of them are not taken.
inline constexpr int kFreshCases = 50;

class AskedCases {
 public:
  // All must outlive this.
  explicit AskedCases(const EvidencePool& pool);

  struct Asked {
    Case value;
    std::string text;
  };

  // The setting of all further cases; earlier verdicts stay.
  void set_setting(const Setting& setting) { setting_ = setting; }
  Setting& setting() { return *setting_; }
  const Setting& setting() const { return *setting_; }

  // The case's verdict; nullopt if there is none.
  std::optional<bool> ask(const Case& value);
  bool is_asked(const Case& value) const {
    return verdicts_.count(to_string(value)) > 0;
  }
  // Whether only an earlier story makes this case fail, although `failing`
  // fails by itself.
  bool fails_by_damage(const Case& value, const Case& failing);
  // From now on each story has its own process; earlier cases are run again
  // that way, and then this one.
  std::optional<bool> ask_again_alone(const Case& value);
  bool is_each_alone() const { return is_each_alone_; }

  // Drops all verdicts.
  void forget();
  // Also drops those of sentences; at most so many cases follow.
  void begin_anew(int most_cases);
  // Allows so many more cases.
  void allow_more(int cases) { most_cases_ += cases; }

  const std::vector<Asked>& asked() const { return asked_; }
  // Verdicts in the same order.
  const std::vector<Sample>& samples() const { return samples_; }
  std::vector<Case> failing() const;
  // Verdicts by formula: a sentence that is found again keeps all its fresh
  // verdicts.
  FreshVerdicts& verdicts_of(const std::string& formula) {
    return verdicts_of_[formula];
  }

  bool has_stopped() const { return stopped_; }  // because a call hung
  bool is_over() const;
  // Whether enough is left for fresh cases after one more case.
  bool has_room() const;
  double share_of_work() const;
  double share_of_time() const { return witness_.share_of_time(); }
  int calls_made() const { return witness_.calls_made(); }

 private:
  bool is_left_for_fresh(double used, double most) const;
  std::unique_ptr<Evidence> answer_to(const Case& value, bool new_process);
  bool may_leave_damage(const Evidence& evidence) const;

  Witness witness_;
  std::optional<Setting> setting_;
  std::map<std::string, std::optional<bool>> verdicts_;
  std::vector<Asked> asked_;
  std::vector<Sample> samples_;
  std::map<std::string, FreshVerdicts> verdicts_of_;
  int64_t work_ = 0;
  bool stopped_ = false;
  int most_cases_ = kMostWhereCases;
  bool is_each_alone_ = false;  // in a process of its own
};

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_WHERE_ASKED_CASES_H_
