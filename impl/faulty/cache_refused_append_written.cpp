// SPDX-License-Identifier: Apache-2.0
// faulty/cache_refused_append_written: a step that is too long is written as
// far as there is room.
#include "impl/cache_memory.h"
#include "impl/faulty/fault.h"

namespace qkvet::impl {
namespace {

class RefusedAppendWritten : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

 protected:
  qkvet_status append(const CacheStep& step, int64_t before,
                      qkvet_text* why) override {
    CacheStep first = step;
    first.tokens = shape().capacity - before;
    if (first.tokens < step.tokens) {
      write(first, before);
      advance(first);
    }
    return ContiguousCache::append(step, before, why);
  }
};

constexpr const char* kKilledBy[] = {"cache_refuses_illegal_calls", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "an append beyond the capacity is refused when the room is used up, "
        "not before",
    .symptom =
        "the caller is told no, tries elsewhere, and the sequence has tokens "
        "twice",
    .cause = "the capacity is checked token by token, inside the copy",
    .fix = "check the whole step before the first write",
    .source = "textbook",
    .trigger = "a step of more tokens than there is room, and some room",
    .killed_by = kKilledBy,
    .when = "commands(new > 0 && before < capacity && before + new > capacity)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_refused_append_written =
    faulty_cache<RefusedAppendWritten>(
        "faulty/cache_refused_append_written", &kFault,
        {"impl/faulty/cache_refused_append_written.cpp", __LINE__});

}  // namespace qkvet::impl
