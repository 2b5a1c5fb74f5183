// SPDX-License-Identifier: Apache-2.0
// faulty/cache_prefix_hash_ignores_context: pages with the same tokens are
// shared wherever they stand.
#include <cstddef>
#include <utility>
#include <vector>

#include "impl/faulty/fault.h"
#include "impl/kv_cache/prefix.h"
#include "impl/kv_cache/turned.h"

namespace qkvet::impl {
namespace {

// What a token is, whatever its position: its key and value as they come.
class OwnTokensOnly : public PrefixCache {
 public:
  explicit OwnTokensOnly(const CacheShape& shape)
      : PrefixCache(shape, /*page_tokens=*/1),
        tokens_(static_cast<size_t>(shape.sequences)) {}

 protected:
  qkvet_status append(const CacheStep& step, int64_t before,
                      qkvet_text* why) override {
    std::vector<uint64_t>& tokens = tokens_[static_cast<size_t>(step.sequence)];
    tokens.resize(static_cast<size_t>(before));
    for (int64_t j = 0; j < step.tokens; ++j) {
      uint64_t hash = kFirstHash;
      for (int64_t head = 0; head < shape().kv_heads; ++head) {
        hash = hash_row(hash, step.k, head, j, shape().width);
        hash = hash_row(hash, step.v, head, j, shape().value_width);
      }
      tokens.push_back(hash);
    }
    return PrefixCache::append(step, before, why);
  }
  uint64_t hash_of(int64_t sequence, size_t n) override {
    const size_t first = n * static_cast<size_t>(page_tokens());
    return hash_bytes(kFirstHash,
                      &tokens_[static_cast<size_t>(sequence)][first],
                      page_tokens() * static_cast<int64_t>(sizeof(uint64_t)));
  }
  bool is_same(int64_t, int64_t, int64_t) const override { return true; }
  void rearrange(const int64_t* parents) override {
    std::vector<std::vector<uint64_t>> next;
    for (int64_t s = 0; s < shape().sequences; ++s) {
      next.push_back(tokens_[static_cast<size_t>(parents[s])]);
    }
    PrefixCache::rearrange(parents);
    tokens_ = std::move(next);
  }

 private:
  static uint64_t hash_row(uint64_t hash, const Stored& rows, int64_t head,
                           int64_t j, int64_t width) {
    for (int64_t c = 0; c < width; ++c) {
      const float x = rows.get(0, head, j, c);
      hash = hash_bytes(hash, &x, sizeof(x));
    }
    return hash;
  }

  std::vector<std::vector<uint64_t>> tokens_;  // hashes, of each sequence
};

constexpr const char* kKilledBy[] = {"cache_agrees_with_history", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "a page is found by the tokens in it, and its keys were rotated for "
        "another place",
    .symptom =
        "right where prompts share their beginning; a passage behind other "
        "text gets the keys of another position",
    .cause = "the hash of a page does not include that of the page in front",
    .fix = "chain hashes, or compare what a page stands behind",
    .source = "textbook, cf. ovg-project/kvcached#446",
    .trigger =
        "a rotation, and two pages of the same tokens at different positions",
    .killed_by = kKilledBy,
    .when = "rope || commands(verb == evict)",
};

constexpr qkvet_cache_table kTable =
    kTurnedTable<TurnedKeys<OwnTokensOnly>, QKVET_CACHE_ROPE>;

}  // namespace

extern constinit const qkvet_kernel faulty_cache_prefix_hash_ignores_context =
    faulty_cache(
        "faulty/cache_prefix_hash_ignores_context", &kFault,
        {"impl/faulty/cache_prefix_hash_ignores_context.cpp", __LINE__},
        &kTable, &kTurnedPrecision);

}  // namespace qkvet::impl
