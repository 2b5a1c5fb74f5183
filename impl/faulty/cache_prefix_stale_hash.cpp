// SPDX-License-Identifier: Apache-2.0
// faulty/cache_prefix_stale_hash: a page that is freed or rewritten is still
// found by what it held.
#include "impl/faulty/fault.h"
#include "impl/kv_cache/prefix.h"

namespace qkvet::impl {
namespace {

class PrefixStaleHash : public PrefixCache {
 public:
  // Pages of one token, as prefix trees have them.
  explicit PrefixStaleHash(const CacheShape& shape)
      : PrefixCache(shape, /*page_tokens=*/1) {}

 protected:
  void forget(int64_t) override {}
  bool is_same(int64_t, int64_t, int64_t) const override { return true; }
};

constexpr const char* kKilledBy[] = {"cache_agrees_with_history", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "a page keeps the hash of what it held, and a hash is all that a page "
        "is compared by",
    .symptom =
        "right while prompts only grow; after an edit a later prompt gets "
        "pages of other contents",
    .cause =
        "hashes are listed when a page is full and never struck from the list",
    .fix = "forget the hash of a page before its first byte changes",
    .source = "vllm-project/vllm#49449",
    .trigger =
        "a page that was freed or cut and is full again, and a prompt that "
        "begins as the old one did",
    .killed_by = kKilledBy,
    .when =
        "commands(held < before) || commands(verb == fork || verb == reorder)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_prefix_stale_hash =
    faulty_cache<PrefixStaleHash>(
        "faulty/cache_prefix_stale_hash", &kFault,
        {"impl/faulty/cache_prefix_stale_hash.cpp", __LINE__});

}  // namespace qkvet::impl
