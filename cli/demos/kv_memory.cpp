// SPDX-License-Identifier: Apache-2.0
#include "cli/demos/kv_memory.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "cli/base/checked.h"
#include "core/case/story.h"

namespace qkvet::cli {
namespace {

bool fits(const KvGeometry& geometry, int64_t most_bytes) {
  const auto bytes = kv_bytes(geometry);
  return bytes && *bytes <= most_bytes;
}

// All parts differ, because a cache that shares equal prefixes would need less
// memory. Finite and below 2 in every type: no exponent has its highest bits
// set.
std::vector<std::byte> unlike_bytes(int64_t count) {
  std::vector<std::byte> bytes(static_cast<size_t>(count));
  uint32_t bits = 0;
  for (std::byte& byte : bytes) {
    bits = bits * 1664525 + 1013904223;  // Numerical Recipes' generator
    byte = static_cast<std::byte>(bits >> 24 & 0x3f);
  }
  return bytes;
}

bool died(CallStatus status) {
  return status == CallStatus::kFault || status == CallStatus::kCrash ||
         status == CallStatus::kHang;
}

}  // namespace

std::optional<int64_t> kv_bytes(const KvGeometry& g) {
  return checked_product(
      {2, g.layers, g.Hkv, g.d, g.context, g.batch, dtype_bytes(g.dtype)});
}

KvSample sample_of(const KvGeometry& whole, int64_t most_bytes) {
  KvGeometry g = whole;
  g.layers = 1;
  // A divisor, so that every sequence represents equally many.
  g.batch = std::min(g.batch, kMostSequences);
  while (whole.batch % g.batch != 0) --g.batch;
  if (!fits(g, most_bytes)) g.Hkv = 1;
  if (!fits(g, most_bytes)) g.batch = 1;
  while (!fits(g, most_bytes) && g.context > 1) g.context -= g.context / 2;
  const struct {
    const char* name;
    int64_t from, to;
  } rows[] = {{"layers", whole.layers, g.layers},
              {"batch", whole.batch, g.batch},
              {"kv-heads", whole.Hkv, g.Hkv},
              {"context", whole.context, g.context}};
  KvSample sample{g, ""};
  for (const auto& row : rows)
    if (row.from != row.to)
      sample.scaled += (sample.scaled.empty() ? "" : ", ") +
                       std::string(row.name) + " " + std::to_string(row.from) +
                       " -> " + std::to_string(row.to);
  return sample;
}

double scaled_up(int64_t bytes, const KvGeometry& sample,
                 const KvGeometry& whole) {
  return static_cast<double>(bytes) * static_cast<double>(*kv_bytes(whole)) /
         static_cast<double>(*kv_bytes(sample));
}

std::vector<StoredAs> ways_to_store(Dtype dtype) {
  if (dtype == Dtype::kInt8)
    return {StoredAs::kInt8PerToken, StoredAs::kInt8PerChannel};
  if (dtype == Dtype::kFp8e4m3)
    return {StoredAs::kFp8PerToken, StoredAs::kFp8PerChannel};
  return {StoredAs::kAsGiven};
}

KvAllocated allocate(const KvGeometry& sample, StoredAs stored,
                     Executor& executor, int kernel) {
  const Dtype given = stored == StoredAs::kAsGiven ? sample.dtype : Dtype::kF32;
  const int64_t elements = sample.Hkv * sample.context * sample.d;
  const int64_t bytes = elements * dtype_bytes(given);
  const std::vector<std::byte> data = unlike_bytes(bytes * sample.batch);
  const std::vector<float> ones(static_cast<size_t>(sample.Hkv * sample.d), 1);
  KernelCall call;
  call.q_dtype = call.kv_dtype = call.o_dtype = given;
  call.shape = {sample.batch, sample.Hkv, sample.Hkv, 0, 0, sample.d, sample.d};
  call.operation = Operation::kCacheCreate;
  call.tokens = sample.context;
  call.cache.stored = stored;
  if (call.cache.per_channel())
    call.k_scale = call.v_scale =
        reinterpret_cast<const std::byte*>(ones.data());
  std::vector<KernelCall> calls = {call};
  call.operation = Operation::kCacheStep;
  call.cache = {};
  call.k_scale = call.v_scale = nullptr;
  call.shape.B = 1;
  call.shape.Tk = sample.context;
  // A slow copy; its hang limit is much later (SandboxOptions).
  constexpr double kSecondsPerElement = 1e-8;
  call.oracle_seconds = kSecondsPerElement * static_cast<double>(elements);
  for (call.sequence = 0; call.sequence < sample.batch; ++call.sequence) {
    call.k = call.v = data.data() + call.sequence * bytes;
    calls.push_back(call);
  }
  const std::vector<CallOutcome> outcomes = executor.run(kernel, calls);
  for (const CallOutcome& outcome : outcomes)
    if (outcome.status != CallStatus::kDone)
      return {-1, outcome.text, died(outcome.status)};
  return {outcomes.back().cache_bytes, "", false};
}

}  // namespace qkvet::cli
