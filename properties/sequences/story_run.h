// SPDX-License-Identifier: Apache-2.0
// A story on a kernel with data that an experiment chooses, token by token.
#ifndef QKVET_PROPERTIES_SEQUENCES_STORY_RUN_H_
#define QKVET_PROPERTIES_SEQUENCES_STORY_RUN_H_

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/door/executor.h"
#include "properties/judging/answer.h"
#include "properties/judging/judged_kernel.h"
#include "properties/sequences/story_calls.h"

namespace qkvet::properties {

// Adds a planned command to the call of its step. `fresh` are the keys and
// values that it brings, `own` the inputs of the whole case.
void fill_story_call(const Case& value, const PlannedCall& planned,
                     const Inputs& fresh, const Inputs& own, KernelCall& call);

// The call of a step that is planned, with its data.
KernelCall story_call(const Case& value, const PlannedCall& planned,
                      const StoryInputs& inputs, const Inputs& own);

// Runs planned commands with their data; one outcome each.
std::vector<CallOutcome> run_commands(const Case& value,
                                      std::span<const PlannedCall> planned,
                                      std::span<const StoryInputs> inputs,
                                      const Inputs& own, int index,
                                      Executor& executor, TimeUse& time);

// Compares the answer of a step with attention over `inputs`. Their keys and
// values may be off by k_error and v_error.
Judgement judge_answer(const Case& value, const PlannedCall& planned,
                       const Inputs& inputs, const CallOutcome& outcome,
                       const JudgedKernel& kernel, Oracle oracle,
                       bool with_twin);

// A token that a command of the story brings.
struct BroughtToken {
  Token token;
  size_t call = 0;        // that brings it, in the law's plan
  bool is_nan = false;    // in the law's story
  bool accepted = false;  // false: the call is to be refused
};

// One story of a law's plan, up to the call that an experiment is about, and
// then a read_back() of its sequence, if the kernel has one.
//
// Every token has a row of its own here, also those that a law inserts without
// data (tags below 0): snapshots() gives them tags that no other token has.
class StoryRun {
 public:
  // The call in question is plan[at], `plan` is a law's for `value`.
  StoryRun(const Case& value, const std::vector<PlannedCall>& plan, size_t at,
           const JudgedKernel& kernel, int index, Executor& executor,
           TimeUse& time);

  const Case& value() const { return value_; }
  const JudgedKernel& kernel() const { return kernel_; }
  // From create to the call in question.
  const std::vector<PlannedCall>& calls() const { return calls_; }
  const Snapshot& snapshot() const { return *calls_.back().snapshot; }
  const std::vector<BroughtToken>& tokens() const { return tokens_; }
  // "b1", or "the NaN of call 5".
  std::string name_of(const Token& token) const;

  // The data of the case; tokens that the law inserts are finite, or NaN.
  Inputs own_data(bool finite) const;
  // Numbers of moderate size, with which no two tokens are alike.
  Inputs moderate_data() const;
  // Other keys and values for a token: finite ones, or NaN.
  void change(const Token& token, bool finite, Inputs& data) const;

  struct Ran {
    CallOutcome answer;  // of the call in question
    CallOutcome read;    // its stages are empty if there is no read_back()
  };
  // Nullopt if some call did not end as it should.
  std::optional<Ran> run(const Inputs& data) const;

  // The keys and values that `snapshot` is about, out of `data`.
  Inputs inputs_of(const Snapshot& snapshot, const Inputs& data) const {
    return pick_inputs(wide_, snapshot, data).history;
  }
  // The call in question, with `tokens` instead of its history.
  Snapshot snapshot_of(const std::vector<Token>& tokens) const;

 private:
  const BroughtToken* find(const Token& token) const;
  void rename(Snapshot& snapshot) const;
  void copy_row(const Inputs& from, const Token& token, Inputs& to) const;

  const Case& value_;
  Case wide_;  // with a row for every token
  const JudgedKernel& kernel_;
  int index_;
  Executor& executor_;
  TimeUse& time_;
  std::vector<PlannedCall> calls_;
  std::optional<PlannedCall> read_;
  std::vector<BroughtToken> tokens_;
  int64_t rows_ = 0;    // of tokens that have data
  int64_t added_ = 0;   // tokens that the law puts in
  Inputs other_, nan_;  // the rows of change()
};

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_SEQUENCES_STORY_RUN_H_
