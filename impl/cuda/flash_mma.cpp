// SPDX-License-Identifier: Apache-2.0
// flash_mma: FlashAttention-2 (Dao 2023) on tensor cores, for half storage.
//
//   c = |scale| log2(e),  M = round(max q.k * c)   tiles of 64 keys
//   w_j = exp2(fma(q.k_j, c, -M))                  q with the sign of the scale
//   l += w_j,  acc += round(w_j) v_j               rounded to the storage type
//   where a tile raises M: l and acc times exp2(old M - new M)
//
// With slopes of ALiBi (of distances D_j) the scores are t_j, and M their
// maximum:
//
//   t_j = fma(q.k_j, c, -slope log2(e) D_j)
//   w_j = exp2(t_j - M)
//
// A block has four warps and 64 rows of queries, each warp 16 rows of its own:
// a row never leaves four neighbouring lanes, and weights never leave
// registers. The next tile is copied while one is worked on; heads wider than
// 128 have no room for that.
//
// Contract: f16 and bf16, any strides, heads of up to 256; rows of 16-byte
// pieces (aligned, contiguous, a multiple of 8 channels) are copied past the
// registers, all others element by element. Infinity in v at a key that another
// row of the tile sees reaches o, as 0 * infinity; keys past the end of a
// member are never read. Cost: K and V are read once for 64 rows.
#include "impl/cuda/arithmetic.h"
#include "impl/cuda/flash_mma_tile.h"
#include "impl/cuda/launch.h"

