// SPDX-License-Identifier: Apache-2.0
// Cases that a run makes besides those of its plan. Their numbers follow the
// plan's, whenever they are run, so that no case of the plan is renumbered.
#ifndef QKVET_PROPERTIES_RUN_ADDED_CASES_H_
#define QKVET_PROPERTIES_RUN_ADDED_CASES_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "properties/cases/pair_cases.h"
#include "properties/run/runner.h"

namespace qkvet::properties {

// Adds a case for one kernel of several, or the kernel to the case.
void add_for(size_t kernel, size_t kernels, const Law& law, const Case& value,
             std::vector<PairCase>& cases);

// For each kernel, two cheap cases of the law that it declares, the second with
// other options. If it declares none, the cheapest of all, which it refuses.
std::vector<PairCase> lasting_cases(const Law& law, uint64_t seed,
                                    const Scope& scope,
                                    const std::vector<KernelUnderTest>& kernels,
                                    TimeUse& time);

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
