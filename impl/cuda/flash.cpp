// SPDX-License-Identifier: Apache-2.0
// flash: tiles of 32 keys against blocks of 64 rows of queries, with an online
// softmax (Dao et al. 2022, algorithm 1; one pass over K as in
// FlashAttention-2) on the cores of a GPU.
//
// A block has 128 threads. Eight neighbours share four rows: each of them has
// four keys of a tile, then every eighth channel of o. So a row never leaves
// its eight lanes, and weights pass between them in shared memory behind no
// more than a barrier of the warp.
//
// Contract: f32, f16 and bf16, any strides, heads of up to 256. A weight of -1
// stands for a key that a row does not see: whatever its value holds does not
// reach o. Cost: K and V are read once for 64 rows.
#include "impl/cuda/arithmetic.h"
#include "impl/cuda/block.h"
#include "impl/cuda/launch.h"

namespace qkvet::impl {
namespace {

constexpr int kMostWidth = 256;
constexpr int kRows = 64;         // of a block
constexpr int kKeys = 32;         // of a tile
constexpr int kLanes = 8;         // that share rows
constexpr int kRowsOfLane = 4;    // kRows / (kBlockThreads / kLanes)
constexpr int kKeysOfLane = 4;    // kKeys / kLanes
constexpr float kHidden = -1.0f;  // in place of a weight
static_assert(kRowsOfLane * kBlockThreads / kLanes == kRows);
static_assert(kKeysOfLane * kLanes == kKeys);

// Shared memory of a block. One float more a row: rows begin in other banks.
template <int kWidth>
struct FlashMemory {
  static constexpr int kStride = kWidth + 1;
  static constexpr int kWeightStride = kKeys + 1;
  float* q;
  float* k;
  float* v;
  float* weights;

  static constexpr size_t bytes() {
    return sizeof(float) * ((kRows + 2 * kKeys) * kStride +
                            static_cast<size_t>(kRows) * kWeightStride);
  }
  __device__ explicit FlashMemory(float* memory)
      : q(memory),
        k(q + kRows * kStride),
        v(k + kKeys * kStride),
        weights(v + kKeys * kStride) {}
};

// What a thread knows of its rows.
template <int kWidth>
struct FlashRows {
  DeviceRun reach[kRowsOfLane];
  float max[kRowsOfLane];
  float sum[kRowsOfLane];
  float acc[kRowsOfLane][kWidth / kLanes];
};

__device__ inline float max_of_lanes(float x) {
  for (int bit = kLanes / 2; bit > 0; bit /= 2) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, bit));
  }
  return x;
}

__device__ inline float sum_of_lanes(float x) {
  for (int bit = kLanes / 2; bit > 0; bit /= 2) {
    x += __shfl_xor_sync(0xffffffffu, x, bit);
  }
  return x;
}

