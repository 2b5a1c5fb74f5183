// SPDX-License-Identifier: Apache-2.0
// Kernels for comparison: matrix products of cuBLAS and the attention of cuDNN.
// Both are optional. cuBLAS is opened when the program runs; cuDNN needs its
// frontend (headers), found when the program is built.
#ifndef QKVET_IMPL_CUDA_BENCH_PEERS_H_
#define QKVET_IMPL_CUDA_BENCH_PEERS_H_

#include <memory>
#include <string>

#include "impl/cuda/bench/device_timing.h"

namespace qkvet::bench {

// c = a b of n x n matrices of bf16, sums in f32. Each call is one product.
Contender matrix_product(const Memory& a, const Memory& b, const Memory& c,
                         int n);

// Contiguous [B, H, T, d] of bf16.
struct Attention {
  int64_t batch = 1, heads = 1, kv_heads = 1, queries = 1, keys = 1, width = 64;
  bool causal = false;
  const Memory* q = nullptr;
  const Memory* k = nullptr;
  const Memory* v = nullptr;
  const Memory* o = nullptr;
};

Contender cudnn_attention(const Attention& attention);

}  // namespace qkvet::bench

#endif  // QKVET_IMPL_CUDA_BENCH_PEERS_H_
