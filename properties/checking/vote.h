// SPDX-License-Identifier: Apache-2.0
// The vote: kernels are compared with each other as well as with the oracle. If
// kernels of different families fail alike and none agrees with the oracle, the
// oracle is suspected.
#ifndef QKVET_PROPERTIES_CHECKING_VOTE_H_
#define QKVET_PROPERTIES_CHECKING_VOTE_H_

#include <optional>
#include <string>
#include <vector>

#include "core/base/floors.h"
#include "core/case/case.h"

namespace qkvet::properties {

// The answer of one kernel to a case that is compared with the oracle.
struct Ballot {
  std::string kernel;  // "family/variant"
  bool agrees = false;
  // An element at which a kernel does not agree:
  std::vector<double> o;      // [B,H,Tq,dv]
  std::vector<double> bound;  // how far each may be from the truth
  std::string where;          // the element that differs most from the oracle
};

struct Suspicion {
  Case value;
  int64_t number = 0;  // of the case in the plan
  std::vector<std::string> kernels;
  std::string where;
};

// A suspicion if at least two families have voted, no kernel agrees with the
// oracle, and any two are within their bounds of each other at every element.
std::optional<Suspicion> count_votes(const Case& value, int64_t number,
                                     const std::vector<Ballot>& ballots);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CHECKING_VOTE_H_
