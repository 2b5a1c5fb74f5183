// SPDX-License-Identifier: Apache-2.0
// faulty/kv_head_of_shard: a shard counts its query heads from 0 and has all
// keys.
#include "impl/faulty/shard_seams.h"

namespace qkvet::impl {
namespace {

struct KvHeadOfShard : ShardSeams {
  static RowAt kv_head(const ForwardCall& call, RowAt at) {
    return {at.b, local(call, at.h) / call.group(), 0};
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
