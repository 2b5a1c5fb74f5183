// SPDX-License-Identifier: Apache-2.0
// faulty/cache_position_collision: all sequences write to the same slots.
#include "impl/cache_memory.h"
#include "impl/faulty/fault.h"

namespace qkvet::impl {
namespace {

class PositionCollision : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

 protected:
  int64_t first_slot(int64_t, int64_t head, int64_t n) const override {
    return ContiguousCache::first_slot(/*sequence=*/0, head, n);
  }
  // Whatever becomes what another was finds it where all others are.
  void rearrange(const int64_t*) override {}
};

constexpr const char* kKilledBy[] = {"cache_sequences_are_separate",
                                     "cache_agrees_with_history", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "a pool that sequences share is looked up by position only: who writes "
        "position p last wins for all",
    .symptom =
        "one conversation is right; the first of two recalls what the second "
        "one said",
    .cause =
        "the key of the table is the position, and not (sequence, position)",
    .fix = "make the sequence a part of the key",
    .source = "ggml-org/llama.cpp#27994",
    .trigger = "steps on two sequences",
    .killed_by = kKilledBy,
    .when = "B > 1 && commands(new > 0) > 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_position_collision =
    faulty_cache<PositionCollision>(
        "faulty/cache_position_collision", &kFault,
        {"impl/faulty/cache_position_collision.cpp", __LINE__});

}  // namespace qkvet::impl
