// SPDX-License-Identifier: Apache-2.0
#include "impl/skeletons/cache_gaps.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace qkvet::impl::cache_gaps_test {
namespace {

// Gaps and a plain list of the positions, side by side.
class Both {
 public:
  void append(int64_t tokens) {
    for (int64_t n = 0; n < tokens; ++n) {
      places_.push_back(next());
    }
  }
  void evict(int64_t first, int64_t tokens) {
    places_.erase(places_.begin() + first, places_.begin() + first + tokens);
    gaps_.open(first, tokens);
    gaps_.cut(length());
  }
  void truncate(int64_t tokens) {
    places_.resize(static_cast<size_t>(tokens));
    gaps_.cut(tokens);
  }
  int64_t length() const { return static_cast<int64_t>(places_.size()); }
  void expect_same() const {
    for (int64_t n = 0; n < length(); ++n) {
      ASSERT_EQ(gaps_.position(n), places_[static_cast<size_t>(n)]) << n;
    }
    ASSERT_EQ(gaps_.position(length()), next());
    ASSERT_EQ(gaps_.position(length() + 2), next() + 2);
  }

 private:
  int64_t next() const { return places_.empty() ? 0 : places_.back() + 1; }

  std::vector<int64_t> places_;
  Gaps gaps_;
};

TEST(CacheGaps, TokensKeepTheirPlaces) {
  Both both;
  both.append(6);
  both.expect_same();
  both.evict(1, 2);  // 0 3 4 5
  both.expect_same();
  both.evict(1, 1);  // 0 4 5
  both.evict(2, 1);  // 0 4
  both.append(1);    // 0 4 5
  both.expect_same();
  both.truncate(1);
  both.append(1);  // 0 1
  both.expect_same();
  both.evict(0, 2);
  both.append(2);
  both.expect_same();
}

TEST(CacheGaps, AsAListOfPositions) {
  std::mt19937 random(7);
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
  };
  for (int story = 0; story < 200; ++story) {
    Both both;
    for (int command = 0; command < 40; ++command) {
      const int64_t length = both.length();
      const int64_t choice = below(10);
      if (length == 0 || choice < 4) {
        both.append(1 + below(5));
      } else if (choice < 9) {
        const int64_t first = below(length);
        both.evict(first, 1 + below(length - first));
      } else {
        both.truncate(below(length + 1));
      }
      ASSERT_NO_FATAL_FAILURE(both.expect_same()) << story << " " << command;
    }
  }
}

}  // namespace
}  // namespace qkvet::impl::cache_gaps_test
