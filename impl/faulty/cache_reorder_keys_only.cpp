// SPDX-License-Identifier: Apache-2.0
// faulty/cache_reorder_keys_only: beams exchange their keys and keep their
// values.
#include "impl/cache_memory.h"
#include "impl/faulty/fault.h"

namespace qkvet::impl {
namespace {

class ReorderKeysOnly : public ContiguousCache {
 public:
  using ContiguousCache::ContiguousCache;

 protected:
  void rearrange(const int64_t* parents) override {
    const int64_t row = shape().width * bytes_of(shape().storage);
    const Regions keys(memory(0).keys.get(),
                       shape().kv_heads * shape().capacity * row, parents,
                       shape().sequences);
    keys.write();
  }
};

constexpr const char* kKilledBy[] = {"cache_reorder_moves_histories",
                                     "cache_agrees_with_history", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "a reorder moves keys and lengths, and leaves the values where they "
        "are",
    .symptom =
        "greedy decoding is right; beams attend by their own keys to the "
        "values of others",
    .cause =
        "tensors to reorder are found by a name, and values have another one",
    .fix = "reorder everything that a sequence owns",
    .source = "huggingface/transformers#46612, wenet-e2e/wenet#1625",
    .trigger = "a fork, or a reorder that moves a sequence",
    .killed_by = kKilledBy,
    .when = "commands(verb == fork || verb == reorder)",
};

}  // namespace

extern constinit const qkvet_kernel faulty_cache_reorder_keys_only =
    faulty_cache<ReorderKeysOnly>(
        "faulty/cache_reorder_keys_only", &kFault,
        {"impl/faulty/cache_reorder_keys_only.cpp", __LINE__});

}  // namespace qkvet::impl
