// SPDX-License-Identifier: Apache-2.0
// kv_cache/prefix: pages (pages.h) that sequences share when they hold the same
// bytes behind the same tokens, as prompts with a common beginning do.
//
// A page that has become full is looked up by a hash chained over all pages up
// to it, and taken for another one if that one stands behind the very same page
// and has the same bytes: by induction the whole prefix is the same, certainly
// and not just by its hash. Positions are the same then, so that a rotation is.
//
// What is listed cannot change: a page is written only where it is not full,
// and leaves the list before that. Whoever holds a page also holds the one that
// it stands behind, so that numbers of pages in the list are not used again.
//
// Contract: that of kv_cache/paged.
#include <cstddef>
#include <cstdint>
#include <exception>
#include <unordered_map>
#include <vector>

#include "impl/kv_cache/kernel.h"
#include "impl/kv_cache/pages.h"

namespace qkvet::impl {
namespace {

// FNV-1a.
constexpr uint64_t kFirstHash = 0xcbf29ce484222325;
uint64_t hash_bytes(uint64_t hash, const void* data, int64_t bytes) {
  constexpr uint64_t kPrime = 0x100000001b3;
  for (int64_t n = 0; n < bytes; ++n) {
    hash = (hash ^ static_cast<const unsigned char*>(data)[n]) * kPrime;
  }
  return hash;
}

class PrefixCache : public PagedCache {
 public:
  using PagedCache::PagedCache;

 protected:
  void advance(const CacheStep& step) override {
    const int64_t first = held(step.sequence) / kPageTokens;
    PagedCache::advance(step);
    const int64_t full = held(step.sequence) / kPageTokens;
    for (int64_t n = first; n < full; ++n) {
      try {
        find_or_list(table(step.sequence), static_cast<size_t>(n));
      } catch (const std::exception&) {
        return;  // without memory for the list, pages are just not shared
      }
    }
  }

  void forget(int64_t page) override {
    const auto known = listed_.find(page);
    if (known == listed_.end()) {
      return;
    }
    auto [at, end] = pages_.equal_range(known->second.hash);
    while (at != end && at->second != page) {
      ++at;
    }
    if (at != end) {
      pages_.erase(at);
    }
    listed_.erase(known);
  }

 private:
  static constexpr int64_t kNone = -1;
  struct Listed {
    int64_t behind;  // the page in front of it
    uint64_t hash;   // of all bytes up to its end
  };

  void find_or_list(Table& pages, size_t n) {
    const int64_t page = pages[n];
    const int64_t behind = n == 0 ? kNone : pages[n - 1];
    uint64_t hash = kFirstHash;
    if (behind != kNone) {
      const auto known = listed_.find(behind);
      if (known == listed_.end()) {
        return;  // there was no memory to list it
      }
      hash = known->second.hash;
    }
    const int64_t element = bytes_of(shape().storage);
    const int64_t rows = shape().kv_heads * kPageTokens;
    const TokenMemory& memory = pool().memory(page);
    hash = hash_bytes(hash, memory.keys.get(), rows * shape().width * element);
    hash = hash_bytes(hash, memory.values.get(),
                      rows * shape().value_width * element);
    const auto [first, last] = pages_.equal_range(hash);
    for (auto at = first; at != last; ++at) {
      const int64_t other = at->second;
      if (listed_.at(other).behind == behind &&
          pool().have_same_bytes(page, other)) {
        pool().share(other);
        give_back(page);
        pages[n] = other;
        return;
      }
    }
    listed_.emplace(page, Listed{behind, hash});
    pages_.emplace(hash, page);
  }

  std::unordered_map<int64_t, Listed> listed_;        // by page
  std::unordered_multimap<uint64_t, int64_t> pages_;  // by hash
};

}  // namespace

extern constinit const qkvet_kernel kv_cache_prefix = family_cache(
    QKVET_FAMILY "/prefix", "pages that prompts with one beginning share",
    {"impl/kv_cache/prefix.cpp", __LINE__}, &kCacheTable<PrefixCache>);

}  // namespace qkvet::impl
