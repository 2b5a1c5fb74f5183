// SPDX-License-Identifier: Apache-2.0
// Memory in pages of some tokens, [Hkv, page, d] each, all heads together: a
// sequence is a table of pages, and pages are shared (Kwon et al. 2023,
// PagedAttention). A fork shares all pages of a sequence; appending to a shared
// page that is partly filled copies it first.
//
// Pages are allocated when they are needed and kept for later. The page that
// was freed last is taken first, so the pages of a sequence are in no order.
#ifndef QKVET_IMPL_KV_CACHE_PAGES_H_
#define QKVET_IMPL_KV_CACHE_PAGES_H_

#include <cstdint>
#include <vector>

#include "impl/skeletons/cache_memory.h"

namespace qkvet::impl {

inline constexpr int64_t kPageTokens = 4;

class PagePool {
 public:
  PagePool(const CacheShape& shape, int64_t page_tokens)
      : shape_(shape), page_tokens_(page_tokens) {}

  int64_t page_tokens() const { return page_tokens_; }

  // Makes so many pages free; false if there is no memory.
  bool provide(int64_t pages);
  // A page of the pool without a holder.
  int64_t take();
  void share(int64_t page) { ++at(page).holders; }
  // Returns whether the page is now free.
  bool give_back(int64_t page);

  bool is_shared(int64_t page) const { return at(page).holders > 1; }
  const TokenMemory& memory(int64_t page) const { return at(page).memory; }
  void copy(int64_t from, int64_t to) const;
  bool have_same_bytes(int64_t one, int64_t other) const;
  int64_t page_bytes() const { return slots() * bytes_of_slot(shape_); }
  int64_t bytes() const {
    return static_cast<int64_t>(pages_.size()) * page_bytes();
  }

 private:
  struct Page {
    TokenMemory memory;   // of slots()
    int64_t holders = 0;  // 0: free
  };

  int64_t slots() const { return shape_.kv_heads * page_tokens_; }
  Page& at(int64_t page) { return pages_[static_cast<size_t>(page)]; }
  const Page& at(int64_t page) const {
    return pages_[static_cast<size_t>(page)];
  }

  CacheShape shape_;
  int64_t page_tokens_;
  std::vector<Page> pages_;
  std::vector<int64_t> free_;  // with room for all pages
};

class PagedCache : public Cache {
 public:
  explicit PagedCache(const CacheShape& shape,
                      int64_t page_tokens = kPageTokens)
      : Cache(shape),
        pool_(shape, page_tokens),
        tables_(static_cast<size_t>(shape.sequences)) {}

  void reset(int64_t sequence) override { truncate(sequence, 0); }
  void truncate(int64_t sequence, int64_t tokens) override;
  int64_t bytes() const override { return pool_.bytes(); }

 protected:
  using Table = std::vector<int64_t>;

  const char* reserve(int64_t sequence, int64_t tokens) override;
  void write(const CacheStep& step, int64_t before) override;
  Rows keys(const Reading& reading, float* room) const override;
  Rows values(const Reading& reading, float* room) const override;
  void rearrange(const int64_t* parents) override;
  void remove(int64_t sequence, int64_t first, int64_t tokens) override;

  // Makes pages [first, end) of a sequence its own, before they are written.
  // Throws if there is no memory.
  virtual void own(int64_t sequence, int64_t first, int64_t end);

  int64_t page_tokens() const { return pool_.page_tokens(); }
  int64_t pages_for(int64_t tokens) const {
    return (tokens + page_tokens() - 1) / page_tokens();
  }

  // The bytes of a page are about to change: it is free, or about to be
  // written.
  virtual void forget(int64_t /*page*/) {}

  // Keeps only the pages needed for so many tokens.
  void release(int64_t sequence, int64_t tokens);
  void give_back(int64_t page) {
    if (pool_.give_back(page)) {
      forget(page);
    }
  }
  Table& table(int64_t sequence) {
    return tables_[static_cast<size_t>(sequence)];
  }
  PagePool& pool() { return pool_; }
  const PagePool& pool() const { return pool_; }

 private:
  Rows gather(const Reading& reading, Memory TokenMemory::*part, int64_t width,
              float* room) const;

  PagePool pool_;
  // Each sequence has as many pages as its tokens need, and those of steps that
  // failed after their allocation.
  std::vector<Table> tables_;
};

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_KV_CACHE_PAGES_H_
