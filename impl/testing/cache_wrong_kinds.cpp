// SPDX-License-Identifier: Apache-2.0
#include "impl/testing/cache_wrong_kinds.h"

#include <algorithm>

#include "impl/kv_cache/prefix.h"
#include "impl/skeletons/cache_table.h"
#include "impl/testing/family_fixture.h"

namespace qkvet::impl {
namespace {

// Every page has the hash of every other one: only what is compared is left.
class OneHash : public PrefixCache {
 public:
  using PrefixCache::PrefixCache;

 protected:
  uint64_t hash_of(int64_t, size_t) override { return 0; }
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
                      {"impl/testing/cache_wrong_kinds.cpp", __LINE__}, table);
}

constexpr qkvet_kernel kForgiving = wrong("wrong/forgives", &kForgives);
constexpr qkvet_kernel kReading = wrong("wrong/reads_first", &kReadsTheFirst);
constexpr qkvet_kernel kForking = wrong("wrong/forks", &kForksSomewhere);
constexpr qkvet_kernel kNotQuantised =
    wrong("wrong/not_quantised", &kCacheTable<ContiguousCache, kQuantises>);

constexpr qkvet_kernel kOneHash = cache_kernel(
    "right/one_hash", "prefixes that all have one hash",
    {"impl/testing/cache_wrong_kinds.cpp", __LINE__}, &kCacheTable<OneHash>);

}  // namespace

std::vector<WrongKind> wrong_kinds() {
  return {{"forks", find_kernel("faulty/cache_shared_page_not_copied")},
          {"orders", find_kernel("faulty/cache_reorder_in_place")},
          {"windows", find_kernel("faulty/cache_window_one_too_wide")},
          {"windows", find_kernel("faulty/cache_first_tokens_forgotten")},
          {"rollback", find_kernel("faulty/cache_ring_trim_moves_counter")},
          {"refusals", &kForgiving},
          {"contents", &kReading},
          {"contents", &kNotQuantised},
          {"refusals", &kForking}};
}

const qkvet_kernel* prefixes_of_one_hash() { return &kOneHash; }

}  // namespace qkvet::impl
