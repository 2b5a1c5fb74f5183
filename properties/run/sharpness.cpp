// SPDX-License-Identifier: Apache-2.0
#include "properties/run/sharpness.h"

#include <algorithm>
#include <cmath>

#include "properties/cases/scope.h"
#include "properties/judging/subject.h"

namespace qkvet::properties {
namespace {

// For a passed case error/bound is at most 1.
int quarter_of(double error_over_bound) {
  const double quarters = -4 * std::log2(error_over_bound);
  return std::clamp(
      static_cast<int>(std::floor(std::min<double>(quarters, kMostQuarters))),
      0, kMostQuarters);
}

}  // namespace

Sharpness& Sharpness::operator+=(const Sharpness& other) {
  without_error += other.without_error;
  for (const auto& [quarter, cases] : other.quarters)
    quarters[quarter] += cases;
  return *this;
}

bool tells_sharpness(const Law& law, const Judgement& judgement) {
  return judgement.verdict == Verdict::kPassed && judgement.compared > 0 &&
         &law == &agreement_about(law.domain.subject);
}

void add_case(SharpnessByStorage& sum, const Case& value,
              const Judgement& judgement) {
  Sharpness& one = sum[to_string(storage_of(value))];
  if (judgement.worst_ratio == 0)
    ++one.without_error;
  else
    ++one.quarters[quarter_of(judgement.worst_ratio)];
}

void merge(SharpnessByStorage& sum, const SharpnessByStorage& part) {
  for (const auto& [storage, one] : part) sum[storage] += one;
}

}  // namespace qkvet::properties
