// SPDX-License-Identifier: Apache-2.0
#include "impl/cache_wrong_kinds.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "impl/cache_table.h"
#include "impl/kv_cache/pages.h"

namespace qkvet::impl {
namespace {

// Appends to a page that a fork still shares.
class NoCopyOnWrite : public PagedCache {
 public:
  using PagedCache::PagedCache;

 protected:
  const char* reserve(int64_t sequence, int64_t tokens) override {
    Table& pages = table(sequence);
    while (static_cast<int64_t>(pages.size()) < pages_for(tokens)) {
      if (!pool().provide(1)) {
        return "no memory for more pages";
      }
      pages.push_back(pool().take());
    }
    return nullptr;
  }
};

// The second sequence may find the first one overwritten.
class OneByOne : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

 protected:
  void rearrange(const int64_t* parents) override {
    std::vector<int64_t> one(static_cast<size_t>(shape().sequences));
    for (size_t s = 0; s < one.size(); ++s) {
      std::iota(one.begin(), one.end(), 0);
      one[s] = parents[s];
      ContiguousCache::rearrange(one.data());
    }
  }
};

// The window ends in front of the query.
class WindowBehind : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

 protected:
  Sight sight(int64_t position) const override {
    Sight seen = ContiguousCache::sight(position);
    Run& last = seen.runs[seen.count - 1];
    const int64_t late = seen.count == 1 && last.begin > 0 ? 1 : 0;
    last.begin -= late;
    last.end -= late;
    return seen;
  }
};

class FirstTokensForgotten : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

 protected:
  Sight sight(int64_t position) const override {
    Sight seen = ContiguousCache::sight(position);
    seen.runs[0] = seen.runs[seen.count - 1];
    seen.count = 1;
    return seen;
  }
};

// What a ring with one slot too few has overwritten.
class OneSlotTooFew : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

 protected:
  Rows values(const Reading& reading, float* room) const override {
    const Rows all = ContiguousCache::values(reading, room);
    const int64_t dv = shape().value_width;
    const int64_t kept =
        mark(reading.sequence) - shape().window - shape().rollback + 1;
    for (int64_t n = 0; n < reading.run.count() * dv; ++n) {
      const int64_t token = reading.run.begin + n / dv;
      const bool lost =
          shape().window > 0 && shape().first_tokens <= token && token < kept;
      room[n] = lost ? std::numeric_limits<float>::quiet_NaN()
                     : all.row(n / dv)[n % dv];
    }
    return {room, dv, 1};
  }
};

qkvet_status create_with_more_rollback(const qkvet_kernel* self,
                                       qkvet_context* context,
                                       const qkvet_cache_config* config,
                                       const qkvet_exec* exec,
                                       qkvet_cache** cache, qkvet_text* why) {
  qkvet_cache_config more = *config;
  more.rollback += config->window > 0 ? 1 : 0;
  return create_cache<ContiguousCache>(self, context, &more, exec, cache, why);
}

qkvet_status read_the_first_sequence(const qkvet_kernel* self,
                                     qkvet_cache* cache, int64_t,
                                     const qkvet_tensor* k,
                                     const qkvet_tensor* v, qkvet_text* why) {
  return read_back_cache(self, cache, 0, k, v, why);
}

qkvet_status fork_somewhere(const qkvet_kernel* self, qkvet_cache* cache,
                            int64_t from, int64_t to, qkvet_text* why) {
  return fork_cache(self, cache, std::max<int64_t>(from, 0),
                    std::min<int64_t>(to, 1), why);
}

constexpr qkvet_cache_table kForgives = [] {
  qkvet_cache_table table = kCacheTable<ContiguousCache>;
  table.create = create_with_more_rollback;
  return table;
}();
constexpr qkvet_cache_table kReadsTheFirst = [] {
  qkvet_cache_table table = kCacheTable<ContiguousCache>;
  table.read_back = read_the_first_sequence;
  return table;
}();
constexpr qkvet_cache_table kForksSomewhere = [] {
  qkvet_cache_table table = kCacheTable<ContiguousCache>;
  table.fork = fork_somewhere;
  return table;
}();
// Says that it stores int8, and stores what it gets.
constexpr uint64_t kQuantises = kCacheOptions | QKVET_CACHE_INT8_PER_TOKEN;

constexpr qkvet_kernel wrong(const char* name, const qkvet_cache_table* table) {
  return cache_kernel(name, "wrong on purpose",
                      {"impl/cache_wrong_kinds.cpp", __LINE__}, table);
}

constexpr qkvet_kernel kNoCopyOnWrite =
    wrong("wrong/no_copy_on_write", &kCacheTable<NoCopyOnWrite>);
constexpr qkvet_kernel kOneByOne =
    wrong("wrong/one_by_one", &kCacheTable<OneByOne>);
constexpr qkvet_kernel kWindowBehind =
    wrong("wrong/window_behind", &kCacheTable<WindowBehind>);
constexpr qkvet_kernel kFirstTokensForgotten =
    wrong("wrong/first_tokens_forgotten", &kCacheTable<FirstTokensForgotten>);
constexpr qkvet_kernel kOneSlotTooFew =
    wrong("wrong/one_slot_too_few", &kCacheTable<OneSlotTooFew>);
constexpr qkvet_kernel kForgiving = wrong("wrong/forgives", &kForgives);
constexpr qkvet_kernel kReading = wrong("wrong/reads_first", &kReadsTheFirst);
constexpr qkvet_kernel kForking = wrong("wrong/forks", &kForksSomewhere);
constexpr qkvet_kernel kNotQuantised =
    wrong("wrong/not_quantised", &kCacheTable<ContiguousCache, kQuantises>);

}  // namespace

std::vector<WrongKind> wrong_kinds() {
  return {{"forks", &kNoCopyOnWrite},    {"orders", &kOneByOne},
          {"windows", &kWindowBehind},   {"windows", &kFirstTokensForgotten},
          {"rollback", &kOneSlotTooFew}, {"refusals", &kForgiving},
          {"contents", &kReading},       {"contents", &kNotQuantised},
          {"refusals", &kForking}};
}

}  // namespace qkvet::impl
