// SPDX-License-Identifier: Apache-2.0
#include "properties/checking/vote.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "properties/judging/compare.h"

namespace qkvet::properties {
namespace {

std::string family_of(const std::string& kernel) {
  return kernel.substr(0, kernel.find('/'));
}

// Both may be answers to the same question.
bool near_each_other(const Ballot& a, const Ballot& b, Dtype dtype) {
  if (a.o.size() != b.o.size()) return false;
  for (size_t n = 0; n < a.o.size(); ++n) {
    const double allowed =
        allowed_difference(a.o[n], b.o[n], a.bound[n] + b.bound[n], dtype);
    const bool both_nan = std::isnan(a.o[n]) && std::isnan(b.o[n]);
    if (!both_nan && !(std::fabs(a.o[n] - b.o[n]) <= allowed)) return false;
  }
  return true;
}

}  // namespace

std::optional<Suspicion> count_votes(const Case& value, int64_t number,
                                     const std::vector<Ballot>& ballots) {
  std::set<std::string> families;
  for (const Ballot& ballot : ballots) {
    if (ballot.agrees) return std::nullopt;
    families.insert(family_of(ballot.kernel));
  }
  if (families.size() < 2) return std::nullopt;
  for (size_t i = 0; i < ballots.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (!near_each_other(ballots[i], ballots[j], value.o_dtype))
        return std::nullopt;
  Suspicion suspicion{value, number, {}, ballots[0].where};
  for (const Ballot& ballot : ballots)
    suspicion.kernels.push_back(ballot.kernel);
  return suspicion;
}

}  // namespace qkvet::properties
