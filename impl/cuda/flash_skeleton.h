// SPDX-License-Identifier: Apache-2.0
// The arithmetic of cuda/flash and of the faults derived from it: tiles of 32
// keys against blocks of 64 rows of queries, with an online softmax (Dao et al.
// 2022, algorithm 1; one pass over K as in FlashAttention-2).
//
// A block has 128 threads. Eight neighbours share four rows: each of them has
// four keys of a tile, then every eighth channel of o. So a row never leaves
// its eight lanes, and only a barrier of the warp is needed when weights pass
// between them in shared memory.
//
// A weight of -1 marks a key that a row does not see; its value never reaches
// o.
#ifndef QKVET_IMPL_CUDA_FLASH_SKELETON_H_
#define QKVET_IMPL_CUDA_FLASH_SKELETON_H_

#include "impl/cuda/arithmetic.h"
#include "impl/cuda/block.h"
#include "impl/cuda/launch.h"

namespace qkvet::impl {

inline constexpr int kFlashMostWidth = 256;
inline constexpr int kFlashRows = 64;  // of a block
inline constexpr int kFlashKeys = 32;  // of a tile
inline constexpr int kFlashLanes = 8;  // that share rows
inline constexpr int kFlashRowsOfLane =
    4;  // kFlashRows / (kBlockThreads / kFlashLanes)
inline constexpr int kFlashKeysOfLane = 4;    // kFlashKeys / kFlashLanes
inline constexpr float kFlashHidden = -1.0f;  // in place of a weight
static_assert(kFlashRowsOfLane * kBlockThreads / kFlashLanes == kFlashRows);
static_assert(kFlashKeysOfLane * kFlashLanes == kFlashKeys);

inline constexpr int kRowsOfWarp = kFlashRows / (kBlockThreads / 32);

// Hooks: a fault replaces one of them.
struct FlashHooks {
  // Before the next tile: all threads have read the one before.
  __device__ static void tile_is_read() { __syncthreads(); }
  // All of the tile from key `first` on is in shared memory. `of_warp`: the
  // keys that rows of this warp see.
  __device__ static void tile_is_there(DeviceRun /*of_warp*/, int /*first*/) {
    __syncthreads();
  }
  // The keys that are loaded for a block.
  __device__ static DeviceRun reach_of_block(const DeviceCall& call, int b,
                                             int first_row) {
    return call.reach_of_rows(b, first_row, kFlashRows);
  }
  // The keys of all members and heads.
  __device__ static DeviceTensor keys(const DeviceCall& call, int /*b*/,
                                      int /*kv*/) {
    return call.k;
  }
  // Whether a thread ends at once; `row` is its first row.
  __device__ static bool leaves(const DeviceCall&, int /*b*/, int /*row*/) {
    return false;
  }
};

// Shared memory of a block. One float more a row: rows begin in other banks.
template <int kWidth>
struct FlashMemory {
  static constexpr int kStride = kWidth + 1;
  static constexpr int kWeightStride = kFlashKeys + 1;
  float* q;
  float* k;
  float* v;
  float* weights;

