// SPDX-License-Identifier: Apache-2.0
#include "properties/run/added_cases.h"

#include <algorithm>
#include <iterator>

#include "core/case/case_options.h"
#include "properties/cases/generate.h"
#include "properties/run/own_plan.h"

namespace qkvet::properties {
namespace {

// Few numbers: a mistake in some of them may not show here.
bool shows_little(const Case& value) {
  constexpr int64_t kLeastPairs = 16;
  const Shape& s = value.shape;
  return s.B == 0 || s.H * s.Tq * s.Tk < kLeastPairs || s.Tk < 2 ||
         s.d * s.dv < 2;
}

}  // namespace

void add_for(size_t kernel, size_t kernels, const Law& law, const Case& value,
             std::vector<PairCase>& cases) {
  auto same =
      std::find_if(cases.begin(), cases.end(),
                   [&](const PairCase& one) { return one.value == value; });
  if (same == cases.end())
    same = cases.insert(same, {&law, value, std::vector<bool>(kernels)});
  same->kernels[kernel] = true;
}

std::vector<PairCase> lasting_cases(const Law& law, uint64_t seed,
                                    const Scope& scope,
                                    const std::vector<KernelUnderTest>& kernels,
                                    TimeUse& time) {
  constexpr int64_t kDrawn = 128;
  constexpr size_t kMostOfKernel = 2;
  std::vector<Case> drawn;
  for (int64_t number = 1; number <= kDrawn; ++number)
    drawn.push_back(planned_case(law, seed, number, scope));
  std::stable_sort(drawn.begin(), drawn.end(),
                   [](const Case& a, const Case& b) {
                     return std::pair(shows_little(a), cost_of(a)) <
                            std::pair(shows_little(b), cost_of(b));
                   });
  std::vector<PairCase> cases;
  for (size_t kernel = 0; kernel < kernels.size(); ++kernel) {
    std::vector<const Case*> own;
    for (const Case& value : drawn)
      if (own.size() < kMostOfKernel &&
          (own.empty() || options_of(value) != options_of(*own[0])) &&
          can_be_asked(law, value, kernels[kernel], time))
        own.push_back(&value);
    if (own.empty()) own.push_back(&drawn.front());
    for (const Case* value : own)
      add_for(kernel, kernels.size(), law, *value, cases);
  }
  return cases;
}

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
