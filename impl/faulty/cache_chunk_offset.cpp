// SPDX-License-Identifier: Apache-2.0
// faulty/cache_chunk_offset: a chunk on a warm cache sees one key too few.
#include "impl/cache_memory.h"
#include "impl/faulty/fault.h"

namespace qkvet::impl {
namespace {

class ChunkOffset : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

 protected:
  int64_t diagonal(int64_t keys, int64_t queries) const override {
    const int64_t right = ContiguousCache::diagonal(keys, queries);
    const bool chunk = queries > 1 && keys > queries;
    return chunk ? right - 1 : right;
  }
};

constexpr const char* kKilledBy[] = {"cache_chunks_equal_whole",
                                     "cache_agrees_with_history", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "row i of a chunk sees the keys before L + i, and not its own",
    .symptom =
        "a prompt in one step is right, decode is right, and chunks of a "
        "prompt are a little off",
    .cause =
        "the offset of the mask is the length before the step, the comparison "
        "is <",
    .fix = "row i sees the keys j <= L + i",
    .source = "textbook",
    .trigger = "two queries or more on a sequence that held tokens before",
    .killed_by = kKilledBy,
    .when = "commands(queries > 1 && held > queries)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_chunk_offset =
    faulty_cache<ChunkOffset>("faulty/cache_chunk_offset", &kFault,
                              {"impl/faulty/cache_chunk_offset.cpp", __LINE__});

}  // namespace qkvet::impl
