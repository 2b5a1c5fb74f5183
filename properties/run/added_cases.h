// SPDX-License-Identifier: Apache-2.0
// Cases that a run asks beside those of its plan. Their numbers stand behind
// the plan's, whenever they are asked, so that no case of the plan has another
// number for them.
#ifndef QKVET_PROPERTIES_RUN_ADDED_CASES_H_
#define QKVET_PROPERTIES_RUN_ADDED_CASES_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "properties/cases/pair_cases.h"

namespace qkvet::properties {

class AddedCases {
 public:
  // Their numbers, from `first` on: the first and the last.
  std::pair<int64_t, int64_t> add(int64_t first, std::vector<PairCase> cases);

  // The case of that number; null: it is one of the plan.
  const PairCase* at(int64_t number) const;

  int64_t count() const;

 private:
  struct Block {
    int64_t first = 0;
    std::vector<PairCase> cases;
  };
  std::vector<Block> blocks_;
};

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_RUN_ADDED_CASES_H_
