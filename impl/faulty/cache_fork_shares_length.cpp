// SPDX-License-Identifier: Apache-2.0
// faulty/cache_fork_shares_length: a fork and its origin count by one
// length.
#include <numeric>
#include <utility>
#include <vector>

#include "impl/cache_memory.h"
#include "impl/faulty/fault.h"

namespace qkvet::impl {
namespace {

class ForkSharesLength : public ContiguousCache {
 public:
  explicit ForkSharesLength(const CacheShape& shape)
      : ContiguousCache(shape),
        counters_(static_cast<size_t>(shape.sequences)) {
    std::iota(counters_.begin(), counters_.end(), 0);
  }

 protected:
  int64_t counter(int64_t sequence) const override {
    return counters_[static_cast<size_t>(sequence)];
  }
  void rearrange(const int64_t* parents) override {
    ContiguousCache::rearrange(parents);
    std::vector<int64_t> next(counters_);
    for (size_t s = 0; s < next.size(); ++s) {
      const int64_t parent = parents[s];
      const bool moves = parent != static_cast<int64_t>(s);
      const bool parent_stays = parents[parent] == parent;
      if (moves) {
        next[s] = parent_stays ? counter(parent) : static_cast<int64_t>(s);
      }
    }
    counters_ = std::move(next);
  }

 private:
  std::vector<int64_t> counters_;  // whose length is that of a sequence
};

constexpr const char* kKilledBy[] = {"cache_forks_are_independent", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "a fork copies keys and values, and shares the length",
    .symptom =
        "after a fork each branch sees a gap or stale tokens where the other "
        "one was appended",
    .cause = "a shallow copy of an object whose length is a reference",
    .fix = "copy the length along with the tokens",
    .source = "textbook",
    .trigger = "a fork, and a step on one of the branches",
    .killed_by = kKilledBy,
    .when = "commands(verb == fork || verb == reorder)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_fork_shares_length =
    faulty_cache<ForkSharesLength>(
        "faulty/cache_fork_shares_length", &kFault,
        {"impl/faulty/cache_fork_shares_length.cpp", __LINE__});

}  // namespace qkvet::impl
