// SPDX-License-Identifier: Apache-2.0
// The work of a block of flash_mma on a tile of keys: loads it to shared
// memory, computes scores and weights, and adds up values.
#ifndef QKVET_IMPL_CUDA_FLASH_MMA_TILE_H_
#define QKVET_IMPL_CUDA_FLASH_MMA_TILE_H_

#include <cmath>
#include <cstdint>

#include "impl/cuda/block.h"
#include "impl/cuda/device_call.h"
#include "impl/cuda/tensor_core.h"

namespace qkvet::impl {

inline constexpr int kMmaRows = 64;      // of a block
inline constexpr int kMmaWarpRows = 16;  // of a warp of it
inline constexpr int kMmaKeys = 64;      // of a tile
inline constexpr int kMmaStep = 16;      // keys or channels of a product
inline constexpr int kMmaPiece = 8;      // halves in 16 bytes
inline constexpr float kMmaLog2E = 1.4426950408889634f;
inline constexpr float kMmaLn2 = 0.6931471805599453f;

struct MmaCall {
  DeviceCall call;
  // Rows in pieces of 16 bytes; others are read element by element.
  bool pieces_of_q = false, pieces_of_k = false, pieces_of_v = false;
};

// Shared memory of a block. Rows are padded by 16 bytes: eight adjacent rows
// begin in all banks.
template <int kWidth>
struct MmaMemory {
  static constexpr int kStride = kWidth + kMmaPiece;  // halves
  // Tiles at a time. Two of wide heads do not fit into an sm_80.
  static constexpr int kStages = kWidth <= 128 ? 2 : 1;
  static constexpr int kTile = kMmaKeys * kStride;
  static constexpr int kTiles = kStages * kTile;
  static constexpr int kQueries = kMmaRows * kStride;

  uint16_t* q;
  uint16_t* k;  // kStages tiles, as of v
  uint16_t* v;
  DeviceRun* reach;  // of the rows of the block

  static constexpr size_t bytes() {
    return sizeof(uint16_t) * (kQueries + 2 * kTiles) +
           sizeof(DeviceRun) * kMmaRows;
  }
  __device__ explicit MmaMemory(uint16_t* memory)
      : q(memory),
        k(q + kQueries),
        v(k + kTiles),
        reach(reinterpret_cast<DeviceRun*>(v + kTiles)) {}
};

// A thread's state of its two rows, g and g + 8 of its warp (tensor_core.h).
template <int kWidth>
struct MmaThread {
  DeviceRun reach[2];
  int at[2];    // their positions
  float slope;  // times log2(e)
  // The largest score so far, times log2(e), as it is subtracted.
  float max[2];
  float sum[2];  // of the thread's own keys
  float acc[kWidth / 8][4];
};

// Loads `rows` rows of `t` from `first` on: rows outside of [0, end), and
// channels from `width` on, are 0, as are products with them.
template <int kWidth>
__device__ void load_rows(const DeviceTensor& t, int b, int head, int first,
                          int end, int rows, int width, bool pieces,
                          uint16_t* to) {
  constexpr int kPieces = kWidth / kMmaPiece;
  for (int n = threadIdx.x; n < rows * kPieces; n += kBlockThreads) {
    const int row = n / kPieces, c = n % kPieces * kMmaPiece;
    const bool there = first + row < end;
    uint16_t* const piece = to + (row * (kWidth + kMmaPiece) + c);
    const uint16_t* const from =
        there ? t.at<const uint16_t>(b, head, first + row) : nullptr;
    if (pieces) {
      const bool read = there && c < width;
      cp_async_16(piece, read ? from + c : t.data, read ? 16 : 0);
      continue;
    }
    SIMT_UNROLL
    for (int e = 0; e < kMmaPiece; ++e) {
      piece[e] = there && c + e < width ? from[(c + e) * t.step[3]] : 0;
    }
  }
}

// Rounded up to a multiple of a product's extent.
__device__ inline int whole_steps(int count) {
  return (count + kMmaStep - 1) / kMmaStep * kMmaStep;
}

__device__ inline int keys_of_tile(int first, int end) {
  return end - first < kMmaKeys ? end - first : kMmaKeys;
}

template <int kWidth>
__device__ void load_tile(const MmaCall& mma, const MmaMemory<kWidth>& memory,
                          int stage, int b, int kv, int first, int end) {
  const DeviceCall& call = mma.call;
  const int to = stage * MmaMemory<kWidth>::kTile;
  const int rows = whole_steps(keys_of_tile(first, end));
  load_rows<kWidth>(call.k, b, kv, first, end, rows, call.width,
                    mma.pieces_of_k, memory.k + to);
  load_rows<kWidth>(call.v, b, kv, first, end, rows, call.value_width,
                    mma.pieces_of_v, memory.v + to);
}

// Rows 16 warp, ... of Q as left side of products, in registers if acc does not
// take all of these.
template <int kWidth>
struct MmaQueries {
  static constexpr bool kHeld = kWidth <= 128;
  uint32_t flip;  // the signs of two halves, if the scale is negative
  uint32_t held[kHeld ? kWidth / kMmaStep : 1][4];

