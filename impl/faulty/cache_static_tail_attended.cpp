// SPDX-License-Identifier: Apache-2.0
// faulty/cache_static_tail_attended: a decode attends over the whole capacity.
#include <cstddef>
#include <vector>

#include "impl/cache_memory.h"
#include "impl/faulty/fault.h"

namespace qkvet::impl {
namespace {

class StaticTailAttended : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

 protected:
  // The slots behind the end are zero, and nothing masks them.
  qkvet_status attend_rows(const ForwardCall& call,
                           qkvet_text* why) const override {
    if (call.queries > 1) {
      return ContiguousCache::attend_rows(call, why);
    }
    std::vector<float> keys, values;
    ForwardCall all = call;
    all.k = widened(call.k, call.keys, call.width, &keys);
    all.v = widened(call.v, call.keys, call.value_width, &values);
    all.keys = shape().capacity;
    all.diagonal = all.keys - 1;
    return ContiguousCache::attend_rows(all, why);
  }

 private:
  View<const float> widened(const View<const float>& rows, int64_t n,
                            int64_t width, std::vector<float>* room) const {
    room->resize(static_cast<size_t>(shape().capacity * width));
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t c = 0; c < width; ++c) {
        (*room)[static_cast<size_t>(j * width + c)] =
            rows.at(0, 0, j)[c * rows.step[3]];
      }
    }
    return {room->data(), {0, 0, width, 1}};
  }
};

constexpr const char* kKilledBy[] = {"cache_decode_equals_prefill",
                                     "cache_agrees_with_history", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "a decode attends over every slot of the capacity; those without a "
        "token are zero",
    .symptom = "answers shrink towards 0, the more the larger the capacity is",
    .cause = "the cache returns its buffer and not the part of it that is used",
    .fix = "attend over the tokens that are held, or mask the rest",
    .source = "huggingface/transformers#30414",
    .trigger = "one query, and a sequence that is not full",
    .killed_by = kKilledBy,
    .when = "commands(queries == 1 && held < capacity)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_static_tail_attended =
    faulty_cache<StaticTailAttended>(
        "faulty/cache_static_tail_attended", &kFault,
        {"impl/faulty/cache_static_tail_attended.cpp", __LINE__});

}  // namespace qkvet::impl
