// SPDX-License-Identifier: Apache-2.0
// Which settings of calls met in one call. Two options that are each right are
// wrong together where nobody has tried them together, so a run says which
// pairs it had: of options, classes of extents, storage, layouts and recipes of
// data.
#ifndef QKVET_PROPERTIES_CASES_PAIR_COVERAGE_H_
#define QKVET_PROPERTIES_CASES_PAIR_COVERAGE_H_

#include <array>
#include <bitset>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/case/case.h"

namespace qkvet::properties {

// Settings that some answered call had, and who met whom. A setting that is one
// of several of a kind is "kind: value", and never meets another of its kind.
struct MetPairs {
  std::vector<std::string> settings;
  std::vector<std::vector<bool>> met;  // [settings][settings], symmetric

  bool may_meet(size_t a, size_t b) const;
  // Pairs that may meet; those of them that did; and those that never did, two
  // options first.
  int64_t possible() const;
  int64_t seen() const;
  std::vector<std::pair<std::string, std::string>> never() const;
  // Settings and meetings of both.
  void add(const MetPairs& other);
};

class PairCoverage {
 public:
  static constexpr size_t kMost = 128;

  // A call that was answered, and the case that it was made for.
  void count(const Case& value, const KernelCall& call);
  void add(const PairCoverage& other);
  MetPairs met() const;

 private:
  std::array<std::bitset<kMost>, kMost> with_{};
};

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CASES_PAIR_COVERAGE_H_
