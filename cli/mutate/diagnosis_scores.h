// SPDX-License-Identifier: Apache-2.0
// How often a diagnosis is right about bugs that are in no list: mutants of
// built-in kernels, made by the operators of `qkvet mutate`, in an order drawn
// from a seed. Each is judged until a law fails, and diagnosed as `qkvet check`
// does it. The diagnosis' sentence about where it fails and its description of
// the wrong numbers are compared with cases that no search uses, and the stage
// that it names with the changed line.
#ifndef QKVET_CLI_MUTATE_DIAGNOSIS_SCORES_H_
#define QKVET_CLI_MUTATE_DIAGNOSIS_SCORES_H_

#include <functional>
#include <string>
#include <vector>

#include "diagnosis/instead/description.h"

namespace qkvet::cli {

// A source, its kernel, and the other parts of its library.
struct MutatedKernel {
  std::string kernel;  // "scalar/plain"
  std::string source;  // a path
  std::string cflags;
};

// One mutant and its diagnosis.
struct DiagnosedMutant {
  std::string kernel, id, before, after;
  std::string fate;  // "killed", or why it is not scored: "survived", ...
  std::string law;   // under which it is reported
  std::string sentence;
  bool is_claimed = false;  // the sentence is printed as true
  int right = 0, all = 0;   // fresh cases of the judge
  int failing = 0;          // of all
  std::string cause, certainty;
  double seconds = 0;   // the diagnosis took, on the clock
  int calls = 0;        // of the kernel, for the sentence
  std::string instead;  // the description of the wrong numbers
  // Wrong outputs of fresh cases that have a description, and for how many of
  // them it is true.
  bool is_described = false;
  int described = 0, described_rightly = 0;
  std::string stage;        // the named stage; "": none
  std::string known_stage;  // of the changed line; "": not known
  // If the edit that puts it right was searched for: the changed line, and the
  // first three lines that the search names, the best first.
  bool is_searched = false;
  int line = 0;
  std::vector<int> named_lines = {};
  bool is_repaired = false;  // an edit makes it conform
  double repair_seconds = 0;

  std::string key() const { return kernel + " " + id; }
  void fields(auto& v) {
    v.must("kernel", kernel, "id", id, "before", before, "after", after, "fate",
           fate);
    if (!is_scored()) return;
    v.must("law", law, "sentence", sentence, "claimed", is_claimed, "right",
           right, "fresh", all, "failing", failing, "cause", cause, "certainty",
           certainty, "seconds", seconds, "calls", calls, "instead", instead,
           "is_described", is_described, "described", described,
           "described_rightly", described_rightly, "stage", stage,
           "known_stage", known_stage);
    v.may("searched", is_searched, "line", line, "named_lines", named_lines,
          "repaired", is_repaired, "repair_seconds", repair_seconds);
  }
  bool is_scored() const { return fate == "killed"; }
  // From 1, among the named lines; 0: it is not among them.
  int place_of_line() const;
  bool is_description_true() const {
    return described > 0 && 20 * described_rightly >= 19 * described;
  }
  bool is_true() const { return all > 0 && 20 * right >= 19 * all; }
};

// Stage of a line: the first row with its kernel and with a part of its text
// before the change. If a line computes several things, the part has to contain
// the change.
struct KnownStage {
  std::string kernel, part;
  Stage stage = Stage::kUnknown;
  bool holds_change = false;
};

struct ScoreWords {
  std::vector<MutatedKernel> kernels;  // each has its share of the mutants
  size_t count = 120;                  // killed mutants, all kernels together
  uint64_t seed = 1;
  int64_t cases = 2048;  // of the plan that has to kill
  int fresh = 200;       // cases of the judge
  std::string out;       // folder from which a later run continues; or ""
  std::string only;      // the id of one mutant; "" for a draw
  // Time for the search for the repairing edit; 0: no search. By the plan of
  // `qkvet mutate --repair`.
  double repair_seconds = 0;
  std::vector<KnownStage> stages = {};
  std::function<void(const DiagnosedMutant&)> done = {};
};

// kUnknown: of no row.
Stage known_stage(const std::vector<KnownStage>& stages,
                  const std::string& kernel, const std::string& before,
                  const std::string& after);

// The mutants in the order in which they were drawn. *error: "" or one line.
std::vector<DiagnosedMutant> score_diagnoses(const ScoreWords& words,
                                             std::string* error);

// Tables in Markdown: of sentences, of descriptions and stages and, if they
// were searched, of lines. Each has a row per kernel, and one for all.
std::string scores_text(const std::vector<DiagnosedMutant>& mutants);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_MUTATE_DIAGNOSIS_SCORES_H_
