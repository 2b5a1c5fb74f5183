// SPDX-License-Identifier: Apache-2.0
// faulty/kv_head_of_shard: a shard counts its query heads from 0 and has all
// keys.
#include <algorithm>

#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct KvHeadOfShard : OptionSeams {
  static void share(int64_t threads, ForwardCall*) {
    shards() = std::max<int64_t>(threads, 1);
  }
  static RowAt kv_head(const ForwardCall& call, RowAt at) {
    return {at.b, local(call, at.h) / call.group(), 0};
  }

 private:
  static int64_t& shards() {
    thread_local int64_t count = 1;
    return count;
  }
  // What a shard takes for the number of head h.
  static int64_t local(const ForwardCall& call, int64_t h) {
    const int64_t heads = (call.heads + shards() - 1) / shards();
    return h % heads;
  }
};

constexpr const char* kKilledBy[] = {"threads_change_nothing", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "each thread numbers its query heads from 0 and finds their keys by "
        "that number",
    .symptom =
        "one thread is right; with several all but the first attend to the "
        "keys of the first heads",
    .cause =
        "query heads are divided, key/value heads are not, and the offset of "
        "the share is left out",
    .fix = "add the first head of the share before the division by the group",
    .source = "GenerelSchwerz/llama.cpp#48",
    .trigger = "several threads, and Hkv > 1",
    .killed_by = kKilledBy,
    .when = "threads > 1 && Hkv > 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_kv_head_of_shard =
    option_fault<KvHeadOfShard>("faulty/kv_head_of_shard", &kFault,
                                {"impl/faulty/kv_head_of_shard.cpp", __LINE__});

}  // namespace qkvet::impl
