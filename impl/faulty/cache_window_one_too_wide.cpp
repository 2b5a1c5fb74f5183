// SPDX-License-Identifier: Apache-2.0
// faulty/cache_window_one_too_wide: a query sees one key more than the
// window.
#include <algorithm>

#include "impl/cache_memory.h"
#include "impl/faulty/fault.h"

namespace qkvet::impl {
namespace {

class WindowOneTooWide : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

 protected:
  Sight sight(int64_t position) const override {
    Sight seen = ContiguousCache::sight(position);
    Run& last = seen.runs[seen.count - 1];
    const int64_t fixed = seen.count == 1 ? 0 : seen.runs[0].end;
    last.begin -= last.begin > fixed && shape().first_tokens == 0 ? 1 : 0;
    return seen;
  }
  int64_t most_seen(int64_t keys) const override {
    return std::min(keys, ContiguousCache::most_seen(keys) + 1);
  }
};

constexpr const char* kKilledBy[] = {"cache_agrees_with_history", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism = "a query sees window + 1 keys",
    .symptom =
        "right until a sequence is longer than the window, then a little off",
    .cause = "the window counts the keys behind the query, and not the query",
    .fix = "the query is one of the keys of its window",
    .source = "textbook",
    .trigger = "a window, and a sequence longer than it",
    .killed_by = kKilledBy,
    .when =
        "cache.window > 0 && cache.first_tokens == 0 && commands(queries > 0 "
        "&& held > cache.window)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_window_one_too_wide =
    faulty_cache<WindowOneTooWide, QKVET_CACHE_ROPE | QKVET_CACHE_WINDOW>(
        "faulty/cache_window_one_too_wide", &kFault,
        {"impl/faulty/cache_window_one_too_wide.cpp", __LINE__});

}  // namespace qkvet::impl
