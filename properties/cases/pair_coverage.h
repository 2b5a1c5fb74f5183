// SPDX-License-Identifier: Apache-2.0
// Which settings of calls met in one call. Two options that are each right can
// be wrong together if they were never tried together. A run therefore reports
// its pairs: of options, classes of extents, storage, layouts and recipes of
// data.
#ifndef QKVET_PROPERTIES_CASES_PAIR_COVERAGE_H_
#define QKVET_PROPERTIES_CASES_PAIR_COVERAGE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "properties/cases/pair_settings.h"

namespace qkvet::properties {

// Settings that some answered call had or could have had, and which of them
// met. A setting that is one of several of a kind is "kind: value", and never
// meets another of its kind.
struct MetPairs {
  using Table = std::vector<std::vector<bool>>;  // [settings][settings]

  std::vector<std::string> settings;
  Table met;  // symmetric
  // Pairs that no case of the laws has together, as far as tries found; empty
  // if none were made.
  Table apart = {};
  int64_t added = 0;  // that met in cases made for it alone
  // Triples that met in one call; absent if unknown, as for merged shards.
  std::optional<int64_t> triples = std::nullopt;
  int64_t added_triples = 0;  // that met in cases made for pairs and triples

  bool may_meet(size_t a, size_t b) const;
  // Pairs that may meet; those of them that did; and those that never did,
  // pairs of options first.
  int64_t possible() const;
  int64_t seen() const;
  std::vector<std::pair<std::string, std::string>> never() const;
  // Those of two kinds that cannot, two options first.
  std::vector<std::pair<std::string, std::string>> cannot() const;
  // Triples of which all pairs met, in one call or in three.
  int64_t possible_triples() const;
  // Settings and meetings of both.
  void add(const MetPairs& other);

 private:
  template <class Wanted>
  std::vector<std::pair<std::string, std::string>> pairs_where(
      Wanted wanted) const;
  bool is_apart(size_t a, size_t b) const {
    return !apart.empty() && apart[a][b] && !met[a][b];
  }
};

class PairCoverage {
 public:
  // An answered call, and the case that it was made for, in which some row sees
  // a key: in others no number can be wrong.
  void count(const Case& value, const KernelCall& call);
  void add(const PairCoverage& other);
  // `can`: pairs that cases can be made for, if known.
  MetPairs met(const PairTable* can = nullptr) const;
  const PairTable& table() const { return with_; }
  const TripleSet& triple_set() const { return triples_; }
  // Pairs and triples of different kinds, each counted once.
  int64_t pairs() const;
  int64_t triples() const;

 private:
  PairTable with_{};
  TripleSet triples_;  // empty before the first call
};

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CASES_PAIR_COVERAGE_H_
