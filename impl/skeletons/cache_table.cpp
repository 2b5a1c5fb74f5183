// SPDX-License-Identifier: Apache-2.0
#include "impl/skeletons/cache_table.h"

#include <vector>

namespace qkvet::impl {
namespace {

CacheBook* cache_of(qkvet_cache* cache) {
  return reinterpret_cast<CacheBook*>(cache);
}

qkvet_status no_such_sequence(qkvet_text* why) {
  return refuse(why, QKVET_INVALID_ARGUMENT, "there is no such sequence");
}

// The result of `work`, or OUT_OF_MEMORY if it throws: no exception crosses the
// C ABI, and the skeleton has then changed nothing.
template <class Work>
qkvet_status guarded(qkvet_text* why, Work work) {
  try {
    return work();
  } catch (const std::exception&) {
    return refuse(why, QKVET_OUT_OF_MEMORY, "no memory for this call");
  }
}

}  // namespace

void destroy_cache(const qkvet_kernel*, qkvet_cache* cache) {
  delete cache_of(cache);
}

qkvet_status step_cache(const qkvet_kernel*, qkvet_cache* cache,
                        const qkvet_cache_args* args, const qkvet_exec* exec,
                        qkvet_text* why) {
  qkvet_cache_args known = {};
  QKVET_TRY(check_exec(exec, why));
  QKVET_TRY(read_struct(args, &known, why));
  return guarded(why, [&] { return cache_of(cache)->step(known, why); });
}

qkvet_status length_of_cache(const qkvet_kernel*, qkvet_cache* cache,
                             int64_t sequence, int64_t* tokens,
                             qkvet_text* why) {
  if (!cache_of(cache)->has(sequence)) {
    return no_such_sequence(why);
  }
  *tokens = cache_of(cache)->length(sequence);
  return QKVET_OK;
}

qkvet_status reset_cache(const qkvet_kernel*, qkvet_cache* cache,
                         int64_t sequence, qkvet_text* why) {
  if (!cache_of(cache)->has(sequence)) {
    return no_such_sequence(why);
  }
  cache_of(cache)->reset(sequence);
  return QKVET_OK;
}

qkvet_status truncate_cache(const qkvet_kernel*, qkvet_cache* cache,
                            int64_t sequence, int64_t tokens, qkvet_text* why) {
  if (!cache_of(cache)->has(sequence)) {
    return no_such_sequence(why);
  }
  if (const char* kept = cache_of(cache)->keeps_more_than(sequence, tokens)) {
    return refuse(why, QKVET_INVALID_ARGUMENT, kept);
  }
  cache_of(cache)->truncate(sequence, tokens);
  return QKVET_OK;
}

qkvet_status evict_cache(const qkvet_kernel*, qkvet_cache* cache,
                         int64_t sequence, int64_t first, int64_t tokens,
                         qkvet_text* why) {
  CacheBook& c = *cache_of(cache);
  if (!c.has(sequence)) {
    return no_such_sequence(why);
  }
  if (const char* wrong = c.cannot_evict(sequence, first, tokens)) {
    return refuse(why, QKVET_INVALID_ARGUMENT, wrong);
  }
  return guarded(why, [&] {
    c.evict(sequence, first, tokens);
    return QKVET_OK;
  });
}

qkvet_status reorder_cache(const qkvet_kernel*, qkvet_cache* cache,
                           const int64_t* parents, qkvet_text* why) {
  CacheBook& c = *cache_of(cache);
  if (parents == nullptr) {
    return refuse(why, QKVET_INVALID_ARGUMENT, "there are no parents");
  }
  for (int64_t s = 0; s < c.shape().sequences; ++s) {
    if (!c.has(parents[s])) {
      return refuse(why, QKVET_INVALID_ARGUMENT,
                    "a parent is a sequence that is not there");
    }
  }
  return guarded(why, [&] {
    c.reorder(parents);
    return QKVET_OK;
  });
}

// An order in which only one sequence changes.
qkvet_status fork_cache(const qkvet_kernel*, qkvet_cache* cache, int64_t from,
                        int64_t to, qkvet_text* why) {
  CacheBook& c = *cache_of(cache);
  if (!c.has(from) || !c.has(to)) {
    return no_such_sequence(why);
  }
  return guarded(why, [&] {
    std::vector<int64_t> parents;
    for (int64_t s = 0; s < c.shape().sequences; ++s) {
      parents.push_back(s == to ? from : s);
    }
    c.reorder(parents.data());
    return QKVET_OK;
  });
}

qkvet_status read_back_cache(const qkvet_kernel*, qkvet_cache* cache,
                             int64_t sequence, const qkvet_tensor* k,
                             const qkvet_tensor* v, qkvet_text* why) {
  const CacheBook& c = *cache_of(cache);
  if (!c.has(sequence)) {
    return no_such_sequence(why);
  }
  if (k == nullptr || v == nullptr) {
    return refuse(why, QKVET_INVALID_ARGUMENT, "k and v are read together");
  }
  return guarded(why, [&] { return c.read_back(sequence, *k, *v, why); });
}

qkvet_status memory_of_cache(const qkvet_kernel*, qkvet_cache* cache,
                             int64_t* bytes, qkvet_text*) {
  *bytes = cache_of(cache)->bytes();
  return QKVET_OK;
}

}  // namespace qkvet::impl