// scores[r][n]: row r of the thread against its key n, which is n * 8 + lane.
template <int kWidth>
__device__ void dot_tile(const FlashMemory<kWidth>& memory, int group, int lane,
                         float scores[kRowsOfLane][kKeysOfLane]) {
  constexpr int kStride = FlashMemory<kWidth>::kStride;
  for (int r = 0; r < kRowsOfLane; ++r) {
    for (int n = 0; n < kKeysOfLane; ++n) {
      scores[r][n] = 0;
    }
  }
  for (int c = 0; c < kWidth; ++c) {
    float k[kKeysOfLane];
    for (int n = 0; n < kKeysOfLane; ++n) {
      k[n] = memory.k[(n * kLanes + lane) * kStride + c];
    }
    for (int r = 0; r < kRowsOfLane; ++r) {
      const float q = memory.q[(group * kRowsOfLane + r) * kStride + c];
      for (int n = 0; n < kKeysOfLane; ++n) {
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
  bool seen[kKeysOfLane];
  float score[kKeysOfLane];
  float max = minus_infinity();
  for (int n = 0; n < kKeysOfLane; ++n) {
    const int j = first + n * kLanes + lane;
    seen[n] = j >= reach.begin && j < reach.end;
    score[n] = seen[n] ? scores[n] * scale : minus_infinity();
    max = fmaxf(max, score[n]);
  }
  max = fmaxf(max_of_lanes(max), rows->max[r]);
  const bool any = max > minus_infinity();
  const float rescale = any ? expf(rows->max[r] - max) : 1.0f;
  float sum = 0;
  for (int n = 0; n < kKeysOfLane; ++n) {
    const float weight = seen[n] ? expf(score[n] - max) : kHidden;
    sum += seen[n] ? weight : 0.0f;
    memory.weights[(group * kRowsOfLane + r) *
                       FlashMemory<kWidth>::kWeightStride +
                   n * kLanes + lane] = weight;
  }
  rows->sum[r] = rows->sum[r] * rescale + sum_of_lanes(sum);
  rows->max[r] = max;
  for (int c = 0; c < kWidth / kLanes; ++c) {
    rows->acc[r][c] *= rescale;
  }
}

template <int kWidth>
__device__ void add_values(const FlashMemory<kWidth>& memory, int group,
                           int lane, FlashRows<kWidth>* rows) {
  using Memory = FlashMemory<kWidth>;
  for (int j = 0; j < kKeys; ++j) {
    float weight[kRowsOfLane];
    for (int r = 0; r < kRowsOfLane; ++r) {
      weight[r] =
          memory.weights[(group * kRowsOfLane + r) * Memory::kWeightStride + j];
    }
    for (int c = 0; c < kWidth / kLanes; ++c) {
      const float v = memory.v[j * Memory::kStride + c * kLanes + lane];
      for (int r = 0; r < kRowsOfLane; ++r) {
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
  for (int n = threadIdx.x; n < kRows * kWidth; n += kBlockThreads) {
    const int row = n / kWidth, c = n % kWidth;
    float value = 0;
    if (first + row < call.rows_of(b) && c < call.width) {
      value = to_f32(call.q.at<const T>(b, h, first + row)[c * call.q.step[3]]);
    }
    to[row * kStride + c] = value;
  }
}

template <class T, int kWidth>
__global__ void flash_rows(DeviceCall call) {
  using Memory = FlashMemory<kWidth>;
  SIMT_DYNAMIC_SHARED(float, shared);
  const Memory memory(shared);
  const int thread = threadIdx.x, group = thread / kLanes;
  const int lane = thread % kLanes;
  const int b = blockIdx.y / call.heads, h = blockIdx.y % call.heads;
  const int kv = h / call.group, first_row = blockIdx.x * kRows;
  FlashRows<kWidth> rows;
  for (int r = 0; r < kRowsOfLane; ++r) {
    const int i = first_row + group * kRowsOfLane + r;
    rows.reach[r] = i < call.rows_of(b) ? call.reach(b, i) : DeviceRun{};
    rows.max[r] = minus_infinity();
    rows.sum[r] = 0;
    for (float& acc : rows.acc[r]) {
      acc = 0;
    }
  }
  load_queries<T, kWidth>(call, b, h, first_row, memory.q);
  const DeviceRun reach = call.reach_of_rows(b, first_row, kRows);
  for (int j = reach.begin; j < reach.end; j += kKeys) {
    __syncthreads();  // the tile before is no longer read
    load_tokens<T>(call, call.k, b, kv, j, reach.end, kKeys, call.width, kWidth,
                   memory.k, Memory::kStride);
    load_tokens<T>(call, call.v, b, kv, j, reach.end, kKeys, call.value_width,
                   kWidth, memory.v, Memory::kStride);
    __syncthreads();
    float scores[kRowsOfLane][kKeysOfLane];
    dot_tile<kWidth>(memory, group, lane, scores);
    for (int r = 0; r < kRowsOfLane; ++r) {
      softmax_row<kWidth>(memory, group, lane, j, call.scale, r, scores[r],
                          &rows);
    }
    __syncwarp();
    add_values<kWidth>(memory, group, lane, &rows);
  }
  for (int r = 0; r < kRowsOfLane; ++r) {
    const int i = first_row + group * kRowsOfLane + r;
    if (i < call.rows_of(b)) {
      write_channels<T>(call, b, h, i, rows.sum[r], rows.acc[r], lane, kLanes);
      if (lane == 0) {
        write_lse(call, b, h, i, rows.max[r], rows.sum[r]);
      }
    }
  }
}

template <class T, int kWidth>
qkvet_status launch(const DeviceCall& call, const qkvet_exec* exec,
                    qkvet_text* why) {
  const auto kernel = flash_rows<T, kWidth>;
  const size_t bytes = FlashMemory<kWidth>::bytes();
  const qkvet_status status =
      prepare_launch(reinterpret_cast<const void*>(kernel), bytes, call, why);
  if (status != QKVET_OK) {
    return status;
  }
  const dim3 grid((call.queries + kRows - 1) / kRows, call.batch * call.heads);
  return end_launch(
      SIMT_LAUNCH(kernel, grid, kBlockThreads, bytes, exec->stream, call), why);
}

template <class T>
qkvet_status launch_width(const DeviceCall& call, const qkvet_exec* exec,
                          qkvet_text* why) {
  const int width =
      call.width > call.value_width ? call.width : call.value_width;
  return width <= 32    ? launch<T, 32>(call, exec, why)
         : width <= 64  ? launch<T, 64>(call, exec, why)
         : width <= 128 ? launch<T, 128>(call, exec, why)
                        : launch<T, 256>(call, exec, why);
}

qkvet_status forward(const qkvet_kernel* self, qkvet_context*,
                     const qkvet_forward_args* args, const qkvet_exec* exec,
                     qkvet_text* why) {
  DeviceCall call;
  Storage type;
  const qkvet_status status =
      begin_device_call(self, args, exec, kMostWidth, &call, &type, why);
  if (status != QKVET_OK || call.batch * call.heads * call.queries == 0) {
    return status;
  }
  return type == Storage::kF32   ? launch_width<float>(call, exec, why)
         : type == Storage::kF16 ? launch_width<F16>(call, exec, why)
                                 : launch_width<Bf16>(call, exec, why);
}

constexpr qkvet_precision kPrecision = [] {
  qkvet_precision p = cuda_core_f32();
  p.tile = kKeys;
  return p;
}();
constexpr qkvet_capabilities kCapabilities =
    device_capabilities(kDeviceOptions, {kF32, kF16, kBf16}, kMostWidth);

}  // namespace

extern constinit const qkvet_kernel cuda_flash = device_kernel(
    QKVET_FAMILY "/flash", "CUDA: tiles with an online softmax, on CUDA cores",
    {"impl/cuda/flash.cpp", __LINE__}, &kPrecision, forward, &kCapabilities,
    supports_device<kMostWidth>);

}  // namespace qkvet::impl
