// SPDX-License-Identifier: Apache-2.0
// The source of a wrong answer of a cache: the tokens that reach it and should
// not, and whether storage or attention is wrong. Each is found by running the
// story again on the kernel, with other data.
#ifndef QKVET_PROPERTIES_SEQUENCES_STORY_FAULT_H_
#define QKVET_PROPERTIES_SEQUENCES_STORY_FAULT_H_

#include <string>
#include <vector>

#include "core/door/executor.h"
#include "properties/judging/judged_kernel.h"
#include "properties/judging/law.h"

namespace qkvet::properties {

// Tokens outside of a sequence's history that change the bits of its answer
// with their keys and values.
struct Reach {
  // Used instead of a sequence for a call over given pages, in which `into` is
  // a member: unowned slots, or tokens of other members.
  static constexpr int64_t kUnowned = -1, kMembers = -2;

  bool stale = false;  // they were the sequence's own, and are now unowned
  int64_t of = 0;      // the owner of the tokens
  int64_t into = 0;    // the sequence that they reach
  std::vector<std::string> tokens;  // "b1"; empty if none can be named alone
  bool more = false;                // and others
  // Nobody holds them: "taken back", "reset", "refused", "dropped by a fork".
  std::string lost;
  bool moved = false;   // `of` holds them by a fork or a reorder
  bool if_nan = false;  // no bit changes with finite data
};
// "LEAK: a token of sequence b reaches sequence a: b1"
// "STALE: token a2, which was taken back, reaches sequence a"
// "LEAK: the content of unowned slots reaches member 1"
std::string reach_text(const Reach& reach);

struct StoryFault {
  std::vector<Reach> reaches;
  std::string whose;  // sentences; "" if undecided
};

// Whether the call returns attention, or what the cache holds.
bool is_answer(const PlannedCall& call);

// The fault of the answer of plan[at], a call of a law's plan for `value`.
// Empty if the kernel does not give the same bits every time.
StoryFault fault_at(const Case& value, const std::vector<PlannedCall>& plan,
                    size_t at, const JudgedKernel& kernel, int index,
                    Executor& executor, TimeUse& time);

// Its parts; for a story that is steady.
class StoryRun;
// Whether the story gives the same bits every time; also false if it does not
// finish.
bool is_steady(const StoryRun& story);
std::vector<Reach> find_reaches(const StoryRun& story);
// Whether the storage of a cache is wrong, or the attention over it, or both:
// sentences; "" if both are right, or undecided.
std::string whose_fault(const StoryRun& story);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_SEQUENCES_STORY_FAULT_H_
