// SPDX-License-Identifier: Apache-2.0
// faulty/alibi_slopes_of_shard: a shard counts the heads of its slopes from 0.
#include "impl/faulty/shard_seams.h"

namespace qkvet::impl {
namespace {

struct AlibiSlopesOfShard : ShardSeams {
  static float slope(const ForwardCall& call, int64_t h) {
    return call.options.slope_of(local(call, h));
  }
};

constexpr const char* kKilledBy[] = {"threads_change_nothing", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "each thread numbers its heads from 0 and takes the slopes of those "
        "numbers",
    .symptom =
        "one thread is right; with several all but the first use the slopes of "
        "the first heads",
    .cause =
        "the slopes are a function of the head, and the head is that of the "
        "share",
    .fix = "add the first head of the share",
    .source = "flashinfer-ai/flashinfer#1606, vllm-project/vllm#9136",
    .trigger = "ALiBi, several threads, and H > 1",
    .killed_by = kKilledBy,
    .when = "alibi && threads > 1 && H > 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_alibi_slopes_of_shard =
    option_fault<AlibiSlopesOfShard, QKVET_OPTION_ALIBI>(
        "faulty/alibi_slopes_of_shard", &kFault,
        {"impl/faulty/alibi_slopes_of_shard.cpp", __LINE__});

}  // namespace qkvet::impl