namespace qkvet::impl {
namespace {

constexpr int kMostWidth = 256;
constexpr uint32_t kBothSigns = 0x80008000u;

// The keys that at least one of `count` rows sees.
__device__ DeviceRun all_of(const DeviceRun* reach, int count) {
  DeviceRun all;
  for (int n = 0; n < count; ++n) {
    const DeviceRun run = reach[n];
    if (run.begin < run.end) {
      all.begin = all.end == 0 || run.begin < all.begin ? run.begin : all.begin;
      all.end = run.end > all.end ? run.end : all.end;
    }
  }
  return all;
}

// Rows of this block's part of a head: of member b, `first` and on.
struct MmaBlock {
  int b, h, kv;
  int first, rows;  // rows that there are
  DeviceRun keys;   // that any of them sees
  DeviceRun warp;   // that any row of the warp sees
};

template <int kWidth>
__device__ void begin_rows(const DeviceCall& call,
                           const MmaMemory<kWidth>& memory, MmaBlock* block,
                           MmaThread<kWidth>* own) {
  const int warp_row = threadIdx.x / 32 * kMmaWarpRows;
  block->keys = all_of(memory.reach, block->rows);
  block->warp = all_of(memory.reach + warp_row, kMmaWarpRows);
  own->slope = call.slopes.of(block->b, block->h) * kMmaLog2E;
  for (int r = 0; r < 2; ++r) {
    const int row = warp_row + threadIdx.x % 32 / 4 + 8 * r;
    own->reach[r] = memory.reach[row];
    own->at[r] = call.position(block->b, block->first + row);
    own->max[r] = minus_infinity();
    own->sum[r] = 0;
  }
  SIMT_UNROLL
  for (int n = 0; n < kWidth / 8; ++n) {
    SIMT_UNROLL
    for (int i = 0; i < 4; ++i) {
      own->acc[n][i] = 0;
    }
  }
}

// All tiles from the one with the first key on. A warp waits during a tile that
// none of its rows sees.
template <class T, int kWidth>
__device__ void walk_keys(const MmaCall& mma, const MmaMemory<kWidth>& memory,
                          const MmaBlock& block,
                          const MmaQueries<kWidth>& queries,
                          MmaThread<kWidth>* own) {
  constexpr bool kAhead = MmaMemory<kWidth>::kStages == 2;
  const float factor = fabsf(mma.call.scale) * kMmaLog2E;
  const int end = block.keys.end;
  int stage = 0;
  for (int j = block.keys.begin / kMmaKeys * kMmaKeys; j < end; j += kMmaKeys) {
    const int next = j + kMmaKeys;
    if (kAhead && next < end) {
      load_tile<kWidth>(mma, memory, 1 - stage, block.b, block.kv, next, end);
    }
    cp_async_commit();
    cp_async_wait<kAhead ? 1 : 0>();
    __syncthreads();
    if (j < block.warp.end && next > block.warp.begin) {
      const int keys = keys_of_tile(j, end);
      float scores[kMmaKeys / 8][4];
      score_tile<T, kWidth>(memory, stage, keys, queries, scores);
      weigh_row<kWidth>(j, factor, 0, scores, own);
      weigh_row<kWidth>(j, factor, 1, scores, own);
      add_values<T, kWidth>(memory, stage, keys, scores, own);
    }
    __syncthreads();  // the tile is no longer read
    if (!kAhead && next < end) {
      load_tile<kWidth>(mma, memory, stage, block.b, block.kv, next, end);
    }
    stage = kAhead ? 1 - stage : stage;
  }
}

template <class T, int kWidth>
__device__ void write_rows(const DeviceCall& call, const MmaBlock& block,
                           const MmaThread<kWidth>& own) {
  const int lane = threadIdx.x % 32;
  SIMT_UNROLL
  for (int r = 0; r < 2; ++r) {
    const int row = threadIdx.x / 32 * kMmaWarpRows + lane / 4 + 8 * r;
    const bool none = own.reach[r].begin >= own.reach[r].end;
    const float sum = sum_of_lanes<4>(own.sum[r]);
    const float reciprocal = 1.0f / sum;
    if (row >= block.rows) {
      continue;
    }
    const int i = block.first + row;
    T* const o = call.o.at<T>(block.b, block.h, i);
    SIMT_UNROLL
    for (int n = 0; n < kWidth / 4; ++n) {
      const int c = n / 2 * 8 + lane % 4 * 2 + n % 2;
      if (c < call.value_width) {
        const float x = own.acc[n / 2][2 * r + n % 2] * reciprocal;
        o[c * call.o.step[3]] = from_f32<T>(none ? 0 : x);
      }
    }
    if (call.lse.data != nullptr && lane % 4 == 0) {
      *call.lse.at<float>(block.b, block.h, i) =
          none ? minus_infinity() : own.max[r] * kMmaLn2 + logf(sum);
    }
  }
}

template <class T, int kWidth>
__global__ void __launch_bounds__(kBlockThreads) flash_mma_rows(MmaCall mma) {
  SIMT_DYNAMIC_SHARED(uint16_t, shared);
  const MmaMemory<kWidth> memory(shared);
  const DeviceCall& call = mma.call;
  const int thread = threadIdx.x;
  MmaBlock block;
  block.b = blockIdx.y / call.heads;
  block.h = blockIdx.y % call.heads;
  block.kv = block.h / call.group;
  block.first = blockIdx.x * kMmaRows;
  const int all_rows = call.rows_of(block.b);
  if (block.first >= all_rows) {
    return;
  }
  block.rows =
      all_rows - block.first < kMmaRows ? all_rows - block.first : kMmaRows;
  if (thread < kMmaRows) {
    memory.reach[thread] = thread < block.rows
                               ? call.reach(block.b, block.first + thread)
                               : DeviceRun{};
  }
  load_rows<kWidth>(call.q, block.b, block.h, block.first, all_rows, kMmaRows,
                    call.width, mma.pieces_of_q, memory.q);
  cp_async_commit();
  __syncthreads();
  MmaThread<kWidth> own;
  begin_rows(call, memory, &block, &own);
  if (block.keys.begin < block.keys.end) {
    load_tile<kWidth>(mma, memory, 0, block.b, block.kv,
                      block.keys.begin / kMmaKeys * kMmaKeys, block.keys.end);
  }
  cp_async_commit();
  cp_async_wait<1>();
  __syncthreads();
  MmaQueries<kWidth> queries;
  queries.flip = call.scale < 0 ? kBothSigns : 0;
  queries.read_all(memory);
  walk_keys<T, kWidth>(mma, memory, block, queries, &own);
  write_rows<T, kWidth>(call, block, own);
}

bool in_pieces(const DeviceTensor& t, int width) {
  constexpr int64_t kBytes = kMmaPiece * sizeof(uint16_t);
  return reinterpret_cast<uintptr_t>(t.data) % kBytes == 0 &&
         width % kMmaPiece == 0 && t.step[0] % kMmaPiece == 0 &&
         t.step[1] % kMmaPiece == 0 && t.step[2] % kMmaPiece == 0 &&
         t.step[3] == 1;
}

template <class T, int kWidth>
qkvet_status launch(const DeviceCall& call, const qkvet_exec* exec,
                    qkvet_text* why) {
  const auto kernel = flash_mma_rows<T, kWidth>;
  constexpr size_t kBytes = MmaMemory<kWidth>::bytes();
  QKVET_TRY(
      prepare_launch(reinterpret_cast<const void*>(kernel), kBytes, call, why));
  const MmaCall mma = {call, in_pieces(call.q, call.width),
                       in_pieces(call.k, call.width),
                       in_pieces(call.v, call.value_width)};
  const dim3 grid((call.queries + kMmaRows - 1) / kMmaRows,
                  call.batch * call.heads);
  return end_launch(
      SIMT_LAUNCH(kernel, grid, kBlockThreads, kBytes, exec->stream, mma), why);
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
  QKVET_TRY(begin_device_call(self, args, exec, kMostWidth, &call, &type, why));
  if (call.batch * call.heads * call.queries == 0) {
    return QKVET_OK;
  }
  return type == Storage::kF16 ? launch_width<F16>(call, exec, why)
                               : launch_width<Bf16>(call, exec, why);
}

// P is rounded to the storage type, unnormalised, and the denominator adds it
// unrounded: the preset. Relative to the distance from the maximum, in units of
// 2^-24: the error of c is 1.23 (log2(e) 0.23, its product with the scale 1),
// the multiply-add or the difference of two maxima rounds 1. Together 2.23 of
// 2.3. M is subtracted as rounded, from weights and from later M alike, so its
// rounding does not change the weights.
constexpr double kArgRoundings = 2.3;

// On a device sums are truncated and exp2f is within 2 ulps; the twins round.
#if defined(__CUDACC__)
constexpr qkvet_precision kPrecision = [] {
  qkvet_precision p = {};
  p.struct_size = sizeof(p);
  p.preset = QKVET_PRECISION_TENSOR_CORE;
  p.declared = QKVET_KNOB_TILE | QKVET_KNOB_ARG_ROUNDINGS;
  p.tile = kMmaKeys;
  p.arg_roundings = kArgRoundings;
  return p;
}();
#else
constexpr qkvet_precision kPrecision = [] {
  qkvet_precision p = sequential_f32();
  p.preset = QKVET_PRECISION_FLASH_HALF;
  p.value_sum = QKVET_SUM_ANY;  // the denominator: four lanes
  p.tile = kMmaKeys;
  p.arg_roundings = kArgRoundings;
  p.norm_roundings = kNormReciprocal;
  p.scale_stage = QKVET_SCALE_FOLDED;
  p.fma = 1;  // products of halves are exact in f32
  return p;
}();
#endif

constexpr qkvet_capabilities kCapabilities =
    with_paths(device_capabilities(kDeviceOptions, {kF16, kBf16}, kMostWidth),
               {{QKVET_AXIS_TQ, kMmaRows}, {QKVET_AXIS_TK, kMmaKeys}});

constexpr qkvet_dialect kDialect = [] {
  qkvet_dialect d = options_dialect();
  d.masked_nonfinite = QKVET_MASKED_NOT_IGNORED;
  return d;
}();

constexpr qkvet_kernel kKernel = [] {
  qkvet_kernel kernel = device_kernel(
      QKVET_FAMILY "/flash_mma", "CUDA: FlashAttention-2 on tensor cores",
      {"impl/cuda/flash_mma.cpp", __LINE__}, &kPrecision, forward,
      &kCapabilities, supports_device<kMostWidth>);
  kernel.dialect = &kDialect;
  return kernel;
}();

}  // namespace

extern constinit const qkvet_kernel cuda_flash_mma = kKernel;

}  // namespace qkvet::impl
