// SPDX-License-Identifier: Apache-2.0
#include "impl/kv_cache/pages.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

namespace qkvet::impl {
namespace {

// Room for n numbers, such that one more at a time costs a constant.
void make_room(std::vector<int64_t>* numbers, size_t n) {
  if (numbers->capacity() < n) {
    numbers->reserve(std::max(n, 2 * numbers->capacity()));
  }
}

}  // namespace

bool PagePool::provide(int64_t pages) {
  while (static_cast<int64_t>(free_.size()) < pages) {
    Page page = {TokenMemory::of(shape_, slots())};
    if (!page.memory.present()) {
      return false;
    }
    make_room(&free_, pages_.size() + 1);  // giving back must not fail
    pages_.push_back(std::move(page));
    free_.push_back(static_cast<int64_t>(pages_.size()) - 1);
  }
  return true;
}

int64_t PagePool::take() {
  const int64_t page = free_.back();
  free_.pop_back();
  at(page).holders = 1;
  return page;
}

bool PagePool::give_back(int64_t page) {
  if (--at(page).holders > 0) {
    return false;
  }
  free_.push_back(page);
  return true;
}

void PagePool::copy(int64_t from, int64_t to) const {
  copy_slots(shape_, memory(from), 0, memory(to), 0, slots());
}

bool PagePool::have_same_bytes(int64_t one, int64_t other) const {
  const TokenMemory &a = memory(one), &b = memory(other);
  const auto row = static_cast<size_t>(slots() * bytes_of(shape_.storage));
  return std::memcmp(a.keys.get(), b.keys.get(),
                     row * static_cast<size_t>(shape_.width)) == 0 &&
         std::memcmp(a.values.get(), b.values.get(),
                     row * static_cast<size_t>(shape_.value_width)) == 0;
}

void PagedCache::release(int64_t sequence, int64_t tokens) {
  Table& pages = table(sequence);
  while (static_cast<int64_t>(pages.size()) > pages_for(tokens)) {
    give_back(pages.back());
    pages.pop_back();
  }
}

void PagedCache::truncate(int64_t sequence, int64_t tokens) {
  release(sequence, tokens);
  Cache::truncate(sequence, tokens);
}

// Everything is allocated before anything changes.
const char* PagedCache::reserve(int64_t sequence, int64_t tokens) {
  if (tokens > shape().capacity) {
    return kBeyondCapacity;
  }
  Table& pages = table(sequence);
  const int64_t have = static_cast<int64_t>(pages.size());
  const int64_t need = pages_for(tokens);
  const int64_t last = held(sequence) / page_tokens();
  const bool in_part = held(sequence) % page_tokens() != 0;
  const auto at = static_cast<size_t>(last);
  const bool copies = in_part && pool_.is_shared(pages[at]);
  const int64_t more = need > have ? need - have : 0;
  make_room(&pages, static_cast<size_t>(need));
  if (!pool_.provide(more + (copies ? 1 : 0))) {
    return "no memory for more pages";
  }
  if (copies) {
    const int64_t own = pool_.take();
    pool_.copy(pages[at], own);
    give_back(pages[at]);
    pages[at] = own;
  } else if (in_part) {
    forget(pages[at]);
  }
  for (int64_t n = 0; n < more; ++n) {
    pages.push_back(pool_.take());
  }
  return nullptr;
}

void PagedCache::own(int64_t sequence, int64_t first, int64_t end) {
  Table& pages = table(sequence);
  int64_t shared = 0;
  for (int64_t n = first; n < end; ++n) {
    shared += pool_.is_shared(pages[static_cast<size_t>(n)]) ? 1 : 0;
  }
  if (!pool_.provide(shared)) {
    throw std::bad_alloc();
  }
  for (int64_t n = first; n < end; ++n) {
    int64_t& page = pages[static_cast<size_t>(n)];
    if (!pool_.is_shared(page)) {
      forget(page);
      continue;
    }
    const int64_t copy = pool_.take();
    pool_.copy(page, copy);
    give_back(page);
    page = copy;
  }
}

void PagedCache::remove(int64_t sequence, int64_t first, int64_t tokens) {
  own(sequence, first / page_tokens(), pages_for(held(sequence)));
  const Table& pages = table(sequence);
  const int64_t end = held(sequence);
  for (int64_t to = first, from = first + tokens; from < end; ++to, ++from) {
    const TokenMemory& source =
        pool_.memory(pages[static_cast<size_t>(from / page_tokens())]);
    const TokenMemory& target =
        pool_.memory(pages[static_cast<size_t>(to / page_tokens())]);
    for (int64_t head = 0; head < shape().kv_heads; ++head) {
      const int64_t row = head * page_tokens();
      copy_slots(shape(), source, row + from % page_tokens(), target,
                 row + to % page_tokens(), 1);
    }
  }
  release(sequence, end - tokens);
}

void PagedCache::write(const CacheStep& step, int64_t before) {
  const Table& pages = table(step.sequence);
  for (int64_t head = 0; head < shape().kv_heads; ++head) {
    for (int64_t j = 0; j < step.tokens; ++j) {
      const int64_t token = before + j;
      const int64_t slot = head * page_tokens() + token % page_tokens();
      const int64_t page = pages[static_cast<size_t>(token / page_tokens())];
      store_token(shape(), step, head, j, pool_.memory(page), slot, slot);
    }
  }
}

Rows PagedCache::gather(const Reading& reading, Memory TokenMemory::*part,
                        int64_t width, float* room) const {
  const Table& pages = tables_[static_cast<size_t>(reading.sequence)];
  float* to = room;
  for (int64_t j = reading.run.begin; j < reading.run.end; ++j, to += width) {
    const int64_t page = pages[static_cast<size_t>(j / page_tokens())];
    load_rows(shape().storage, pool_.memory(page).*part,
              reading.head * page_tokens() + j % page_tokens(), 1, width, to);
  }
  return {room, width, 1};
}

Rows PagedCache::keys(const Reading& reading, float* room) const {
  return gather(reading, &TokenMemory::keys, shape().width, room);
}

Rows PagedCache::values(const Reading& reading, float* room) const {
  return gather(reading, &TokenMemory::values, shape().value_width, room);
}

// Only pages with tokens are shared: pages past the end of a sequence are its
// own, so that it may write to them.
void PagedCache::rearrange(const int64_t* parents) {
  std::vector<Table> next;
  for (int64_t s = 0; s < shape().sequences; ++s) {
    const Table& parent = table(parents[s]);
    next.emplace_back(parent.begin(),
                      parent.begin() + pages_for(held(parents[s])));
  }
  for (const Table& pages : next) {
    for (const int64_t page : pages) {
      pool_.share(page);
    }
  }
  tables_.swap(next);
  for (const Table& pages : next) {
    for (const int64_t page : pages) {
      give_back(page);
    }
  }
}

}  // namespace qkvet::impl
