// SPDX-License-Identifier: Apache-2.0
// decode: few queries against many keys. The keys of a member are cut into
// parts, so that even one sequence fills a GPU ("Flash-Decoding", Dao et al.
// 2023); each part leaves (max, sum, o) in the workspace, and a second kernel
// merges them. All query heads that share a key/value head are rows of one
// block: K and V are read once for all of them.
//
// Keys and values may lie in pages (Kwon et al. 2023, 4.3), of a block table or
// of lists, and new tokens are stored first, by a kernel of their own. Queries
// may be packed over pages: each member then has blocks enough for all of them,
// and those behind its last row end at once.
//
// A block has 128 threads: eight rows, sixteen lanes each. Every lane has two
// keys of a tile of 32, then every sixteenth channel of o.
//
// Contract: f32, f16 and bf16, any strides, heads of up to 256. Cost: the
// workspace has (d + 2) floats for each row and part, at most 32 parts.
#include "impl/cuda/arithmetic.h"
#include "impl/cuda/block.h"
#include "impl/cuda/launch.h"
#include "impl/skeletons/serving_skeleton.h"

namespace qkvet::impl {
namespace {

constexpr int kMostWidth = 256;
constexpr int kRows = 8;        // of a block
constexpr int kLanes = 16;      // of a row
constexpr int kKeys = 32;       // of a tile
constexpr int kKeysOfLane = 2;  // kKeys / kLanes
// More than the eight parts of an undeclared kernel is looser than generic,
// which reports say; an emulator has no processors to fill.
#if defined(__CUDACC__)
constexpr int kMostParts = 32;
#else
constexpr int kMostParts = 8;
#endif
constexpr int kBlocksWanted = 264;  // two for each processor of an H100
constexpr float kHidden = -1.0f;    // in place of a weight
static_assert(kRows * kLanes == kBlockThreads && kKeysOfLane * kLanes == kKeys);

// How a call is cut. Row n of a key/value head of a member with Lq queries is
// query head n / Lq, row n % Lq.
struct Parts {
  int rows = 0;        // group * Tq: a member has no more
  int row_blocks = 0;  // of kRows
  int count = 0;
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
};

// B of the call, as results have it.
int batch_of(const DeviceCall& call) {
  return call.cu_q.numbers.data == nullptr ? call.batch : 1;
}

Parts parts_of(const DeviceCall& call, void* workspace) {
  Parts parts;
  parts.rows = call.group * call.queries;
  parts.row_blocks = (parts.rows + kRows - 1) / kRows;
  const int blocks = batch_of(call) * call.kv_heads * parts.row_blocks;
  const int tiles = (call.keys + kKeys - 1) / kKeys;
  const int wanted = blocks == 0 ? 1 : (kBlocksWanted + blocks - 1) / blocks;
  parts.count = wanted < tiles ? wanted : tiles;
  parts.count = parts.count < 1            ? 1
                : parts.count > kMostParts ? kMostParts
                                           : parts.count;
  parts.results = static_cast<float*>(workspace);
  return parts;
}

template <int kWidth>
struct DecodeMemory {
  static constexpr int kStride = kWidth + 1;
  float* q;        // [kRows, kStride]
  float* kv;       // [kKeys, kStride]: keys, then values
  float* weights;  // [kRows, kKeys]

