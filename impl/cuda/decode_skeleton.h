// SPDX-License-Identifier: Apache-2.0
// The arithmetic of cuda/decode, of cuda/planned and of the faults derived from
// them: few queries against many keys. The keys of a member are cut into parts,
// so that even one sequence fills a GPU ("Flash-Decoding", Dao et al. 2023);
// each part writes (max, sum, o) to the workspace, and a second kernel merges
// them. All query heads that share a key/value head are rows of one block: K
// and V are read once for all of them.
//
// Keys and values may be in pages (Kwon et al. 2023, 4.3), of a block table or
// of lists. Queries may be packed over pages: each member then has blocks
// enough for all of them, and blocks after its last row end at once.
//
// A block has 128 threads: eight rows, sixteen lanes each. Every lane has two
// keys of a tile of 32, then every sixteenth channel of o. With lists of keys
// the lanes of a row search its list for each tile, and a tile that no row of
// the block lists is not read.
//
// Cost: the workspace has (d + 2) floats for each row and part; lists are read
// once a tile.
#ifndef QKVET_IMPL_CUDA_DECODE_SKELETON_H_
#define QKVET_IMPL_CUDA_DECODE_SKELETON_H_

#include "impl/cuda/arithmetic.h"
#include "impl/cuda/block.h"
#include "impl/cuda/decode_parts.h"
#include "impl/cuda/launch.h"

namespace qkvet::impl {

// Hooks: a fault replaces one of them.
struct DecodeHooks {
  // The row of q for row i of a member and head.
  template <class T>
  __device__ static const T* query(const DeviceCall& call, int b, int head,
                                   int i) {
    return call.row<const T>(call.q, b, head, i);
  }
  __device__ static DeviceKeys keys(const DeviceCall& call) { return call.k; }
  // The position of row i of a member, as a key.
  __device__ static int position(const DeviceCall& call, int b, int i) {
    return call.position(b, i);
  }
  // Whether a row, `own` of its block, needs a tile; `listed` are the keys of
  // the tile in its list.
  __device__ static bool needs_tile(unsigned listed, int /*own*/) {
    return listed != 0;
  }
};

template <int kWidth>
struct DecodeMemory {
  static constexpr int kStride = kWidth + 1;
  float* q;        // [kDecodeRows, kStride]
  float* kv;       // [kDecodeKeys, kStride]: keys, then values
  float* weights;  // [kDecodeRows, kDecodeKeys]

