// SPDX-License-Identifier: Apache-2.0
// Shared parts of several kernels: blocks load rows of a head into shared
// memory as f32, and write outputs.
#ifndef QKVET_IMPL_CUDA_BLOCK_H_
#define QKVET_IMPL_CUDA_BLOCK_H_

#include <cmath>

#include "impl/cuda/device_call.h"

namespace qkvet::impl {

inline constexpr int kBlockThreads = 128;

__device__ inline float minus_infinity() {
  return __uint_as_float(0xff800000u);
}

// The maximum, and the sum, of the values of kLanes neighbouring lanes,
// returned in each of them. Halves are added, then halves of these.
template <int kLanes>
__device__ float max_of_lanes(float x) {
  for (int bit = kLanes / 2; bit > 0; bit /= 2) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, bit));
  }
  return x;
}

template <int kLanes>
__device__ float sum_of_lanes(float x) {
  for (int bit = kLanes / 2; bit > 0; bit /= 2) {
    x += __shfl_xor_sync(0xffffffffu, x, bit);
  }
  return x;
}

// A score of a key at this distance from the position of its row. Without
// slopes nothing is added.
__device__ inline float with_alibi(float score, float slope, int distance) {
  return slope == 0 ? score
                    : score - slope * fabsf(static_cast<float>(distance));
}

// Copies tokens first, first + 1, ... of k or v of a member and key/value head
// to rows of `stride` floats. Tokens from `end` on and channels from `width` to
// `padded` become 0: nothing past a length is ever read.
template <class T, class Tokens>
__device__ void load_tokens(const DeviceCall& call, const Tokens& from, int b,
                            int head, int first, int end, int rows, int width,
                            int padded, float* to, int stride) {
  for (int n = threadIdx.x; n < rows * padded; n += kBlockThreads) {
    const int row = n / padded, c = n % padded;
    float value = 0;
    if (first + row < end && c < width) {
      const T* const at = call.token<const T>(from, b, head, first + row);
      value = to_f32(at[from.channel(c)]);
    }
    to[row * stride + c] = value;
  }
}

// Writes channels c, c + step, ... of o of row i with weights that sum to
// `sum`: 0 if it saw no key.
template <class T>
__device__ void write_channels(const DeviceCall& call, int b, int h, int i,
                               float sum, const float* acc, int c, int step) {
  T* const o = call.row<T>(call.o, b, h, i);
  for (int n = 0; c < call.value_width; ++n, c += step) {
    o[c * call.o.step[3]] = from_f32<T>(sum == 0 ? 0.0f : acc[n] / sum);
  }
}

__device__ inline void write_lse(const DeviceCall& call, int b, int h, int i,
                                 float max, float sum) {
  if (call.lse.data != nullptr) {
    *call.row<float>(call.lse, b, h, i) =
        sum == 0 ? minus_infinity() : max + logf(sum);
  }
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CUDA_BLOCK_H_
