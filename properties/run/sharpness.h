// SPDX-License-Identifier: Apache-2.0
// How sharp a bound is: how much further off the numbers of a case might have
// been. A derived bound is one of the worst case, so most cases stay far below
// it; a number that is further off never passes.
#ifndef QKVET_PROPERTIES_RUN_SHARPNESS_H_
#define QKVET_PROPERTIES_RUN_SHARPNESS_H_

#include <cstdint>
#include <map>
#include <string>

#include "core/case/case.h"
#include "properties/judging/law.h"

namespace qkvet::properties {

// Cases that passed a law of agreement. A case counts with the number that came
// nearest to its bound.
struct Sharpness {
  // Beyond the last rounding, where storage is half.
  int64_t without_error = 0;
  // n: bound/error from 2^(n/4) on, and below 2^((n+1)/4). Larger ratios count
  // at kMostQuarters.
  std::map<int, int64_t> quarters;

  Sharpness& operator+=(const Sharpness& other);
};
inline constexpr int kMostQuarters = 240;

using SharpnessByStorage = std::map<std::string, Sharpness>;

// Other laws compare a kernel with exact numbers only, or use two bounds added.
bool tells_sharpness(const Law& law, const Judgement& judgement);
void add_case(SharpnessByStorage& sum, const Case& value,
              const Judgement& judgement);
void merge(SharpnessByStorage& sum, const SharpnessByStorage& part);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_RUN_SHARPNESS_H_
