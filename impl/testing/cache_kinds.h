// SPDX-License-Identifier: Apache-2.0
// For the tests of the kinds of caches: stories that say whether everything was
// right so far, and the forms in which a kind is asked.
#ifndef QKVET_IMPL_TESTING_CACHE_KINDS_H_
#define QKVET_IMPL_TESTING_CACHE_KINDS_H_

#include <vector>

#include "impl/testing/cache_fixture.h"

namespace qkvet::impl {

inline bool has_option(const qkvet_kernel* kernel, uint64_t option) {
  return (kernel->cache->options & option) != 0;
}

// A cache next to its history, and whether everything was right so far.
class Story {
 public:
  Story(const qkvet_kernel* kernel, const CacheProblem& p)
      : cache(kernel, p), holds_(cache.status() == QKVET_OK) {}

  bool holds() const { return holds_; }
  void check(bool right) { holds_ = right && holds_; }
  // New tokens, of which, and of older ones, the last ones ask.
  void step(int64_t s, int64_t tokens, int64_t queries) {
    if (holds_) {
      check(cache.step(s, tokens_from(next_, tokens), queries) == QKVET_OK &&
            cache.error() <= 1);
      next_ += static_cast<uint64_t>(tokens);
    }
  }
  void fork(int64_t from, int64_t to) {
    check(holds_ && cache.fork(from, to) == QKVET_OK);
  }
  void evict(int64_t s, int64_t first, int64_t tokens) {
    check(holds_ && cache.evict(s, first, tokens) == QKVET_OK);
  }
  void reorder(const std::vector<int64_t>& parents) {
    check(holds_ && cache.reorder(parents) == QKVET_OK);
  }
  void truncate(int64_t s, int64_t tokens) {
    check(holds_ && cache.truncate(s, tokens) == QKVET_OK);
  }
  // Every sequence says what it holds.
  void ask_all() {
    for (int64_t s = 0; holds_ && s < cache.problem().sequences; ++s) {
      const auto n = static_cast<int64_t>(cache.history(s).size());
      check(cache.length(s) == n);
      if (n > 0) {
        step(s, 0, 1);
      }
    }
  }

  OpenCache cache;

 private:
  uint64_t next_ = 1;
  bool holds_;
};

// The problem as it is, and with every other storage that there is. Keys that
// are stored rotated are rounded to half storage: no rotation then. What is
// attended as it came, and not as its code says, is not asked here.
inline std::vector<CacheProblem> storages(const qkvet_kernel* kernel,
                                          const CacheProblem& p) {
  std::vector<CacheProblem> all = {p};
  const struct {
    uint64_t option;
    Coded coded;
    bool per_channel;
  } rows[] = {{QKVET_CACHE_INT8_PER_TOKEN, Coded::kInt8, false},
              {QKVET_CACHE_INT8_PER_CHANNEL, Coded::kInt8, true},
              {QKVET_CACHE_FP8_PER_TOKEN, Coded::kFp8, false},
              {QKVET_CACHE_FP8_PER_CHANNEL, Coded::kFp8, true}};
  for (const auto& row : rows) {
    if (has_option(kernel, row.option) &&
        !has_option(kernel, QKVET_CACHE_NEW_AS_GIVEN)) {
      all.push_back(p);
      all.back().coded = row.coded;
      all.back().per_channel = row.per_channel;
    }
  }
  for (const Storage half : {Storage::kF16, Storage::kBf16}) {
    all.push_back(p);
    all.back().type = half;
    const bool as_given = kernel->cache->read_back != nullptr &&
                          !has_option(kernel, QKVET_CACHE_READ_BACK_COMPUTES);
    all.back().rope = as_given ? p.rope : QKVET_ROPE_NONE;
  }
  return all;
}

inline const CacheProblem kThree = {.sequences = 3,
                                    .heads = 4,
                                    .kv_heads = 2,
                                    .capacity = 40,
                                    .rope = QKVET_ROPE_HALF};

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_TESTING_CACHE_KINDS_H_
