// SPDX-License-Identifier: Apache-2.0
// For tests that check a sample at each submission, and everything at night:
// ci/long.sh sets QKVET_TEST_FACTOR.
#ifndef QKVET_CORE_BASE_AT_NIGHT_H_
#define QKVET_CORE_BASE_AT_NIGHT_H_

#include <cstddef>
#include <cstdlib>
#include <vector>

namespace qkvet {

inline bool at_night() { return std::getenv("QKVET_TEST_FACTOR") != nullptr; }

// Whether number n of a list is looked at, where by day one in `share` is.
inline bool is_sampled(size_t n, size_t share) {
  return at_night() || n % share == 0;
}

template <class T>
std::vector<T> sampled(const std::vector<T>& all, size_t share) {
  std::vector<T> some;
  for (size_t n = 0; n < all.size(); ++n)
    if (is_sampled(n, share)) some.push_back(all[n]);
  return some;
}

// How many of `all` random problems are looked at, where by day one in `share`
// is.
inline int taken(int all, int share) { return at_night() ? all : all / share; }

}  // namespace qkvet

#endif  // QKVET_CORE_BASE_AT_NIGHT_H_
