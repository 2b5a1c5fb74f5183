// SPDX-License-Identifier: Apache-2.0
// faulty/cache_first_tokens_forgotten: the window hides the first tokens,
// too.
#include "impl/cache_memory.h"
#include "impl/faulty/fault.h"

namespace qkvet::impl {
namespace {

class FirstTokensForgotten : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

 protected:
  Sight sight(int64_t position) const override {
    Sight seen = ContiguousCache::sight(position);
    if (seen.count == 2) {
      seen.runs[0] = seen.runs[1];
      seen.count = 1;
    }
    return seen;
  }
};

constexpr const char* kKilledBy[] = {"cache_agrees_with_history", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "the first tokens leave the sight of a query as all others do",
    .symptom =
        "right until a sequence is longer than the window; then fluency "
        "collapses",
    .cause = "eviction counts from the front and knows no tokens that stay",
    .fix = "keep the first tokens beside the window",
    .source = "textbook (StreamingLLM, attention sinks)",
    .trigger = "a window with first tokens, and a sequence that outgrows both",
    .killed_by = kKilledBy,
    .when =
        "cache.window > 0 && cache.first_tokens > 0 && commands(queries > 0 && "
        "held > cache.window)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_first_tokens_forgotten =
    faulty_cache<FirstTokensForgotten, QKVET_CACHE_ROPE | QKVET_CACHE_WINDOW>(
        "faulty/cache_first_tokens_forgotten", &kFault,
        {"impl/faulty/cache_first_tokens_forgotten.cpp", __LINE__});

}  // namespace qkvet::impl
