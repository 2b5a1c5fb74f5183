// SPDX-License-Identifier: Apache-2.0
// The situation that a condition (condition.h) is evaluated in: a case as it
// is, and every call that a law makes of it. A call may be another case:
// shorter, with a mask of its own, on more threads, from another story.
#ifndef QKVET_PROPERTIES_CONDITIONS_SITUATION_H_
#define QKVET_PROPERTIES_CONDITIONS_SITUATION_H_

#include <array>
#include <optional>
#include <vector>

#include "properties/judging/field_facts.h"
#include "properties/judging/law.h"
#include "properties/judging/visibility.h"
#include "properties/sequences/pages_of_story.h"

namespace qkvet::properties {

// One command to a cache, and the number of tokens of its sequence before and
// after it.
struct CommandAt {
  Snapshot snapshot;
  int64_t before = 0;
  int64_t held = 0;
  // How many of its earlier tokens, from the beginning, another sequence also
  // has: those of a fork.
  int64_t shared = 0;
  // Since it was last empty, how many commands have changed a sequence that
  // shared some of its tokens then.
  int64_t disturbed = 0;
  // Whether its queries would meet other tokens if a cache in pages of 4
  // omitted this precaution.
  std::array<bool, kPageCares> needs_care{};
  PagesOfStory::Taken pages;  // that such a cache takes for it
};

class Situation {
 public:
  // The case itself; of a story, its commands.
  explicit Situation(const Case& value);
  // One call of the plan. `value` and `call` must outlive this.
  Situation(const Case& value, const PlannedCall& call);
  // The calls of a plan to a cache, all of them in order.
  Situation(const Case& value, const std::vector<PlannedCall>& calls);

  const Case& value() const { return value_; }
  const std::vector<CommandAt>& commands() const { return commands_; }
  int threads() const { return threads_; }
  bool wants_lse() const { return lse_; }
  Mistake mistake() const { return mistake_; }
  // For attention. Made on first use.
  const Visibility& visibility() const;
  // For attention, the largest score of a row, as the oracle has it after cap,
  // bias and rotation; -infinity for a row that sees no key. Likewise.
  double largest_score(int64_t b, int64_t h, int64_t i) const;
  // Whether these are scores of normal data with the default scale, and small.
  bool has_plain_scores() const;
  // The effect of masks in a few numbers on a row; likewise.
  FieldFacts facts_of(int64_t b, int64_t i) const;

 private:
  bool has_edit() const;
  Inputs edited_inputs() const;
  std::vector<double> largest_scores() const;

  Case value_;
  const Case* own_ = nullptr;  // the inputs for the call's edit
  const PlannedCall* call_ = nullptr;
  std::vector<CommandAt> commands_;
  int threads_ = 1;
  bool lse_ = false;
  Mistake mistake_ = Mistake::kNone;
  mutable std::optional<Visibility> visibility_;
  mutable std::optional<std::vector<double>> scores_;     // [B,H,Tq]
  mutable std::optional<std::vector<FieldFacts>> facts_;  // [B,Tq] or empty
};

// The case and the calls that the law makes of it on this kernel; empty if the
// law does not apply to the case. Both must outlive the result.
std::vector<Situation> situations_of(const Case& value, const Plan& plan);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CONDITIONS_SITUATION_H_
