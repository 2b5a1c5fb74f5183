// SPDX-License-Identifier: Apache-2.0
// Faults of threads that number the heads of their share from 0.
#ifndef QKVET_IMPL_FAULTY_SHARD_SEAMS_H_
#define QKVET_IMPL_FAULTY_SHARD_SEAMS_H_

#include <algorithm>
#include <cstdint>

#include "impl/faulty/option_fault.h"

namespace qkvet::impl {

struct ShardSeams : OptionSeams {
  static void share(int64_t threads, ForwardCall*) {
    shards() = std::max<int64_t>(threads, 1);
  }

 protected:
  // What a shard takes for the number of head h.
  static int64_t local(const ForwardCall& call, int64_t h) {
    const int64_t heads = (call.heads + shards() - 1) / shards();
    return h % heads;
  }

 private:
  static int64_t& shards() {
    thread_local int64_t count = 1;
    return count;
  }
};

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_FAULTY_SHARD_SEAMS_H_
