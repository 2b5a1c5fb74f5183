// SPDX-License-Identifier: Apache-2.0
// How a call of decode_skeleton.h is cut: into parts of the keys; a block
// computes one part for eight rows.
#ifndef QKVET_IMPL_CUDA_DECODE_PARTS_H_
#define QKVET_IMPL_CUDA_DECODE_PARTS_H_

#include "impl/cuda/block.h"
#include "impl/cuda/device_call.h"

namespace qkvet::impl {

inline constexpr int kDecodeMostWidth = 256;
inline constexpr int kDecodeRows = 8;        // of a block
inline constexpr int kDecodeLanes = 16;      // of a row
inline constexpr int kDecodeKeys = 32;       // of a tile
inline constexpr int kDecodeKeysOfLane = 2;  // kDecodeKeys / kDecodeLanes
// More parts than eight, the number for undeclared kernels, is looser than
// generic, and reports show that; an emulator has no processors to fill.
#if defined(__CUDACC__)
inline constexpr int kDecodeMostParts = 32;
#else
inline constexpr int kDecodeMostParts = 8;
#endif
inline constexpr float kDecodeHidden = -1.0f;  // in place of a weight
static_assert(kDecodeRows * kDecodeLanes == kBlockThreads &&
              kDecodeKeysOfLane * kDecodeLanes == kDecodeKeys);

// Keys [begin, end) of a member for eight of its rows.
struct DecodeItem {
  int b = 0;
  int row_block = 0;  // rows from kDecodeRows * row_block on
  int part = 0;       // of the member's
  int begin = 0, end = 0;
};

// The schedule of a plan (planned_skeleton.h) in device memory.
struct DecodeSchedule {
  const DecodeItem* items = nullptr;  // NULL: the grid determines them
  const int* numbers = nullptr;       // number of items, then of parts

  __device__ int count() const { return numbers[0]; }
  __device__ int parts_of(int b) const { return numbers[1 + b]; }
};

// How a call is cut. Row n of a key/value head of a member with Lq queries is
// query head n / Lq, row n % Lq.
struct DecodeParts {
  int rows = 0;        // group * Tq: a member has no more
  int row_blocks = 0;  // of kDecodeRows
  int count = 0;       // a member has no more
  DecodeSchedule schedule;
  // [B, Hkv, rows, count, value_width + 2]. A row of a packed batch is that of
  // one member: B is 1.
  float* results = nullptr;

  __device__ float* result(const DeviceCall& call, int b, int kv, int row,
                           int part) const {
    const int64_t own = int64_t{call.group} * call.first_row(b) + row;
    const int64_t member = call.cu_q.given() ? 0 : b;
    const int64_t at =
        ((member * call.kv_heads + kv) * rows + own) * count + part;
    return results + at * (call.value_width + 2);
  }
  // Those of a member.
  __device__ int count_of(int b) const {
    return schedule.items != nullptr ? schedule.parts_of(b) : count;
  }
  // The work of this block, or false.
  __device__ bool item(const DeviceCall& call, DecodeItem* item) const {
    if (schedule.items != nullptr) {
      const int number = static_cast<int>(blockIdx.x);
      if (number >= schedule.count()) {
        return false;
      }
      *item = schedule.items[number];
      return true;
    }
    item->b = blockIdx.y / call.kv_heads;
    item->row_block = blockIdx.z;
    item->part = blockIdx.x;
    const int keys = call.keys_of(item->b);
    const int tiles = (keys + kDecodeKeys - 1) / kDecodeKeys;
    const int of_part = (tiles + count - 1) / count * kDecodeKeys;
    item->begin = item->part * of_part;
    item->end = min(item->begin + of_part, keys);
    return item->row_block * kDecodeRows < call.group * call.rows_of(item->b);
  }
};

// B of the call, as in the results.
inline int batch_of(const DeviceCall& call) {
  return call.cu_q.numbers.data == nullptr ? call.batch : 1;
}

// Cut into at most this many parts.
inline DecodeParts decode_parts(const DeviceCall& call, int count) {
  DecodeParts parts;
  parts.rows = call.group * call.queries;
  parts.row_blocks = (parts.rows + kDecodeRows - 1) / kDecodeRows;
  parts.count = count;
  return parts;
}

inline size_t bytes_of_results(const DeviceCall& call,
                               const DecodeParts& parts) {
  return sizeof(float) * static_cast<size_t>(batch_of(call)) *
         static_cast<size_t>(call.kv_heads) * static_cast<size_t>(parts.rows) *
         static_cast<size_t>(parts.count) *
         (static_cast<size_t>(call.value_width) + 2);
}

inline constexpr int kBlocksWanted = 264;  // two for each processor of an H100

// The same parts for all members.
inline DecodeParts even_parts(const DeviceCall& call) {
  const DecodeParts one = decode_parts(call, 1);
  const int blocks = batch_of(call) * call.kv_heads * one.row_blocks;
  const int tiles = (call.keys + kDecodeKeys - 1) / kDecodeKeys;
  const int wanted = blocks == 0 ? 1 : (kBlocksWanted + blocks - 1) / blocks;
  const int most = wanted < tiles ? wanted : tiles;
  return decode_parts(call, most < 1                  ? 1
                            : most > kDecodeMostParts ? kDecodeMostParts
                                                      : most);
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CUDA_DECODE_PARTS_H_
