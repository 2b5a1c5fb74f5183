// SPDX-License-Identifier: Apache-2.0
// faulty/cache_counter_one_late: a truncation is counted one step too late.
#include <utility>
#include <vector>

#include "impl/cache_memory.h"
#include "impl/faulty/fault.h"

namespace qkvet::impl {
namespace {

class CounterOneLate : public ContiguousCache {
 public:
  // Room for the tokens of a step behind those that are to go.
  explicit CounterOneLate(const CacheShape& shape)
      : ContiguousCache(shape, 2 * shape.capacity),
        late_(static_cast<size_t>(shape.sequences)) {}

  int64_t length(int64_t sequence) const override {
    return held(sequence) - late(sequence);
  }
  void reset(int64_t sequence) override {
    ContiguousCache::reset(sequence);
    late_[static_cast<size_t>(sequence)] = 0;
  }
  void truncate(int64_t sequence, int64_t tokens) override {
    late_[static_cast<size_t>(sequence)] = held(sequence) - tokens;
  }

 protected:
  const char* reserve(int64_t sequence, int64_t tokens) override {
    return ContiguousCache::reserve(sequence, tokens - late(sequence));
  }
  // Of what the step has left, and not of what it found.
  void advance(const CacheStep& step) override {
    ContiguousCache::advance(step);
    set_held(step.sequence, length(step.sequence));
    late_[static_cast<size_t>(step.sequence)] = 0;
  }
  void rearrange(const int64_t* parents) override {
    ContiguousCache::rearrange(parents);
    std::vector<int64_t> next(late_);
    for (size_t s = 0; s < next.size(); ++s) {
      next[s] = late(parents[s]);
    }
    late_ = std::move(next);
  }

 private:
  int64_t late(int64_t sequence) const {
    return late_[static_cast<size_t>(sequence)];
  }

  std::vector<int64_t> late_;  // tokens that the next step takes back
};

constexpr const char* kKilledBy[] = {"cache_truncate_forgets",
                                     "cache_agrees_with_history", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "rejected tokens are taken off the counter behind the next step, whose "
        "own tokens go instead",
    .symptom =
        "every length is right; after a rejection the rejected tokens are "
        "there and the new ones are not",
    .cause =
        "the counter of processed tokens is corrected at the end of an "
        "iteration",
    .fix = "correct the counter before anything is appended",
    .source = "openvinotoolkit/openvino.genai#4190",
    .trigger = "a truncation that drops tokens, and a step after it",
    .killed_by = kKilledBy,
    .when = "commands(verb == truncate && held < before)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_counter_one_late =
    faulty_cache<CounterOneLate>(
        "faulty/cache_counter_one_late", &kFault,
        {"impl/faulty/cache_counter_one_late.cpp", __LINE__});

}  // namespace qkvet::impl
