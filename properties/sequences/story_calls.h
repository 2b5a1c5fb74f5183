// SPDX-License-Identifier: Apache-2.0
// A cache story as calls, and the judging of their answers.
#ifndef QKVET_PROPERTIES_SEQUENCES_STORY_CALLS_H_
#define QKVET_PROPERTIES_SEQUENCES_STORY_CALLS_H_

#include <functional>
#include <optional>
#include <span>

#include "properties/judging/outputs.h"
#include "properties/sequences/played_story.h"

namespace qkvet::properties {

// The rules that the case's story is played by.
StoryRules story_rules(const Case& value, const KernelInfo& kernel);

// How a story is called.
struct StoryEdits {
  // Commands that the law inserted, by number: their appended tokens are NaN,
  // and the data of the others stays as without them.
  std::vector<bool> inserted;
  bool want_lse = false;
  bool needs_truth = true;
};

// Appends the calls of one story to the plan: create, and one per command.
// Queries that see no NaN need the truth; illegal commands expect refusal.
void add_story(const Case& value, const Story& story, const KernelInfo& kernel,
               const StoryEdits& edits, Plan& plan);

// A story into which a law puts commands of its own.
class EditedStory {
 public:
  void keep(const StoryCommand& command) { add(command, false); }
  void insert(const StoryCommand& command) { add(command, true); }
  const Story& story() const { return story_; }

  // The story as it is, and then with the insertions.
  Plan plan(const Case& value, const KernelInfo& kernel) const;

 private:
  void add(const StoryCommand& command, bool inserted) {
    story_.push_back(command);
    inserted_.push_back(inserted);
  }
  Story story_;
  std::vector<bool> inserted_;
};

// Whether a mask hides all keys of an element's row. The dialect and the law
// that compares with the history decide what such a row holds.
bool sees_no_key(const CallView& call, const CallOutput& output, size_t n);

// Names the call and the element: "call 3, step.a.2: o[b=0,h=0,i=1,c=2]".
void name_in_story(size_t number, const CallView& call,
                   const std::string& element, Finding& finding);

// Compares the answers of the second story with those of the first. They are
// the same except for the insertions: both are near the same numbers.
void compare_edited_story(const JudgeInput& input, Judgement& judgement);
Judgement judge_edited_story(const JudgeInput& input);

// The keys and values of a step: those of the whole history as `history`, with
// its queries, mask and bias, those that the step brings as `fresh`.
struct StoryInputs {
  Inputs history;
  Inputs fresh;
};
// Fills the row of a token of q, k or v for one head.
using TokenRow = std::function<void(TensorName tensor, const Token& token,
                                    int64_t head, std::span<double> row)>;
// The data of a step, row by row. `own` has the tables, slopes and sinks of the
// whole case. An answer can only be
// judged with the keys and values of the history.
StoryInputs step_inputs(const Case& value, const Snapshot& snapshot,
                        const Inputs& own, bool with_history,
                        const TokenRow& fill_row);
// The same with the rows of the case's inputs.
StoryInputs pick_inputs(const Case& value, const Snapshot& snapshot,
                        const Inputs& own);

// The call that makes the cache of a story.
PlannedCall create_call(const Case& value);
// The call of a command. The calls of a story take turns with the three
// placements, by `number`.
PlannedCall command_call(Snapshot snapshot, bool want_lse, size_t number);

// A sequence with another length than its commands add up to; -1 if the cache
// did not report it.
struct WrongLength {
  size_t sequence = 0;
  int64_t expected = 0, actual = 0;
};
std::optional<WrongLength> wrong_length(const Snapshot& snapshot,
                                        const CallOutcome& outcome);

// "", or what is wrong with the outcome of an illegal command. The header
// permits reset() of a sequence that does not exist, if it changes nothing, and
// a cache with a window need not offer evict() for it.
std::string bad_refusal(const StoryCommand& command,
                        const CallOutcome& outcome);

// Whether its history has a token that a law inserted, which is NaN.
bool sees_added_token(const Snapshot& snapshot);

// Appends a call that reads back the contents of the sequence after `snapshot`.
void add_read_back(const Snapshot& snapshot, int64_t sequence, Plan& plan);

// The case of one step: its shape, and the mask of its queries.
Case step_case(const Case& value, const Snapshot& snapshot);

// "step.a.2", "append.a.1 without values"
std::string command_place(const CallView& call);
// The number of one of the calls.
size_t call_number(const JudgeInput& input, const CallView& call);
// " without values"; "" for none.
std::string mistake_text(Mistake mistake);

// Judges o and lse of a call that has a truth.
Judgement step_judgement(const JudgeInput& input, const CallView& call);
// The same of call number `number`, which its findings name.
void compare_answer(const JudgeInput& input, const CallView& call,
                    size_t number, Judgement& judgement);
// The same for every call that has one, up to the first failure.
void compare_story(const JudgeInput& input, Judgement& judgement);

// The story without the commands that are illegal when the capacity is hard.
Story legal_story(const Case& value);

// One sequence, one step of the whole prompt, for laws about prefill.
Case constrain_to_prompt(Case value);
// At least two sequences; the last one has no commands, and none is copied, so
// that only the law uses it.
Case constrain_to_idle_last(Case value);
// At least one token is appended and attended; only legal commands.
Case constrain_to_legal(Case value);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_SEQUENCES_STORY_CALLS_H_
