// SPDX-License-Identifier: Apache-2.0
// What a run adds up for one kernel under one law, and the cell that comes of
// it.
#ifndef QKVET_PROPERTIES_TALLY_H_
#define QKVET_PROPERTIES_TALLY_H_

#include <optional>
#include <string>

#include "properties/runner.h"

namespace qkvet {

// A failure before it is shrunk.
struct Candidate {
  int64_t number = 0;
  const Law* planned = nullptr;
  Case value;
  Judgement judgement;
  double seconds = 0;
  bool keeps_law = false;  // the law that owns it is not in the run
};

struct Tally {
  int64_t checked = 0, unsupported = 0, not_applicable = 0;
  int64_t compared = 0, vacuous = 0;
  double worst_ratio = 0, seconds = 0;
  int64_t warned = 0;  // cases
  std::string warning;
  int64_t warning_number = 0;
  std::string reason;
  int64_t reason_number = 0;
  std::optional<Candidate> first;
  // The first that the law itself has planned, where another law found `first`.
  std::optional<Candidate> own;
};

// Counts one judgement; `stress` data does not count towards vacuity.
void add_judgement(Tally& tally, int64_t number, bool stress,
                   const Judgement& judgement, double seconds);

// The one with the lower case number; `other` is empty behind it.
void keep_first(std::optional<Candidate>& kept,
                std::optional<Candidate>& other);

// Adds `part` to `sum` and empties it. The lowest case number decides which
// failure and which reason are kept, so that threads do not.
void merge(Tally& sum, Tally& part);

// `mistrust`: "" or why a kernel that passed is not believed.
Cell cell_of(const Tally& tally, std::optional<Failure> failure,
             const std::string& mistrust);

}  // namespace qkvet

#endif  // QKVET_PROPERTIES_TALLY_H_