  __device__ void read(const MmaMemory<kWidth>& memory, int c,
                       uint32_t* q) const {
    const int row = threadIdx.x / 32 * kMmaWarpRows + threadIdx.x % 16;
    ldmatrix_x4(q, memory.q + (row * MmaMemory<kWidth>::kStride + c * kMmaStep +
                               threadIdx.x % 32 / 16 * 8));
    SIMT_UNROLL
    for (int r = 0; r < 4; ++r) {
      q[r] ^= flip;
    }
  }
  __device__ void read_all(const MmaMemory<kWidth>& memory) {
    if constexpr (kHeld) {
      SIMT_UNROLL
      for (int c = 0; c < kWidth / kMmaStep; ++c) {
        read(memory, c, held[c]);
      }
    }
  }
  // Channels 16 c and on; `room` for them if they are not stored.
  __device__ const uint32_t* of(const MmaMemory<kWidth>& memory, int c,
                                uint32_t* room) const {
    if constexpr (kHeld) {
      return held[c];
    }
    read(memory, c, room);
    return room;
  }
};

// scores[n]: keys 8n ... of the tile, of which there are `keys`. Matrices: keys
// + 0 and channels + 0, channels + 8, then keys + 8.
template <class T, int kWidth>
__device__ void score_tile(const MmaMemory<kWidth>& memory, int stage, int keys,
                           const MmaQueries<kWidth>& queries,
                           float scores[kMmaKeys / 8][4]) {
  constexpr int kStride = MmaMemory<kWidth>::kStride;
  const int lane = threadIdx.x % 32;
  const uint16_t* const row =
      memory.k + (stage * MmaMemory<kWidth>::kTile +
                  (lane / 16 * 8 + lane % 8) * kStride + lane / 8 % 2 * 8);
  SIMT_UNROLL
  for (int n = 0; n < kMmaKeys / kMmaStep; ++n) {
    const int first = 2 * n;
    SIMT_UNROLL
    for (int i = 0; i < 4; ++i) {
      scores[first][i] = scores[first + 1][i] = 0;
    }
    if (n * kMmaStep >= keys) {
      continue;
    }
    SIMT_UNROLL
    for (int c = 0; c < kWidth / kMmaStep; ++c) {
      uint32_t k[4], room[4];
      const uint32_t* const q = queries.of(memory, c, room);
      ldmatrix_x4(k, row + (n * kMmaStep * kStride + c * kMmaStep));
      mma_m16n8k16<T>(scores[first], q, k);
      mma_m16n8k16<T>(scores[first + 1], q, k + 2);
    }
  }
}

// Scores of row r of the thread become weights; maximum, sum and acc follow.
// With ALiBi they are multiplied by the factor when the slope is subtracted,
// and not in the exponent.
template <int kWidth>
__device__ void weigh_row(int first, float factor, int r,
                          float scores[kMmaKeys / 8][4],
                          MmaThread<kWidth>* own) {
  const int key = first + threadIdx.x % 4 * 2;
  const DeviceRun reach = own->reach[r];
  const float slope = own->slope;
  const float later = slope == 0 ? factor : 1;
  float largest = minus_infinity();
  SIMT_UNROLL
  for (int n = 0; n < kMmaKeys / 4; ++n) {
    float& s = scores[n / 2][2 * r + n % 2];
    const int j = key + n / 2 * 8 + n % 2;
    if (slope != 0) {
      const int distance = own->at[r] - j;
      s = __fmaf_rn(s, factor, -slope * fabsf(static_cast<float>(distance)));
    }
    s = j >= reach.begin && j < reach.end ? s : minus_infinity();
    largest = fmaxf(largest, s);
  }
  largest = max_of_lanes<4>(largest);
  const float old = own->max[r];
  const float max =
      largest == minus_infinity() ? old : fmaxf(old, largest * later);
  const float rescale = old == minus_infinity() ? 0 : exp2f(old - max);
  float sum = 0;
  SIMT_UNROLL
  for (int n = 0; n < kMmaKeys / 4; ++n) {
    float& s = scores[n / 2][2 * r + n % 2];
    s = s == minus_infinity() ? 0 : exp2f(__fmaf_rn(s, later, -max));
    sum += s;
  }
  own->max[r] = max;
  own->sum[r] = own->sum[r] * rescale + sum;
  SIMT_UNROLL
  for (int n = 0; n < kWidth / 8; ++n) {
    own->acc[n][2 * r] *= rescale;
    own->acc[n][2 * r + 1] *= rescale;
  }
}

// Weights have the layout of a product's results, which is the layout of the
// next one's left side. Matrices of V: keys + 0 and channels + 0, keys + 8,
// then channels + 8.
template <class T, int kWidth>
__device__ void add_values(const MmaMemory<kWidth>& memory, int stage, int keys,
                           const float weights[kMmaKeys / 8][4],
                           MmaThread<kWidth>* own) {
  constexpr int kStride = MmaMemory<kWidth>::kStride;
  const int lane = threadIdx.x % 32;
  const uint16_t* const row = memory.v + (stage * MmaMemory<kWidth>::kTile +
                                          lane % 16 * kStride + lane / 16 * 8);
  SIMT_UNROLL
  for (int n = 0; n < kMmaKeys / kMmaStep; ++n) {
    if (n * kMmaStep >= keys) {
      continue;
    }
    uint32_t p[4];
    SIMT_UNROLL
    for (int r = 0; r < 4; ++r) {
      const float* const w = weights[2 * n + r / 2];
      const int i = r % 2 * 2;
      p[r] = pack_halves<T>(w[i], w[i + 1]);
    }
    SIMT_UNROLL
    for (int c = 0; c < kWidth / kMmaStep; ++c) {
      uint32_t v[4];
      ldmatrix_x4_trans(v, row + (n * kMmaStep * kStride + c * kMmaStep));
      mma_m16n8k16<T>(own->acc[2 * c], p, v);
      mma_m16n8k16<T>(own->acc[2 * c + 1], p, v + 2);
    }
  }
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CUDA_FLASH_MMA_TILE_H_
