// SPDX-License-Identifier: Apache-2.0
// The sums of a run for one kernel under one law, and the resulting cell.
#ifndef QKVET_PROPERTIES_RUN_TALLY_H_
#define QKVET_PROPERTIES_RUN_TALLY_H_

#include <optional>
#include <string>
#include <vector>

#include "properties/run/runner.h"

namespace qkvet::properties {

// Failing cases of a law that are kept: their common properties and their
// differences tell causes apart.
inline constexpr size_t kMostCandidates = 64;

// A failure before it is shrunk.
struct Candidate {
  int64_t number = 0;
  const Law* planned = nullptr;
  Case value;
  Judgement judgement;
  double seconds = 0;
  bool keeps_law = false;   // the law that owns it is not in the run
  bool hangs_once = false;  // a hang is not tried at a smaller case
};

// The text of the case with the lowest number.
struct NumberedText {
  std::string text;
  int64_t number = 0;
  About about = About::kOther;  // of a reason
};

struct Tally {
  int64_t planned = 0, checked = 0, unsupported = 0, not_applicable = 0;
  int64_t refused = 0;  // of the unsupported
  Elements elements;    // of cases without stress data
  Elements of_long;     // of these, of long ones
  int64_t long_cases = 0;
  Elements emptiest;  // of the others, of the least informative one
  double worst_ratio = 0, seconds = 0;
  RatioPowers ratios;
  SharpnessByStorage sharpness;
  int64_t warned = 0;  // cases
  NumberedText warning, reason, refusal;
  // The first case that the kernel itself refused.
  std::optional<std::pair<int64_t, Case>> refused_case;
  NumberedText unsupported_for;    // the most telling refusal
  std::vector<Candidate> failing;  // ascending numbers, kMostCandidates of them
  // The first that the law itself has planned, where other laws found these.
  std::optional<Candidate> own;
};

// Counts one judgement of a case. Stress data does not count towards vacuity,
// nor does a case that was added for rare pairs or extents: the plan alone
// measures how much of a law the bound judges.
void add_judgement(Tally& tally, int64_t number, const Case& value,
                   const Judgement& judgement, double seconds,
                   bool added = false);

// The one with the lower case number; `other` is empty afterwards.
void keep_first(std::optional<Candidate>& kept,
                std::optional<Candidate>& other);

// Adds `part` to `sum` and empties it. The lowest case numbers decide which
// failures and which reason are kept, so that threads do not.
void merge(Tally& sum, Tally& part);

// How many refused cases other cases have to replace: undeclared ones, and
// those that the kernel refuses without such a declaration. `share`: its cases
// of the plan.
int64_t lacking_cases(const Tally& tally, int64_t share);

// `failures`: none, or the shrunk first one and those that have other causes.
// `mistrust`: "", or why a passing kernel is not trusted.
Cell cell_of(const Tally& tally, std::vector<Failure> failures,
             const std::string& mistrust);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_RUN_TALLY_H_
