// SPDX-License-Identifier: Apache-2.0
// faulty/cache_length_from_full_draft: a single query attends over a length
// that counts rejected tokens.
#include <algorithm>

#include "impl/cache_memory.h"
#include "impl/faulty/fault.h"

namespace qkvet::impl {
namespace {

class LengthFromFullDraft : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

 protected:
  int64_t attended(const CacheStep& step, int64_t keys) const override {
    return step.queries == 1 ? std::max(keys, mark(step.sequence)) : keys;
  }
};

constexpr const char* kKilledBy[] = {"cache_truncate_forgets",
                                     "cache_agrees_with_history", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "a single query attends over the longest that the sequence was, drafts "
        "included that were rejected",
    .symptom =
        "right while every draft is accepted; then answers depend on tokens "
        "that are not in the text",
    .cause = "the lengths of a batch are gathered before verification",
    .fix = "gather lengths after drafts are accepted or rejected",
    .source = "lightseekorg/tokenspeed#217",
    .trigger = "a truncation that drops tokens, and a single query after it",
    .killed_by = kKilledBy,
    .when = "commands(held < before) && commands(queries == 1)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_length_from_full_draft =
    faulty_cache<LengthFromFullDraft, /*kOptions=*/0>(
        "faulty/cache_length_from_full_draft", &kFault,
        {"impl/faulty/cache_length_from_full_draft.cpp", __LINE__});

}  // namespace qkvet::impl
