// SPDX-License-Identifier: Apache-2.0
// faulty/alibi_slopes_of_shard: a shard counts the heads of its slopes from 0.
#include <algorithm>

#include "impl/faulty/option_fault.h"

namespace qkvet::impl {
namespace {

struct AlibiSlopesOfShard : OptionSeams {
  static void share(int64_t threads, ForwardCall*) {
    shards() = std::max<int64_t>(threads, 1);
  }
  static float slope(const ForwardCall& call, int64_t h) {
    return call.options.slope_of(local(call, h));
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
