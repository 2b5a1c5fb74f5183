// SPDX-License-Identifier: Apache-2.0
// Attention in CUDA on the whole plug-in ABI: f32, any strides, both causal
// alignments, grouped heads, dv != d, a given scale, lse. qkvet/kernel.h is the
// manual. `qkvet check` compiles it for threads on the CPU, and names races and
// wrong barriers; for a GPU:
//
//   nvcc -std=c++17 -O3 -shared -Xcompiler -fPIC -I INCLUDE FILE -o mine.so
//   qkvet check ./mine.so
#include <cmath>
#include <cstddef>
#include <cstring>

#include "qkvet/adapter.h"
#include "qkvet/simt/runtime.h"

namespace {

// ---- Arithmetic: yours to replace ------------------------------------------

constexpr int kThreads = 64;   // of a block, and keys of a tile
constexpr int kWidest = 1024;  // d and dv: what fits into shared memory

// A tensor of rank 3 or 4 by its strides, in elements.
struct View {
  float* data = nullptr;
  int64_t step[4] = {};

  explicit View(const qkvet_tensor& t) {
    if (t.ndim == 0) return;  // absent
    data = reinterpret_cast<float*>(static_cast<char*>(t.data) + t.byte_offset);
    // The stride of an extent of 1 may be any number.
    for (int axis = 0; axis < t.ndim; ++axis)
      step[axis] = t.shape[axis] == 1 ? 0 : t.strides[axis];
  }
  __device__ float& at(int64_t b, int64_t h, int64_t t, int64_t c = 0) const {
    return data[b * step[0] + h * step[1] + t * step[2] + c * step[3]];
  }
};

struct Call {
  View q, k, v, o, lse;
  int64_t B, H, Hkv, Tq, Tk, d, dv;
  float scale;
  int32_t causal;