  static constexpr size_t bytes() {
    return sizeof(float) * ((kRows + kKeys) * kStride + kRows * kKeys);
  }
  __device__ explicit DecodeMemory(float* memory)
      : q(memory), kv(q + kRows * kStride), weights(kv + kKeys * kStride) {}
};

// A row of the block: which one it is, and what is known of it.
template <int kWidth>
struct DecodeRow {
  int head = 0, i = 0;
  bool is_there = false;
  DeviceRun reach;
  float max, sum;
  float acc[kWidth / kLanes];
};

template <class T, int kWidth>
__device__ void begin_row(const DeviceCall& call, int b, int kv, int row,
                          DecodeRow<kWidth>* out) {
  const int queries = call.rows_of(b);  // not 0
  out->head = kv * call.group + row / queries;
  out->i = row % queries;
  out->is_there = row < call.group * queries;
  out->reach = out->is_there ? call.reach(b, out->i) : DeviceRun{};
  out->max = minus_infinity();
  out->sum = 0;
  for (float& acc : out->acc) {
    acc = 0;
  }
}

// The weights of the row against a tile, in shared memory.
template <int kWidth>
__device__ void weigh_tile(const DecodeMemory<kWidth>& memory, int own,
                           int lane, int first, int end, float scale,
                           DecodeRow<kWidth>* row) {
  float score[kKeysOfLane];
  bool seen[kKeysOfLane];
  float max = minus_infinity();
  for (int n = 0; n < kKeysOfLane; ++n) {
    const int key = n * kLanes + lane, j = first + key;
    float dot = 0;
    for (int c = 0; c < kWidth; ++c) {
      dot += memory.q[own * memory.kStride + c] *
             memory.kv[key * memory.kStride + c];
    }
    seen[n] = j >= row->reach.begin && j < row->reach.end && j < end;
    score[n] = seen[n] ? dot * scale : minus_infinity();
    max = fmaxf(max, score[n]);
  }
  max = max_of_lanes<kLanes>(max);
  max = fmaxf(max, row->max);
  const float rescale = max > minus_infinity() ? expf(row->max - max) : 1.0f;
  float sum = 0;
  for (int n = 0; n < kKeysOfLane; ++n) {
    const float weight = seen[n] ? expf(score[n] - max) : kHidden;
    sum += seen[n] ? weight : 0.0f;
    memory.weights[own * kKeys + n * kLanes + lane] = weight;
  }
  sum = sum_of_lanes<kLanes>(sum);
  row->sum = row->sum * rescale + sum;
  row->max = max;
  for (float& acc : row->acc) {
    acc *= rescale;
  }
}

template <int kWidth>
__device__ void add_values(const DecodeMemory<kWidth>& memory, int own,
                           int lane, DecodeRow<kWidth>* row) {
  for (int j = 0; j < kKeys; ++j) {
    const float weight = memory.weights[own * kKeys + j];
    if (!(weight < 0)) {  // NaN is seen
      for (int c = 0; c < kWidth / kLanes; ++c) {
        row->acc[c] +=
            weight * memory.kv[j * memory.kStride + c * kLanes + lane];
      }
    }
  }
}

// A part of the keys of a member for eight rows.
template <class T, int kWidth>
__global__ void decode_part(DeviceCall call, Parts parts) {
  using Memory = DecodeMemory<kWidth>;
  SIMT_DYNAMIC_SHARED(float, shared);
  const Memory memory(shared);
  const int thread = threadIdx.x, own = thread / kLanes;
  const int lane = thread % kLanes, part = blockIdx.x;
  const int b = blockIdx.y / call.kv_heads, kv = blockIdx.y % call.kv_heads;
  const int number = blockIdx.z * kRows + own;
  if (number - own >= call.group * call.rows_of(b)) {
    return;  // all of the block
  }
  DecodeRow<kWidth> row;
  begin_row<T, kWidth>(call, b, kv, number, &row);
  for (int c = lane; c < kWidth; c += kLanes) {
    memory.q[own * Memory::kStride + c] =
        row.is_there && c < call.width
            ? to_f32(call.row<const T>(call.q, b, row.head,
                                       row.i)[c * call.q.step[3]])
            : 0.0f;
  }
  const int tiles = (call.keys_of(b) + kKeys - 1) / kKeys;
  const int of_part = (tiles + parts.count - 1) / parts.count * kKeys;
  const int begin = part * of_part;
  const int end = min(begin + of_part, call.keys_of(b));
  for (int j = begin; j < end; j += kKeys) {
    __syncthreads();  // values of the tile before are no longer read
    load_tokens<T>(call, call.k, b, kv, j, end, kKeys, call.width, kWidth,
                   memory.kv, Memory::kStride);
    __syncthreads();
    weigh_tile<kWidth>(memory, own, lane, j, end, call.scale, &row);
    __syncthreads();  // the keys make room
    load_tokens<T>(call, call.v, b, kv, j, end, kKeys, call.value_width, kWidth,
                   memory.kv, Memory::kStride);
    __syncthreads();
    add_values<kWidth>(memory, own, lane, &row);
  }
  if (!row.is_there) {
    return;
  }
  float* const result = parts.result(call, b, kv, number, part);
  for (int n = 0; n * kLanes + lane < call.value_width; ++n) {
    result[2 + n * kLanes + lane] = row.acc[n];
  }
  if (lane == 0) {
    result[0] = row.max;
    result[1] = row.sum;
  }
}

// o and lse of a row out of its parts, a thread a channel.
template <class T>
__global__ void decode_merge(DeviceCall call, Parts parts) {
  const int b = blockIdx.y / call.kv_heads, kv = blockIdx.y % call.kv_heads;
  const int row = blockIdx.x, queries = call.rows_of(b);
  if (row >= call.group * queries) {
    return;
  }
  const int i = row % queries, head = kv * call.group + row / queries;
  float max = minus_infinity();
  for (int part = 0; part < parts.count; ++part) {
    max = fmaxf(max, parts.result(call, b, kv, row, part)[0]);
  }
  const int thread = threadIdx.x;
  for (int c = thread; c < call.value_width; c += kBlockThreads) {
    float sum = 0, acc = 0;
    for (int part = 0; part < parts.count; ++part) {
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

// Tokens held, held + 1, ... of every member, a block a token.
template <class T>
__global__ void store_new_tokens(DeviceCall call) {
  const int n = blockIdx.x, b = blockIdx.y / call.kv_heads;
  const int kv = blockIdx.y % call.kv_heads, j = call.held_by(b) + n;
  for (int c = threadIdx.x; c < call.width; c += kBlockThreads) {
    call.token<T>(call.k, b, kv, j)[c * call.k.step[3]] =
        call.k_new.at<const T>(b, kv, n)[c * call.k_new.step[3]];
  }
  for (int c = threadIdx.x; c < call.value_width; c += kBlockThreads) {
    call.token<T>(call.v, b, kv, j)[c * call.v.step[3]] =
        call.v_new.at<const T>(b, kv, n)[c * call.v_new.step[3]];
  }
}

template <class T>
qkvet_status store_new(const DeviceCall& call, const qkvet_exec* exec,
                       qkvet_text* why) {
  if (call.new_tokens == 0 || call.batch == 0) {
    return QKVET_OK;
  }
  const auto kernel = store_new_tokens<T>;
  const qkvet_status status =
      prepare_launch(reinterpret_cast<const void*>(kernel), 0, call, why);
  const dim3 grid(call.new_tokens, call.batch * call.kv_heads);
  return status == QKVET_OK
             ? end_launch(SIMT_LAUNCH(kernel, grid, kBlockThreads, 0,
                                      exec->stream, call),
                          why)
             : status;
}

template <class T, int kWidth>
qkvet_status attend(const DeviceCall& call, const Parts& parts,
                    const qkvet_exec* exec, qkvet_text* why) {
  const auto kernel = decode_part<T, kWidth>;
  const size_t bytes = DecodeMemory<kWidth>::bytes();
  qkvet_status status =
      prepare_launch(reinterpret_cast<const void*>(kernel), bytes, call, why);
  if (status != QKVET_OK) {
    return status;
  }
  const int heads = call.batch * call.kv_heads;
  const dim3 grid(parts.count, heads, parts.row_blocks);
  status = end_launch(SIMT_LAUNCH(kernel, grid, kBlockThreads, bytes,
                                  exec->stream, call, parts),
                      why);
  if (status != QKVET_OK) {
    return status;
  }
  const auto merge = decode_merge<T>;
  const dim3 rows(parts.rows, heads);
  return end_launch(
      SIMT_LAUNCH(merge, rows, kBlockThreads, 0, exec->stream, call, parts),
      why);
}

template <class T>
qkvet_status serve(const DeviceCall& call, const Parts& parts,
                   const qkvet_exec* exec, qkvet_text* why) {
  const qkvet_status status = store_new<T>(call, exec, why);
  if (status != QKVET_OK || call.batch * call.heads * call.queries == 0) {
    return status;
  }
  const int width =
      call.width > call.value_width ? call.width : call.value_width;
  return width <= 64    ? attend<T, 64>(call, parts, exec, why)
         : width <= 128 ? attend<T, 128>(call, parts, exec, why)
                        : attend<T, 256>(call, parts, exec, why);
}

size_t workspace_bytes(const DeviceCall& call) {
  const Parts parts = parts_of(call, nullptr);
  return sizeof(float) * static_cast<size_t>(batch_of(call)) *
         static_cast<size_t>(call.kv_heads) * static_cast<size_t>(parts.rows) *
         static_cast<size_t>(parts.count) *
         (static_cast<size_t>(call.value_width) + 2);
}

qkvet_status workspace(const qkvet_kernel* self, qkvet_context*,
                       const qkvet_forward_args* args, size_t* bytes) {
  DeviceCall call;
  Storage type;
  const qkvet_status status =
      read_device_call(self, args, kMostWidth, &call, &type, nullptr);
  *bytes = status == QKVET_OK ? workspace_bytes(call) : 0;
  return status;
}

qkvet_status forward(const qkvet_kernel* self, qkvet_context*,
                     const qkvet_forward_args* args, const qkvet_exec* exec,
                     qkvet_text* why) {
  DeviceCall call;
  Storage type;
  const qkvet_status status =
      begin_device_call(self, args, exec, kMostWidth, &call, &type, why);
  if (status != QKVET_OK) {
    return status;
  }
  if (exec->workspace_size < workspace_bytes(call)) {
    return refuse(why, QKVET_INVALID_ARGUMENT,
                  "the workspace is smaller than was asked for");
  }
  const Parts parts = parts_of(call, exec->workspace);
  return type == Storage::kF32   ? serve<float>(call, parts, exec, why)
         : type == Storage::kF16 ? serve<F16>(call, parts, exec, why)
                                 : serve<Bf16>(call, parts, exec, why);
}

constexpr qkvet_precision kPrecision = [] {
  qkvet_precision p = cuda_core_f32();
  p.tile = kKeys;
  p.splits = kMostParts;
  p.merge = QKVET_MERGE_MLO;
  return p;
}();
// Up to the most parts each is a tile of keys, and from there on more of them.
constexpr qkvet_capabilities kCapabilities = with_paths(
    device_capabilities(kDeviceOptions | kServingOptions |
                            QKVET_OPTION_PACKED_PAGES | QKVET_OPTION_PAGED_CSR,
                        {kF32, kF16, kBf16}, kMostWidth),
    {{QKVET_AXIS_TK, kKeys},
     {QKVET_AXIS_TK, kMostParts* kKeys},
     {QKVET_AXIS_TQ, kRows}});

constexpr qkvet_kernel decode_kernel() {
  qkvet_kernel kernel = device_kernel(
      QKVET_FAMILY "/decode", "CUDA: parts of the keys, merged; pages",
      {"impl/cuda/decode.cpp", __LINE__}, &kPrecision, forward, &kCapabilities,
      supports_device<kMostWidth>);
  kernel.workspace = workspace;
  return kernel;
}

}  // namespace

extern constinit const qkvet_kernel cuda_decode = decode_kernel();

}  // namespace qkvet::impl
