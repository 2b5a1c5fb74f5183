// SPDX-License-Identifier: Apache-2.0
// faulty/cache_rollback_clears_all: truncate clears the whole sequence.
#include "impl/cache_memory.h"
#include "impl/faulty/fault.h"

namespace qkvet::impl {
namespace {

class RollbackClearsAll : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

  void truncate(int64_t sequence, int64_t tokens) override {
    if (tokens < held(sequence)) {
      clear_slots(shape(), memory(sequence), first_slot(sequence, 0, /*n=*/0),
                  shape().kv_heads * shape().capacity);
    }
    ContiguousCache::truncate(sequence, tokens);
  }
};

constexpr const char* kKilledBy[] = {"cache_truncate_forgets", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "a rollback clears the memory of the sequence, and keeps its length",
    .symptom = "after the first rejected draft a query attends over zeros",
    .cause =
        "rollback calls the function that empties a cache, and restores the "
        "length",
    .fix = "keep the rows in front of the new end",
    .source = "paiml/aprender#2014",
    .trigger = "a truncation that keeps tokens",
    .killed_by = kKilledBy,
    .when = "commands(verb == truncate && 0 < held && held < before)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_rollback_clears_all =
    faulty_cache<RollbackClearsAll>(
        "faulty/cache_rollback_clears_all", &kFault,
        {"impl/faulty/cache_rollback_clears_all.cpp", __LINE__});

}  // namespace qkvet::impl