  static constexpr size_t bytes() {
    return sizeof(float) *
           ((kDecodeRows + kDecodeKeys) * kStride + kDecodeRows * kDecodeKeys);
  }
  __device__ explicit DecodeMemory(float* memory)
      : q(memory),
        kv(q + kDecodeRows * kStride),
        weights(kv + kDecodeKeys * kStride) {}
};

// A row of the block: its indices and its state.
template <int kWidth>
struct DecodeRow {
  int head = 0, i = 0;
  bool is_there = false;
  DeviceRun reach;
  int at = 0;  // its position
  float slope = 0;
  unsigned listed = ~0u;  // keys of the tile, a bit each
  float max, sum;
  float acc[kWidth / kDecodeLanes];
};

template <class Hooks, int kWidth>
__device__ void begin_row(const DeviceCall& call, int b, int kv, int row,
                          DecodeRow<kWidth>* out) {
  const int queries = call.rows_of(b);  // not 0
  out->head = kv * call.group + row / queries;
  out->i = row % queries;
  out->is_there = row < call.group * queries;
  out->at = Hooks::position(call, b, out->i);
  out->reach = out->is_there ? call.reach_from(b, out->at) : DeviceRun{};
  out->slope = out->is_there ? call.slopes.of(b, out->head) : 0;
  out->max = minus_infinity();
  out->sum = 0;
  for (float& acc : out->acc) {
    acc = 0;
  }
}

// Bits of the keys in the tile from `first` on that the row lists.
template <int kWidth>
__device__ unsigned listed_of_tile(const DeviceCall& call, int b, int lane,
                                   int first, const DecodeRow<kWidth>& row) {
  const DeviceLists& lists = call.lists;
  unsigned keys = 0;
  if (row.is_there) {
    const int32_t* const list =
        call.row<const int32_t>(lists.keys, b, row.head / lists.group, row.i);
    const int count = call.listed(b, row.i);
    for (int n = lane; n < count; n += kDecodeLanes) {
      const int64_t entry = list[n * lists.keys.step[3]];
      const int64_t begin = entry * lists.block - first;
      const int64_t end = begin + lists.block;
      for (int64_t key = begin > 0 ? begin : 0;
           entry >= 0 && key < end && key < kDecodeKeys; ++key) {
        keys |= 1u << key;
      }
    }
  }
  for (int bit = kDecodeLanes / 2; bit > 0; bit /= 2) {
    keys |= __shfl_xor_sync(0xffffffffu, keys, bit);
  }
  return keys;
}

// Before the next tile: all threads have read the one before, and the listed
// keys of the next are known. False: no row needs it.
template <class Hooks, int kWidth>
__device__ bool begin_tile(const DeviceCall& call, int b, int own, int lane,
                           int first, DecodeRow<kWidth>* row) {
  if (!call.lists.given()) {
    __syncthreads();
    return true;
  }
  row->listed = listed_of_tile<kWidth>(call, b, lane, first, *row);
  return __syncthreads_or(Hooks::needs_tile(row->listed, own) ? 1 : 0) != 0;
}

// The weights of the row against a tile, in shared memory.
template <int kWidth>
__device__ void weigh_tile(const DecodeMemory<kWidth>& memory, int own,
                           int lane, int first, int end, float scale,
                           DecodeRow<kWidth>* row) {
  float score[kDecodeKeysOfLane];
  bool seen[kDecodeKeysOfLane];
  float max = minus_infinity();
  for (int n = 0; n < kDecodeKeysOfLane; ++n) {
    const int key = n * kDecodeLanes + lane, j = first + key;
    float dot = 0;
    for (int c = 0; c < kWidth; ++c) {
      dot += memory.q[own * memory.kStride + c] *
             memory.kv[key * memory.kStride + c];
    }
    seen[n] = j >= row->reach.begin && j < row->reach.end && j < end &&
              (row->listed >> key & 1) != 0;
    score[n] = seen[n] ? with_alibi(dot * scale, row->slope, row->at - j)
                       : minus_infinity();
    max = fmaxf(max, score[n]);
  }
  max = max_of_lanes<kDecodeLanes>(max);
  max = fmaxf(max, row->max);
  const float rescale = max > minus_infinity() ? expf(row->max - max) : 1.0f;
  float sum = 0;
  for (int n = 0; n < kDecodeKeysOfLane; ++n) {
    const float weight = seen[n] ? expf(score[n] - max) : kDecodeHidden;
    sum += seen[n] ? weight : 0.0f;
    memory.weights[own * kDecodeKeys + n * kDecodeLanes + lane] = weight;
  }
  sum = sum_of_lanes<kDecodeLanes>(sum);
  row->sum = row->sum * rescale + sum;
  row->max = max;
  for (float& acc : row->acc) {
    acc *= rescale;
  }
}

template <int kWidth>
__device__ void add_values(const DecodeMemory<kWidth>& memory, int own,
                           int lane, DecodeRow<kWidth>* row) {
  for (int j = 0; j < kDecodeKeys; ++j) {
    const float weight = memory.weights[own * kDecodeKeys + j];
    if (!(weight < 0)) {  // NaN is seen
      for (int c = 0; c < kWidth / kDecodeLanes; ++c) {
        row->acc[c] +=
            weight * memory.kv[j * memory.kStride + c * kDecodeLanes + lane];
      }
    }
  }
}

// A part of the keys of a member for eight rows.
template <class Hooks, class T, int kWidth>
__global__ void decode_part(DeviceCall call, DecodeParts parts) {
  using Memory = DecodeMemory<kWidth>;
  SIMT_DYNAMIC_SHARED(float, shared);
  const Memory memory(shared);
  const int thread = threadIdx.x, own = thread / kDecodeLanes;
  const int lane = thread % kDecodeLanes, kv = blockIdx.y % call.kv_heads;
  DecodeItem item;
  if (!parts.item(call, &item)) {
    return;  // all of the block
  }
  const int b = item.b, number = item.row_block * kDecodeRows + own;
  DecodeRow<kWidth> row;
  begin_row<Hooks, kWidth>(call, b, kv, number, &row);
  for (int c = lane; c < kWidth; c += kDecodeLanes) {
    memory.q[own * Memory::kStride + c] =
        row.is_there && c < call.width
            ? to_f32(Hooks::template query<T>(call, b, row.head,
                                              row.i)[c * call.q.step[3]])
            : 0.0f;
  }
  const int end = item.end;
  for (int j = item.begin; j < end; j += kDecodeKeys) {
    if (!begin_tile<Hooks, kWidth>(call, b, own, lane, j, &row)) {
      continue;
    }
    load_tokens<T>(call, Hooks::keys(call), b, kv, j, end, kDecodeKeys,
                   call.width, kWidth, memory.kv, Memory::kStride);
    __syncthreads();
    weigh_tile<kWidth>(memory, own, lane, j, end, call.scale, &row);
    __syncthreads();  // the keys make room
    load_tokens<T>(call, call.v, b, kv, j, end, kDecodeKeys, call.value_width,
                   kWidth, memory.kv, Memory::kStride);
    __syncthreads();
    add_values<kWidth>(memory, own, lane, &row);
  }
  if (!row.is_there) {
    return;
  }
  float* const result = parts.result(call, b, kv, number, item.part);
  for (int n = 0; n * kDecodeLanes + lane < call.value_width; ++n) {
    result[2 + n * kDecodeLanes + lane] = row.acc[n];
  }
  if (lane == 0) {
    result[0] = row.max;
    result[1] = row.sum;
  }
}

// o and lse of a row out of its parts, a thread a channel.
template <class T>
__global__ void decode_merge(DeviceCall call, DecodeParts parts) {
  const int b = blockIdx.y / call.kv_heads, kv = blockIdx.y % call.kv_heads;
  const int row = blockIdx.x, queries = call.rows_of(b);
  if (row >= call.group * queries) {
    return;
  }
  const int i = row % queries, head = kv * call.group + row / queries;
  const int count = parts.count_of(b);
  float max = minus_infinity();
  for (int part = 0; part < count; ++part) {
    max = fmaxf(max, parts.result(call, b, kv, row, part)[0]);
  }
  const int thread = threadIdx.x;
  for (int c = thread; c < call.value_width; c += kBlockThreads) {
    float sum = 0, acc = 0;
    for (int part = 0; part < count; ++part) {
      const float* const result = parts.result(call, b, kv, row, part);
      if (result[1] != 0) {
        const float factor = expf(result[0] - max);
        sum += result[1] * factor;
        acc += result[2 + c] * factor;
      }
    }
    write_channels<T>(call, b, head, i, sum, &acc, c, call.value_width);
    if (c == 0) {
      write_lse(call, b, head, i, max, sum);
    }
  }
}

template <class Hooks, class T, int kWidth>
qkvet_status launch_parts(const DeviceCall& call, const DecodeParts& parts,
                          dim3 grid, const qkvet_exec* exec, qkvet_text* why) {
  const auto kernel = decode_part<Hooks, T, kWidth>;
  const size_t bytes = DecodeMemory<kWidth>::bytes();
  QKVET_TRY(
      prepare_launch(reinterpret_cast<const void*>(kernel), bytes, call, why));
  QKVET_TRY(end_launch(SIMT_LAUNCH(kernel, grid, kBlockThreads, bytes,
                                   exec->stream, call, parts),
                       why));
  const auto merge = decode_merge<T>;
  const dim3 rows(parts.rows, call.batch * call.kv_heads);
  return end_launch(
      SIMT_LAUNCH(merge, rows, kBlockThreads, 0, exec->stream, call, parts),
      why);
}

// The workspace that this needs is bytes_of_results().
template <class Hooks, class T>
qkvet_status launch_decode(const DeviceCall& call, const DecodeParts& parts,
                           dim3 grid, const qkvet_exec* exec, qkvet_text* why) {
  const int width =
      call.width > call.value_width ? call.width : call.value_width;
  return width <= 64 ? launch_parts<Hooks, T, 64>(call, parts, grid, exec, why)
         : width <= 128
             ? launch_parts<Hooks, T, 128>(call, parts, grid, exec, why)
             : launch_parts<Hooks, T, 256>(call, parts, grid, exec, why);
}

inline constexpr qkvet_precision kDecodePrecision = [] {
  qkvet_precision p = cuda_core_f32();
  p.tile = kDecodeKeys;
  p.splits = kDecodeMostParts;
  p.merge = QKVET_MERGE_MLO;
  return p;
}();

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CUDA_DECODE_SKELETON_H_