  // How many keys row i sees: the first so many.
  __device__ int64_t seen(int64_t i) const {
    const int64_t end = causal == QKVET_CAUSAL_NONE       ? Tk
                        : causal == QKVET_CAUSAL_TOP_LEFT ? i + 1
                                                          : i + Tk - Tq + 1;
    return end < 0 ? 0 : end > Tk ? Tk : end;
  }
};

// The maximum or the sum of what the threads of a block bring.
__device__ float of_block(float mine, bool maximum) {
  __shared__ float parts[kThreads];
  parts[threadIdx.x] = mine;
  __syncthreads();
  for (int n = 1; threadIdx.x == 0 && n < kThreads; ++n)
    parts[0] = maximum ? fmaxf(parts[0], parts[n]) : parts[0] + parts[n];
  __syncthreads();
  const float all = parts[0];
  __syncthreads();  // the next call overwrites the parts
  return all;
}

// A block computes a row of o. It takes the keys in tiles, one for each thread,
// and keeps maximum, sum and output up to date from tile to tile.
__global__ void attend(Call call) {
  SIMT_DYNAMIC_SHARED(float, row);     // of q, times the scale
  float* const values = row + call.d;  // weighted and added up
  __shared__ float weights[kThreads];

  const int64_t i = blockIdx.x % call.Tq;
  const int64_t h = blockIdx.x / call.Tq % call.H;
  const int64_t b = blockIdx.x / call.Tq / call.H;
  const int64_t g = h / (call.H / call.Hkv);  // the head of k and v
  const int64_t seen = call.seen(i);
  const int t = static_cast<int>(threadIdx.x);
  for (int64_t c = t; c < call.d; c += kThreads)
    row[c] = call.q.at(b, h, i, c) * call.scale;
  for (int64_t c = t; c < call.dv; c += kThreads) values[c] = 0;
  __syncthreads();

  float max = -INFINITY, sum = 0;
  for (int64_t first = 0; first < seen; first += kThreads) {
    const int64_t keys = seen - first < kThreads ? seen - first : kThreads;
    float score = -INFINITY;
    if (t < keys) {
      score = 0;
      for (int64_t c = 0; c < call.d; ++c)
        score += row[c] * call.k.at(b, g, first + t, c);
    }
    const float old = max;
    max = fmaxf(max, of_block(score, true));
    weights[t] = expf(score - max);
    const float rescale = expf(old - max);
    sum = sum * rescale + of_block(weights[t], false);
    for (int64_t c = t; c < call.dv; c += kThreads) {
      float value = values[c] * rescale;
      for (int64_t n = 0; n < keys; ++n)
        value += weights[n] * call.v.at(b, g, first + n, c);
      values[c] = value;
    }
  }
  for (int64_t c = t; c < call.dv; c += kThreads)
    call.o.at(b, h, i, c) = seen > 0 ? values[c] / sum : 0;
  if (t == 0 && call.lse.data != nullptr)
    call.lse.at(b, h, i) = seen > 0 ? max + logf(sum) : -INFINITY;
}

// ---- What is taken, and what is refused ------------------------------------

#if defined(__CUDACC__)
constexpr int32_t kDevice = QKVET_DEVICE_CUDA;
#else
constexpr int32_t kDevice = QKVET_DEVICE_CPU;
#endif

// The capabilities below, and a grid that CUDA can launch.
qkvet_status supports(const qkvet_kernel* self, const qkvet_forward_args* args,
                      qkvet_text* why) {
  const qkvet_status status = qkvet_supports_declared(self, args, why);
  if (status != QKVET_OK) return status;
  constexpr int64_t kMostBlocks = 0x7fffffff;
  const int64_t* q = args->q.shape;
  return q[0] * q[1] * q[2] <= kMostBlocks
             ? QKVET_OK
             : qkvet_refuse(why, QKVET_UNSUPPORTED,
                            "a grid has no block for each row of q");
}

qkvet_status forward(const qkvet_kernel* self, qkvet_context*,
                     const qkvet_forward_args* args, const qkvet_exec* exec,
                     qkvet_text* why) {
  const qkvet_status status = supports(self, args, why);
  if (status != QKVET_OK) return status;
  const qkvet_forward_args a = qkvet_known_args(args);
  const int64_t d = a.q.shape[3];
  const float scale =
      a.scale_given ? a.scale : 1 / std::sqrt(static_cast<float>(d));
  const Call call = {View(a.q),
                     View(a.k),
                     View(a.v),
                     View(a.o),
                     View(a.lse),
                     a.q.shape[0],
                     a.q.shape[1],
                     a.k.shape[1],
                     a.q.shape[2],
                     a.k.shape[2],
                     d,
                     a.v.shape[3],
                     scale,
                     a.causal};
  const auto rows = static_cast<unsigned>(call.B * call.H * call.Tq);
  const size_t bytes = static_cast<size_t>(call.d + call.dv) * sizeof(float);
  simt::or_abort(SIMT_LAUNCH(attend, rows, kThreads, bytes,
                             exec == nullptr ? nullptr : exec->stream, call));
  return QKVET_OK;
}

// ---- What the library says of itself ---------------------------------------

const qkvet_capabilities kCapabilities = [] {
  qkvet_capabilities c{};
  c.struct_size = sizeof c;
  c.options = QKVET_OPTION_CAUSAL_TOP_LEFT | QKVET_OPTION_CAUSAL_BOTTOM_RIGHT |
              QKVET_OPTION_SCALE | QKVET_OPTION_DEFAULT_SCALE |
              QKVET_OPTION_LSE | QKVET_OPTION_GROUPED_HEADS |
              QKVET_OPTION_VALUE_WIDTH | QKVET_OPTION_CROSS_LENGTHS;
  c.flags = QKVET_FLAG_GPU_THREADS;
  c.devices = uint64_t{1} << kDevice;
  c.d.max = c.dv.max = kWidest;
  c.path_count = 1;
  c.paths[0] = {QKVET_AXIS_TK, kThreads};
  c.layouts = QKVET_LAYOUT_BHTD | QKVET_LAYOUT_ANY_STRIDES;
  return c;
}();

const qkvet_dialect kDialect = [] {
  qkvet_dialect dialect{};
  dialect.struct_size = sizeof dialect;
  dialect.empty_row = QKVET_EMPTY_ROW_ZERO;
  dialect.lse_base = QKVET_LSE_NATURAL;
  dialect.empty_row_lse = QKVET_EMPTY_LSE_MINUS_INF;
  return dialect;
}();

// The arithmetic (qkvet/precision.h): each output is held to it. Nothing
// declared means the generic bound.
const qkvet_precision kPrecision = [] {
  qkvet_precision p{};
  p.struct_size = sizeof p;
  p.preset = QKVET_PRECISION_CPU_F32;  // with expf and no fast intrinsics
  p.declared = QKVET_KNOB_SCALE_STAGE;
  p.scale_stage = QKVET_SCALE_ON_Q;
  return p;
}();

const qkvet_kernel kKernel = [] {
  qkvet_kernel kernel{};
  kernel.struct_size = sizeof kernel;
  kernel.name = "mine/attention";
  kernel.description = "CUDA: a block for each row, f32, any strides";
  kernel.source_file = __FILE__;
  kernel.source_line = __LINE__;
  kernel.capabilities = &kCapabilities;
  kernel.dialect = &kDialect;
  kernel.precision = &kPrecision;
  kernel.supports = supports;
  kernel.forward = forward;
  return kernel;
}();

const qkvet_kernel* const kKernels[] = {&kKernel};

}  // namespace

extern "C" qkvet_status qkvet_open(const qkvet_host* host, const char* config,
                                   qkvet_library* out, qkvet_text* why) {
  return qkvet_open_kernels(host, config, out, why, "mine", kKernels, 1);
}