  static constexpr size_t bytes() {
    return sizeof(float) * ((kFlashRows + 2 * kFlashKeys) * kStride +
                            static_cast<size_t>(kFlashRows) * kWeightStride);
  }
  __device__ explicit FlashMemory(float* memory)
      : q(memory),
        k(q + kFlashRows * kStride),
        v(k + kFlashKeys * kStride),
        weights(v + kFlashKeys * kStride) {}
};

// A thread's state of its rows.
template <int kWidth>
struct FlashRows {
  DeviceRun reach[kFlashRowsOfLane];
  int at[kFlashRowsOfLane];
  float slope;
  float max[kFlashRowsOfLane];
  float sum[kFlashRowsOfLane];
  float acc[kFlashRowsOfLane][kWidth / kFlashLanes];
};

// scores[r][n]: row r of the thread against its key n, which is n * 8 + lane.
template <int kWidth>
__device__ void dot_tile(const FlashMemory<kWidth>& memory, int group, int lane,
                         float scores[kFlashRowsOfLane][kFlashKeysOfLane]) {
  constexpr int kStride = FlashMemory<kWidth>::kStride;
  for (int r = 0; r < kFlashRowsOfLane; ++r) {
    for (int n = 0; n < kFlashKeysOfLane; ++n) {
      scores[r][n] = 0;
    }
  }
  for (int c = 0; c < kWidth; ++c) {
    float k[kFlashKeysOfLane];
    for (int n = 0; n < kFlashKeysOfLane; ++n) {
      k[n] = memory.k[(n * kFlashLanes + lane) * kStride + c];
    }
    for (int r = 0; r < kFlashRowsOfLane; ++r) {
      const float q = memory.q[(group * kFlashRowsOfLane + r) * kStride + c];
      for (int n = 0; n < kFlashKeysOfLane; ++n) {
        scores[r][n] += q * k[n];
      }
    }
  }
}

// Scores of a row become weights in shared memory; max, sum and acc follow.
template <int kWidth>
__device__ void softmax_row(const FlashMemory<kWidth>& memory, int group,
                            int lane, int first, float scale, int r,
                            const float* scores, FlashRows<kWidth>* rows) {
  const DeviceRun reach = rows->reach[r];
  bool seen[kFlashKeysOfLane];
  float score[kFlashKeysOfLane];
  float max = minus_infinity();
  for (int n = 0; n < kFlashKeysOfLane; ++n) {
    const int j = first + n * kFlashLanes + lane;
    seen[n] = j >= reach.begin && j < reach.end;
    score[n] = seen[n]
                   ? with_alibi(scores[n] * scale, rows->slope, rows->at[r] - j)
                   : minus_infinity();
    max = fmaxf(max, score[n]);
  }
  max = fmaxf(max_of_lanes<kFlashLanes>(max), rows->max[r]);
  const bool any = max > minus_infinity();
  const float rescale = any ? expf(rows->max[r] - max) : 1.0f;
  float sum = 0;
  for (int n = 0; n < kFlashKeysOfLane; ++n) {
    const float weight = seen[n] ? expf(score[n] - max) : kFlashHidden;
    sum += seen[n] ? weight : 0.0f;
    memory.weights[(group * kFlashRowsOfLane + r) *
                       FlashMemory<kWidth>::kWeightStride +
                   n * kFlashLanes + lane] = weight;
  }
  rows->sum[r] = rows->sum[r] * rescale + sum_of_lanes<kFlashLanes>(sum);
  rows->max[r] = max;
  for (int c = 0; c < kWidth / kFlashLanes; ++c) {
    rows->acc[r][c] *= rescale;
  }
}

template <int kWidth>
__device__ void add_flash_values(const FlashMemory<kWidth>& memory, int group,
                                 int lane, FlashRows<kWidth>* rows) {
  using Memory = FlashMemory<kWidth>;
  for (int j = 0; j < kFlashKeys; ++j) {
    float weight[kFlashRowsOfLane];
    for (int r = 0; r < kFlashRowsOfLane; ++r) {
      weight[r] =
          memory
              .weights[(group * kFlashRowsOfLane + r) * Memory::kWeightStride +
                       j];
    }
    for (int c = 0; c < kWidth / kFlashLanes; ++c) {
      const float v = memory.v[j * Memory::kStride + c * kFlashLanes + lane];
      for (int r = 0; r < kFlashRowsOfLane; ++r) {
        if (!(weight[r] < 0)) {  // NaN is seen
          rows->acc[r][c] += weight[r] * v;
        }
      }
    }
  }
}

template <class T, int kWidth>
__device__ void load_queries(const DeviceCall& call, int b, int h, int first,
                             float* to) {
  constexpr int kStride = FlashMemory<kWidth>::kStride;
  for (int n = threadIdx.x; n < kFlashRows * kWidth; n += kBlockThreads) {
    const int row = n / kWidth, c = n % kWidth;
    float value = 0;
    if (first + row < call.rows_of(b) && c < call.width) {
      value = to_f32(call.q.at<const T>(b, h, first + row)[c * call.q.step[3]]);
    }
    to[row * kStride + c] = value;
  }
}

template <class Hooks, class T, int kWidth>
__global__ void flash_rows(DeviceCall call) {
  using Memory = FlashMemory<kWidth>;
  SIMT_DYNAMIC_SHARED(float, shared);
  const Memory memory(shared);
  const int thread = threadIdx.x, group = thread / kFlashLanes;
  const int lane = thread % kFlashLanes;
  const int b = blockIdx.y / call.heads, h = blockIdx.y % call.heads;
  const int kv = h / call.group, first_row = blockIdx.x * kFlashRows;
  if (Hooks::leaves(call, b, first_row + group * kFlashRowsOfLane)) {
    return;
  }
  FlashRows<kWidth> rows;
  rows.slope = call.slopes.of(b, h);
  for (int r = 0; r < kFlashRowsOfLane; ++r) {
    const int i = first_row + group * kFlashRowsOfLane + r;
    rows.at[r] = call.position(b, i);
    rows.reach[r] =
        i < call.rows_of(b) ? call.reach_from(b, rows.at[r]) : DeviceRun{};
    rows.max[r] = minus_infinity();
    rows.sum[r] = 0;
    for (float& acc : rows.acc[r]) {
      acc = 0;
    }
  }
  load_queries<T, kWidth>(call, b, h, first_row, memory.q);
  const int first_of_warp = first_row + thread / 32 * kRowsOfWarp;
  const DeviceRun reach = Hooks::reach_of_block(call, b, first_row);
  for (int j = reach.begin; j < reach.end; j += kFlashKeys) {
    Hooks::tile_is_read();
    load_tokens<T>(call, Hooks::keys(call, b, kv), b, kv, j, reach.end,
                   kFlashKeys, call.width, kWidth, memory.k, Memory::kStride);
    load_tokens<T>(call, call.v, b, kv, j, reach.end, kFlashKeys,
                   call.value_width, kWidth, memory.v, Memory::kStride);
    Hooks::tile_is_there(call.reach_of_rows(b, first_of_warp, kRowsOfWarp), j);
    float scores[kFlashRowsOfLane][kFlashKeysOfLane];
    dot_tile<kWidth>(memory, group, lane, scores);
    for (int r = 0; r < kFlashRowsOfLane; ++r) {
      softmax_row<kWidth>(memory, group, lane, j, call.scale, r, scores[r],
                          &rows);
    }
    __syncwarp();
    add_flash_values<kWidth>(memory, group, lane, &rows);
  }
  for (int r = 0; r < kFlashRowsOfLane; ++r) {
    const int i = first_row + group * kFlashRowsOfLane + r;
    if (i < call.rows_of(b)) {
      write_channels<T>(call, b, h, i, rows.sum[r], rows.acc[r], lane,
                        kFlashLanes);
      if (lane == 0) {
        write_lse(call, b, h, i, rows.max[r], rows.sum[r]);
      }
    }
  }
}

template <class Hooks, class T, int kWidth>
qkvet_status launch_flash(const DeviceCall& call, const qkvet_exec* exec,
                          qkvet_text* why) {
  const auto kernel = flash_rows<Hooks, T, kWidth>;
  const size_t bytes = FlashMemory<kWidth>::bytes();
  QKVET_TRY(
      prepare_launch(reinterpret_cast<const void*>(kernel), bytes, call, why));
  const dim3 grid((call.queries + kFlashRows - 1) / kFlashRows,
                  call.batch * call.heads);
  return end_launch(
      SIMT_LAUNCH(kernel, grid, kBlockThreads, bytes, exec->stream, call), why);
}

template <class Hooks, class T>
qkvet_status flash_of_width(const DeviceCall& call, const qkvet_exec* exec,
                            qkvet_text* why) {
  const int width =
      call.width > call.value_width ? call.width : call.value_width;
  return width <= 32    ? launch_flash<Hooks, T, 32>(call, exec, why)
         : width <= 64  ? launch_flash<Hooks, T, 64>(call, exec, why)
         : width <= 128 ? launch_flash<Hooks, T, 128>(call, exec, why)
                        : launch_flash<Hooks, T, 256>(call, exec, why);
}

template <class Hooks>
qkvet_status flash_forward(const qkvet_kernel* self, qkvet_context*,
                           const qkvet_forward_args* args,
                           const qkvet_exec* exec, qkvet_text* why) {
  DeviceCall call;
  Storage type;
  QKVET_TRY(
      begin_device_call(self, args, exec, kFlashMostWidth, &call, &type, why));
  if (call.batch * call.heads * call.queries == 0) {
    return QKVET_OK;
  }
  return type == Storage::kF32   ? flash_of_width<Hooks, float>(call, exec, why)
         : type == Storage::kF16 ? flash_of_width<Hooks, F16>(call, exec, why)
                                 : flash_of_width<Hooks, Bf16>(call, exec, why);
}

inline constexpr qkvet_precision kFlashPrecision = [] {
  qkvet_precision p = cuda_core_f32();
  p.tile = kFlashKeys;
  return p;
}();

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CUDA_FLASH_SKELETON_H_
