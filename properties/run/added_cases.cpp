// SPDX-License-Identifier: Apache-2.0
#include "properties/run/added_cases.h"

#include <iterator>

namespace qkvet::properties {

std::pair<int64_t, int64_t> AddedCases::add(int64_t first,
                                            std::vector<PairCase> cases) {
  const int64_t last = first + std::ssize(cases) - 1;
  if (!cases.empty()) blocks_.push_back({first, std::move(cases)});
  return {first, last};
}

const PairCase* AddedCases::at(int64_t number) const {
  for (const Block& block : blocks_) {
    const int64_t n = number - block.first;
    if (n >= 0 && n < std::ssize(block.cases))
      return &block.cases[static_cast<size_t>(n)];
  }
  return nullptr;
}

int64_t AddedCases::count() const {
  int64_t sum = 0;
  for (const Block& block : blocks_) sum += std::ssize(block.cases);
  return sum;
}

}  // namespace qkvet::properties
