// SPDX-License-Identifier: Apache-2.0
// faulty/cache_truncate_keeps_values: truncate shortens the keys only.
#include <algorithm>
#include <vector>

#include "impl/cache_memory.h"
#include "impl/faulty/fault.h"

namespace qkvet::impl {
namespace {

class TruncateKeepsValues : public ContiguousCache {
 public:
  // Room for values that were not taken back.
  explicit TruncateKeepsValues(const CacheShape& shape)
      : ContiguousCache(shape, 2 * shape.capacity),
        kept_(static_cast<size_t>(shape.sequences)) {}

  void reset(int64_t sequence) override {
    ContiguousCache::reset(sequence);
    kept_[static_cast<size_t>(sequence)] = 0;
  }
  void truncate(int64_t sequence, int64_t tokens) override {
    kept_[static_cast<size_t>(sequence)] += held(sequence) - tokens;
    ContiguousCache::truncate(sequence, tokens);
  }

 protected:
  // Behind the old end, but inside of the head.
  int64_t value_slot(const CacheStep& step, int64_t before, int64_t head,
                     int64_t j) const override {
    const int64_t token =
        before + j + kept_[static_cast<size_t>(step.sequence)];
    return first_slot(step.sequence, head, before) +
           std::min(token, 2 * shape().capacity - 1);
  }

 private:
  std::vector<int64_t> kept_;  // values too many, a sequence
};

constexpr const char* kKilledBy[] = {"cache_truncate_forgets",
                                     "cache_agrees_with_history", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "values are appended behind the end that they had before the "
        "truncation",
    .symptom =
        "after rejected speculation keys meet the values of tokens that were "
        "rejected",
    .cause = "keys and values have a length each, and truncate knows of one",
    .fix = "truncate both, or keep one length",
    .source = "textbook",
    .trigger = "a truncation that drops tokens, and a step after it",
    .killed_by = kKilledBy,
    .when = "commands(verb == truncate && held < before) && commands(new > 0)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_truncate_keeps_values =
    faulty_cache<TruncateKeepsValues>(
        "faulty/cache_truncate_keeps_values", &kFault,
        {"impl/faulty/cache_truncate_keeps_values.cpp", __LINE__});

}  // namespace qkvet::impl
