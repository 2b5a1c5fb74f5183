// SPDX-License-Identifier: Apache-2.0
// The positions of a sequence's tokens after evictions: the remaining tokens
// keep their positions, so the position of a token minus its number is the
// number of evicted positions before it.
#ifndef QKVET_IMPL_SKELETONS_CACHE_GAPS_H_
#define QKVET_IMPL_SKELETONS_CACHE_GAPS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace qkvet::impl {

class Gaps {
 public:
  // The position of token `number`. The next token has the position after that
  // of the last held token.
  int64_t position(int64_t number) const {
    for (size_t n = gaps_.size(); n-- > 0;) {
      if (gaps_[n].at <= number) {
        return number + gaps_[n].before;
      }
    }
    return number;
  }

  // Tokens [first, first + tokens) leave; throws, without a change, if there is
  // no memory.
  void open(int64_t first, int64_t tokens) {
    std::vector<Gap> kept;
    kept.reserve(gaps_.size() + 1);
    Gap own = {first, tokens};
    for (const Gap& gap : gaps_) {
      if (gap.at < first) {
        kept.push_back(gap);
      }
      if (gap.at <= first + tokens) {
        own.before = gap.before + tokens;
      }
    }
    kept.push_back(own);
    for (const Gap& gap : gaps_) {
      if (gap.at > first + tokens) {
        kept.push_back({gap.at - tokens, gap.before + tokens});
      }
    }
    gaps_.swap(kept);
  }

  // Keeps the first `tokens` tokens: the next token directly follows them.
  void cut(int64_t tokens) {
    while (!gaps_.empty() && gaps_.back().at >= tokens) {
      gaps_.pop_back();
    }
  }

 private:
  // `before` positions are unused before token `at` and all later ones.
  struct Gap {
    int64_t at;
    int64_t before;
  };
  std::vector<Gap> gaps_;  // ascending
};

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_SKELETONS_CACHE_GAPS_H_
