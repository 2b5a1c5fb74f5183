// SPDX-License-Identifier: Apache-2.0
// The memory of KV caches: by the formula, and as a kernel allocates it.
#ifndef QKVET_CLI_DEMOS_KV_MEMORY_H_
#define QKVET_CLI_DEMOS_KV_MEMORY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/dtype.h"
#include "core/call/cache_form.h"
#include "core/door/executor.h"

namespace qkvet::cli {

struct KvGeometry {
  int64_t layers = 1;
  int64_t Hkv = 1;
  int64_t d = 1;  // also dv
  int64_t context = 1;
  int64_t batch = 1;
  Dtype dtype = Dtype::kF32;
};

// 2 (K and V) x layers x Hkv x d x context x batch x bytes of an element.
// Absent if that is more than 2^63 - 1.
std::optional<int64_t> kv_bytes(const KvGeometry& geometry);

// A sample that is small enough to be tried, and its scale. It is a cache of
// one layer, as many sequences as a story can have, and so on. Each extent is
// reduced only as far as necessary: the proportional ones first (layers,
// sequences, heads), and last the context, because caches allocate more or less
// than it needs.
struct KvSample {
  KvGeometry geometry;
  std::string scaled;  // "layers 32 -> 1, batch 16 -> 8"; "" for none
};
KvSample sample_of(const KvGeometry& whole, int64_t most_bytes);

// Bytes of the whole if the sample takes `bytes`, in proportion to the formula.
// The formula must apply to both.
double scaled_up(int64_t bytes, const KvGeometry& sample,
                 const KvGeometry& whole);

struct KvAllocated {
  int64_t bytes = -1;  // -1: unknown
  std::string error;   // the kernel keeps no such cache: why
  bool died = false;   // the kernel, which is the error
};
// A cache of one layer, with a context in each of its sequences. `stored` is
// one of ways_to_store(): codes are made from f32.
KvAllocated allocate(const KvGeometry& sample, StoredAs stored,
                     Executor& executor, int kernel);

// As given, and with scales per token and per channel.
std::vector<StoredAs> ways_to_store(Dtype dtype);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_DEMOS_KV_MEMORY_H_
