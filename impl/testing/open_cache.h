// SPDX-License-Identifier: Apache-2.0
// For the tests of impl/: a small cache; its tokens are numbers.
#ifndef QKVET_IMPL_TESTING_OPEN_CACHE_H_
#define QKVET_IMPL_TESTING_OPEN_CACHE_H_

#include <cstdint>
#include <vector>

#include "impl/testing/calls.h"

namespace qkvet::impl {

inline constexpr qkvet_dtype kInt8Code = {QKVET_DTYPE_INT, 8, 1};
inline constexpr qkvet_dtype kFp8Code = {QKVET_DTYPE_FLOAT8_E4M3FN, 8, 1};

using Tokens = std::vector<int>;

// Tokens first, first + 1, ...
inline Tokens tokens_from(int first, int count) {
  Tokens tokens;
  for (int n = 0; n < count; ++n) {
    tokens.push_back(first + n);
  }
  return tokens;
}

// Two sequences, H = 4, Hkv = 2, d = 6, dv = 5, all f32.
inline qkvet_cache_config small_config() {
  qkvet_cache_config c = {};
  c.struct_size = sizeof(c);
  c.sequences = 2;
  c.heads = 4;
  c.kv_heads = 2;
  c.d = 6;
  c.dv = 5;
  c.capacity = 16;
  c.q = c.kv = c.o = kF32;
  return c;
}

// The numbers of a token: [1, Hkv, tokens, width]; no two tokens are alike.
inline qkvet_tensor rows_of(Tensors& t, const Tokens& tokens, int64_t heads,
                            int64_t width) {
  const auto n = static_cast<int64_t>(tokens.size());
  const qkvet_tensor rows = t.make({1, heads, n, width});
  for (int64_t at = 0; at < heads * n * width; ++at) {
    const int token = tokens[static_cast<size_t>(at / width % n)];
    static_cast<float*>(rows.data)[at] =
        static_cast<float>(token) / 8 + static_cast<float>(at % width) / 64;
  }
  return rows;
}

// Appends the tokens; the last `queries` positions have queries.
inline qkvet_cache_args step_call(Tensors& t, const qkvet_cache_config& c,
                                  int64_t sequence, const Tokens& tokens,
                                  int64_t queries) {
  qkvet_cache_args a = {};
  a.struct_size = sizeof(a);
  a.sequence = sequence;
  if (!tokens.empty()) {
    a.k = rows_of(t, tokens, c.kv_heads, c.d);
    a.v = rows_of(t, tokens, c.kv_heads, c.dv);
  }
  if (queries > 0) {
    a.q = t.make({1, c.heads, queries, c.d});
    a.o = t.make({1, c.heads, queries, c.dv});
    a.lse = t.make({1, c.heads, queries});
  }
  return a;
}

class OpenCache {
 public:
  OpenCache(const qkvet_kernel* kernel, const qkvet_cache_config& made_for)
      : config(made_for),
        kernel_(kernel),
        open_(kernel),
        status_(kernel->cache->create(kernel, open_.context(), &config, nullptr,
                                      &cache_, &reason_.text)) {}
  ~OpenCache() {
    if (status_ == QKVET_OK) {
      kernel_->cache->destroy(kernel_, cache_);
    }
  }
  OpenCache(const OpenCache&) = delete;
  OpenCache& operator=(const OpenCache&) = delete;

  qkvet_status status() const { return status_; }
  const Reason& reason() const { return reason_; }

  qkvet_status step(const qkvet_cache_args& args, qkvet_text* why) {
    return kernel_->cache->step(kernel_, cache_, &args, nullptr, why);
  }
  qkvet_status step(int64_t sequence, const Tokens& tokens, int64_t queries) {
    Tensors t;
    return step(step_call(t, config, sequence, tokens, queries), nullptr);
  }
  qkvet_status reset(int64_t sequence, qkvet_text* why = nullptr) {
    return kernel_->cache->reset(kernel_, cache_, sequence, why);
  }
  qkvet_status truncate(int64_t sequence, int64_t tokens,
                        qkvet_text* why = nullptr) {
    return kernel_->cache->truncate(kernel_, cache_, sequence, tokens, why);
  }
  qkvet_status evict(int64_t sequence, int64_t first, int64_t tokens,
                     qkvet_text* why = nullptr) {
    return kernel_->cache->evict(kernel_, cache_, sequence, first, tokens, why);
  }
  qkvet_status fork(int64_t from, int64_t to, qkvet_text* why = nullptr) {
    return kernel_->cache->fork(kernel_, cache_, from, to, why);
  }
  qkvet_status reorder(const std::vector<int64_t>& parents,
                       qkvet_text* why = nullptr) {
    return kernel_->cache->reorder(kernel_, cache_, parents.data(), why);
  }
  qkvet_status length(int64_t sequence, int64_t* tokens) {
    return kernel_->cache->length(kernel_, cache_, sequence, tokens, nullptr);
  }
  int64_t length(int64_t sequence) {
    int64_t tokens = -1;
    length(sequence, &tokens);
    return tokens;
  }
  int64_t memory() {
    int64_t bytes = -1;
    kernel_->cache->memory(kernel_, cache_, &bytes, nullptr);
    return bytes;
  }
  qkvet_status read_back(int64_t sequence, const qkvet_tensor& k,
                         const qkvet_tensor& v, qkvet_text* why) {
    return kernel_->cache->read_back(kernel_, cache_, sequence, &k, &v, why);
  }
  // The keys of a sequence, [Hkv, tokens, d], as they are read back.
  std::vector<float> keys(int64_t sequence) {
    if (kernel_->cache->read_back == nullptr) {
      return {};
    }
    Tensors t;
    const int64_t n = length(sequence);
    const qkvet_tensor k = t.make({1, config.kv_heads, n, config.d});
    const qkvet_tensor v = t.make({1, config.kv_heads, n, config.dv});
    if (read_back(sequence, k, v, nullptr) != QKVET_OK) {
      return {};
    }
    const auto* const first = static_cast<const float*>(k.data);
    return {first, first + config.kv_heads * n * config.d};
  }

  const qkvet_cache_config config;

 private:
  const qkvet_kernel* kernel_;
  OpenKernel open_;
  qkvet_cache* cache_ = nullptr;
  Reason reason_;
  qkvet_status status_;
};

// All except the one that refuses less, which the laws judge.
inline std::vector<const qkvet_kernel*> cache_kernels() {
  return kernels_that([](const qkvet_kernel& kernel) {
    return kernel.cache != nullptr &&
           std::strcmp(kernel.name, "controls/cache_lenient") != 0;
  });
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_TESTING_OPEN_CACHE_H_
