// SPDX-License-Identifier: Apache-2.0
// Describes what a kernel computes instead of the right numbers, and at which
// stage it goes wrong. A description is reported only if it holds for all wrong
// elements of several failing cases.
#ifndef QKVET_DIAGNOSIS_INSTEAD_INSTEAD_H_
#define QKVET_DIAGNOSIS_INSTEAD_INSTEAD_H_

#include <span>
#include <string>
#include <vector>

#include "core/case/case_options.h"
#include "diagnosis/instead/claims.h"
#include "diagnosis/where/fails_where.h"

namespace qkvet::diagnosis {

// The most calls to find it, and how many of these repeat a call.
inline constexpr int kMostInsteadCalls = 360;
inline constexpr int kMostCallsAgain = 140;
// A case of a cache is a story, with a small call for each command and more to
// read it back.
inline constexpr int kCallsOfStory = 8;

// Failing cases in which a description is searched, or checked.
inline constexpr int kMostAnswers = 10;

// The description of one output: a claim that is true of all wrong elements.
// Its text is "" and its test null if there is none; the test may be called as
// long as its kernel, executor and clock live.
struct OutputInstead : Claim {
  TensorName output = TensorName::kO;
  // The place of all wrong elements: "the last channel"; "" if there is no
  // single one.
  std::string place;
  int elements = 0;            // wrong ones, of all ...
  int cases = 0;               // ... failing cases examined
  bool of_empty_rows = false;  // only rows that see no key are wrong
  int held_against = 0;        // further answers

  void say(const Claim& claim) { static_cast<Claim&>(*this) = claim; }
  void say_nothing() { say({}); }
  // Whether a description applies to this answer.
  bool says_of(const WrongAnswer& answer) const {
    return is_true_of != nullptr && in(answer) != nullptr &&
           (is_about == nullptr || is_about(answer));
  }
  // Null: the output is right there, or not returned.
  const WrongOutput* in(const WrongAnswer& answer) const;
};

// A fact about failing cases besides wrong numbers.
struct FactInstead {
  std::string text;  // "in `append` the process ends"; "": nothing of all
  int cases = 0;
  int of = 0;  // number of failing cases, if others gave numbers; if less, all
               // show it
  int further = 0;  // further cases that it was checked against
  // Facts that all cases share, the most specific first.
  std::vector<std::string> common;

  void say(std::vector<std::string> facts) {
    common = std::move(facts);
    text = common.empty() ? "" : common.front();
  }
  bool is_of_all() const { return cases >= of; }
  // One in nine may give numbers.
  bool is_of_most() const { return 8 * (of - cases) <= cases; }
  // Further cases that show it, and those that gave numbers.
  void count(size_t showing, size_t numbers) {
    cases += static_cast<int>(showing);
    of += static_cast<int>(showing + numbers);
  }
};

struct Instead {
  std::vector<OutputInstead> outputs;  // those that are wrong
  int cases = 0;                       // failing cases examined
  Stage stage = Stage::kUnknown;
  FactInstead end;        // how cases without an answer end
  FactInstead stored;     // what a cache reads back
  std::string gradients;  // "dk (dq and dv are right)"
  std::string left_out;   // "" or what was left out
  // Whether repeated calls gave other wrong numbers; then there is no stage.
  bool depends_on_calls = false;
  int calls = 0;

  // For people: "o is the right value times sqrt(d): all of 96 wrong elements
  // in 8 failing cases."; "" if too few cases failed.
  std::string text() const;
  // Whether there is a description that holds for all or most failing cases.
  bool is_description() const;
  // "the scores (...)"; "" if it is not known.
  std::string stage_sentence() const;
};

// For a steady failure that is no hang. `where`: the sentence that was found
// before, or none.
Instead look_what_it_is_instead(const Failure& failure, const FailsWhere& where,
                                const EvidencePool& pool);

// Whether the descriptions hold for failing cases of another seed: for at most
// `answers` of `count` cases.
struct InsteadScore {
  int right = 0, all = 0;  // wrong outputs of fresh cases with a description
};
InsteadScore score_instead(const Instead& instead, const Failure& failure,
                           const FailsWhere& where, const EvidencePool& pool,
                           uint64_t seed, int count,
                           int answers = kMostAnswers);

// --- for instead.cpp: place.cpp

// The head, member, row or channel that contains all wrong elements of all
// answers, if several answers have more than one; else "".
std::string place_of(const std::vector<WrongAnswer>& answers,
                     const OutputInstead& output);
// Whether the wrong elements of this answer are all at that place.
bool is_at_place(const std::string& place, const WrongOutput& output);

// --- for instead.cpp: stage.cpp

// A failing call that accessed memory outside a tensor; nullopt: an unknown
// one.
struct Touch {
  Case value;
  std::optional<TensorName> tensor;
  bool of_heap = false;  // memory that the kernel allocated
};

// The stage according to probes: the same calls with q = 0, with V = 1, with V
// one-hot, so that the output is the weights, and without an option.
Stage probed_stage(const std::vector<WrongAnswer>& answers, Witness& witness,
                   bool of_other_scores = false);
// An option and its stage: failing calls have it and are right without it.
struct StageOfOption {
  std::string_view key;  // of the case
  Stage stage;
  void (*give)(Case& value) = nullptr;  // null: not to any case

  const CaseOption& row() const { return *find_option(key); }
};
std::span<const StageOfOption> stages_of_options();
// The stage that reads or writes the exceeded tensor, if there is just one.
Stage stage_of_touches(const std::vector<Touch>& touches, Witness& witness);
// The values, if a case with dropout fails and similar cases without it are
// right.
Stage stage_of_dropout(const Failure& failure, Witness& witness);
// stage_of_others.cpp: stages of caches, layers and merges.
Stage stage_of_other_subject(const Failure& failure, const FailsWhere& where,
                             Witness& witness);
// Whether every wrong element is the right value of another one.
bool is_moved_around(const WrongOutput& output);

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_INSTEAD_INSTEAD_H_
