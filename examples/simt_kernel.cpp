// SPDX-License-Identifier: Apache-2.0
// A CUDA kernel, judged without a GPU: nvcc compiles this file for one, and any
// other compiler of C++17 for threads that qkvet/simt runs on the CPU. Correct.
//
// A block computes a row of o. It takes the keys in tiles, one for each thread,
// and keeps maximum, sum and output up to date from tile to tile.
//
// With -DBROKEN there is no barrier behind a sum: a thread that is done brings
// its part of the next one while others still read the last.
#include <cmath>

#include "qkvet/plain.h"
#include "qkvet/simt/runtime.h"

constexpr int kThreads = 64;  // of a block, and keys of a tile

// The maximum or the sum of what the threads of a block bring.
__device__ float of_block(float mine, bool maximum) {
  __shared__ float parts[kThreads];
  parts[threadIdx.x] = mine;
  __syncthreads();
  float all = parts[0];
  for (int n = 1; n < kThreads; ++n)
    all = maximum ? fmaxf(all, parts[n]) : all + parts[n];
#ifndef BROKEN
  __syncthreads();  // the next call overwrites the parts
#endif
  return all;
}

__global__ void attend(const float* q, const float* k, const float* v, float* o,
                       int64_t Tq, int64_t Tk, int64_t d, int causal) {
  SIMT_DYNAMIC_SHARED(float, row);  // of q
  float* const sums = row + d;      // of weighted values
  __shared__ float weights[kThreads];

  const int64_t head = blockIdx.x / Tq, i = blockIdx.x % Tq;
  const int64_t seen = causal ? i + Tk - Tq + 1 : Tk;
  const int t = static_cast<int>(threadIdx.x);
  q += blockIdx.x * d;
  o += blockIdx.x * d;
  k += head * Tk * d;
  v += head * Tk * d;
  for (int64_t c = t; c < d; c += kThreads) {
    row[c] = q[c] / sqrtf(static_cast<float>(d));
    sums[c] = 0;
  }
  __syncthreads();

  float max = -INFINITY, sum = 0;
  for (int64_t first = 0; first < seen; first += kThreads) {
    const int64_t keys = seen - first < kThreads ? seen - first : kThreads;
    float score = -INFINITY;
    if (t < keys) {
      score = 0;
      for (int64_t c = 0; c < d; ++c) score += row[c] * k[(first + t) * d + c];
    }
    const float old = max;
    max = fmaxf(max, of_block(score, true));
    weights[t] = expf(score - max);
    sum = sum * expf(old - max) + of_block(weights[t], false);
    for (int64_t c = t; c < d; c += kThreads) {
      sums[c] *= expf(old - max);
      for (int64_t n = 0; n < keys; ++n)
        sums[c] += weights[n] * v[(first + n) * d + c];
    }
  }
  for (int64_t c = t; c < d; c += kThreads) o[c] = sums[c] / sum;
}

// On a GPU the pointers would be those of its memory.
static void attention(const float* q, const float* k, const float* v, float* o,
                      int64_t B, int64_t H, int64_t Tq, int64_t Tk, int64_t d,
                      int causal) {
  const unsigned rows = static_cast<unsigned>(B * H * Tq);
  const size_t bytes = 2 * static_cast<size_t>(d) * sizeof(float);
  simt::or_abort(SIMT_LAUNCH(attend, rows, kThreads, bytes, nullptr, q, k, v, o,
                             Tq, Tk, d, causal));
}

QKVET_PLAIN_KERNEL(attention, "simt_kernel/attend");
