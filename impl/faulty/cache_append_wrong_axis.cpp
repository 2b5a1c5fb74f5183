// SPDX-License-Identifier: Apache-2.0
// faulty/cache_append_wrong_axis: new keys are concatenated along the
// head axis.
#include "impl/cache_memory.h"
#include "impl/faulty/fault.h"

namespace qkvet::impl {
namespace {

class AppendWrongAxis : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

 protected:
  // The memory of a sequence is taken for [Hkv, n, d] ...
  int64_t first_slot(int64_t sequence, int64_t head, int64_t n) const override {
    return ContiguousCache::first_slot(sequence, 0, n) + head * n;
  }
  // ... but a step was put behind all that was there, [Hkv, Tnew, d].
  int64_t key_slot(const CacheStep& step, int64_t before, int64_t head,
                   int64_t j) const override {
    return first_slot(step.sequence, 0, before) + shape().kv_heads * before +
           head * step.tokens + j;
  }
  int64_t value_slot(const CacheStep& step, int64_t before, int64_t head,
                     int64_t j) const override {
    return key_slot(step, before, head, j);
  }
};

constexpr const char* kKilledBy[] = {"cache_decode_equals_prefill",
                                     "cache_chunks_equal_whole",
                                     "cache_agrees_with_history", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "a step is concatenated along the heads and the result is read as "
        "[Hkv, L, d]",
    .symptom =
        "a prompt in one step is right; from the next step on heads see tokens "
        "of each other",
    .cause = "cat(..., dim=1) on [B, Hkv, L, d], and a reshape that hides it",
    .fix = "concatenate along the tokens",
    .source = "textbook",
    .trigger = "more than one key/value head and more than one step",
    .killed_by = kKilledBy,
    .when =
        "Hkv > 1 && commands(before > 0 && (new > 0 || 0 < held && held < "
        "before))",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_append_wrong_axis =
    faulty_cache<AppendWrongAxis>(
        "faulty/cache_append_wrong_axis", &kFault,
        {"impl/faulty/cache_append_wrong_axis.cpp", __LINE__});

}  // namespace qkvet::impl
