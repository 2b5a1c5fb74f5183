// SPDX-License-Identifier: Apache-2.0
// Pages (pages.h) that sequences share when they hold the same bytes after the
// same tokens, as prompts with a common beginning do.
//
// A page that has become full is looked up by the hash of its bytes, and
// replaced by another page that has the same predecessor and the same bytes: by
// induction the whole prefix is the same, certainly and not just by a hash.
// Keys are turned when they are read, so positions are the reader's.
//
// A listed page cannot change: a page is written only if it is not full, and
// leaves the list before that. A holder of a page also holds its predecessor,
// so that numbers of pages in the list are not used again.
#ifndef QKVET_IMPL_KV_CACHE_PREFIX_H_
#define QKVET_IMPL_KV_CACHE_PREFIX_H_

#include <cstddef>
#include <cstdint>
#include <exception>
#include <unordered_map>
#include <vector>

#include "impl/kv_cache/pages.h"

namespace qkvet::impl {

// FNV-1a.
inline constexpr uint64_t kFirstHash = 0xcbf29ce484222325;
inline uint64_t hash_bytes(uint64_t hash, const void* data, int64_t bytes) {
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
    const int64_t first = held(step.sequence) / page_tokens();
    PagedCache::advance(step);
    list_full_pages(step.sequence, first, held(step.sequence));
  }
  // After the tokens close up, the contents of pages have changed.
  void remove(int64_t sequence, int64_t first, int64_t tokens) override {
    PagedCache::remove(sequence, first, tokens);
    list_full_pages(sequence, first / page_tokens(), held(sequence) - tokens);
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

  // The key of page n of a sequence in the list.
  virtual uint64_t hash_of(int64_t sequence, size_t n) {
    const TokenMemory& memory = pool().memory(table(sequence)[n]);
    const int64_t row =
        shape().kv_heads * page_tokens() * bytes_of(shape().storage);
    const uint64_t keys =
        hash_bytes(kFirstHash, memory.keys.get(), row * shape().width);
    return hash_bytes(keys, memory.values.get(), row * shape().value_width);
  }
  // Whether a page with predecessor `behind` equals a listed page.
  virtual bool is_same(int64_t page, int64_t behind, int64_t listed) const {
    return listed_.at(listed).behind == behind &&
           pool().have_same_bytes(page, listed);
  }

 private:
  static constexpr int64_t kNone = -1;
  struct Listed {
    int64_t behind;  // the predecessor
    uint64_t hash;
  };

  // Lists the full pages of a sequence that has `tokens` tokens, from page
  // `first` on.
  void list_full_pages(int64_t sequence, int64_t first, int64_t tokens) {
    for (int64_t n = first; n < tokens / page_tokens(); ++n) {
      try {
        find_or_list(sequence, static_cast<size_t>(n));
      } catch (const std::exception&) {
        return;  // without memory for the list, pages are just not shared
      }
    }
  }

  void find_or_list(int64_t sequence, size_t n) {
    Table& pages = table(sequence);
    const int64_t page = pages[n];
    const int64_t behind = n == 0 ? kNone : pages[n - 1];
    const uint64_t hash = hash_of(sequence, n);
    const auto [first, last] = pages_.equal_range(hash);
    for (auto at = first; at != last; ++at) {
      const int64_t listed = at->second;
      if (is_same(page, behind, listed)) {
        pool().share(listed);
        give_back(page);
        pages[n] = listed;
        return;
      }
    }
    listed_.emplace(page, Listed{behind, hash});
    pages_.emplace(hash, page);
  }

  std::unordered_map<int64_t, Listed> listed_;        // by page
  std::unordered_multimap<uint64_t, int64_t> pages_;  // by hash
};

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_KV_CACHE_PREFIX_H_
