// SPDX-License-Identifier: Apache-2.0
// faulty/cache_chunk_length_too_long: a chunk attends over whole chunks of 4
// keys, also where none are yet.
#include <algorithm>

#include "impl/cache_memory.h"
#include "impl/faulty/fault.h"
#include "impl/faulty/tile.h"

namespace qkvet::impl {
namespace {

class ChunkLengthTooLong : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

 protected:
  int64_t attended(const CacheStep& step, int64_t keys) const override {
    const int64_t whole = (keys + tile() - 1) / tile() * tile();
    return step.queries == 1 ? keys : std::min(whole, shape().capacity);
  }
};

constexpr const char* kKilledBy[] = {"cache_decode_equals_prefill",
                                     "cache_reset_forgets", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "prefill is told the length of the prompt in whole chunks, and reads "
        "slots that are not written",
    .symptom =
        "prompts of a multiple of 4 tokens are right; others see zeros, or "
        "what the slots held before",
    .cause =
        "the length of the plan is passed on instead of that of the tokens "
        "that have come",
    .fix = "the keys of a chunk end with its last token",
    .source = "GeeeekExplorer/nano-vllm#213",
    .trigger = "two queries or more, behind tokens that do not fill a chunk",
    .killed_by = kKilledBy,
    .when = "commands(queries > 1 && held % 4 != 0 && held < capacity)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_chunk_length_too_long =
    faulty_cache<ChunkLengthTooLong, /*kOptions=*/0>(
        "faulty/cache_chunk_length_too_long", &kFault,
        {"impl/faulty/cache_chunk_length_too_long.cpp", __LINE__});

}  // namespace qkvet::impl
