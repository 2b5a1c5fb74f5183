// SPDX-License-Identifier: Apache-2.0
// Attention in CUDA on the whole plug-in ABI: f32, any strides, both causal
// alignments, grouped heads, dv != d, a given scale, lse. qkvet/kernel.h is the
// manual. `qkvet check` compiles it for threads on the CPU, and names races and
// wrong barriers; for a GPU:
//
//   nvcc -std=c++17 -O3 -shared -Xcompiler -fPIC -I INCLUDE FILE -o mine.so
//   qkvet check --plugin ./mine.so
#include <cmath>
#include <cstddef>
#include <cstring>

#include "qkvet/kernel.h"
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
  float all = parts[0];
  for (int n = 1; n < kThreads; ++n)
    all = maximum ? fmaxf(all, parts[n]) : all + parts[n];
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

qkvet_status no(qkvet_text* why, qkvet_status status, const char* reason) {
  if (why != nullptr && why->data != nullptr && why->capacity > 0) {
    std::strncpy(why->data, reason, why->capacity - 1);
    why->data[why->capacity - 1] = '\0';
  }
  return status;
}

// The arguments as this file knows them: a shorter struct ends in zeros.
qkvet_forward_args known(const qkvet_forward_args* from) {
  qkvet_forward_args args{};
  std::memcpy(
      &args, from,
      from->struct_size < sizeof args ? from->struct_size : sizeof args);
  return args;
}

// Whether a field is set that is newer than the headers of this file.
bool is_newer(const qkvet_forward_args* from) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(from);
  for (size_t i = sizeof *from; i < from->struct_size; ++i)
    if (bytes[i] != 0) return true;
  return false;
}

bool is_f32(const qkvet_tensor& t, int rank) {
  return t.data != nullptr && t.ndim == rank && t.shape != nullptr &&
         t.strides != nullptr && t.device_type == kDevice &&
         t.dtype.code == QKVET_DTYPE_FLOAT && t.dtype.bits == 32;
}

bool has_shape(const qkvet_tensor& t, int64_t B, int64_t H, int64_t T) {
  return t.shape[0] == B && t.shape[1] == H && t.shape[2] == T;
}

// Whether a field is set that this kernel does not know. Ignoring one would be
// a wrong answer.
bool asks_for_more(const qkvet_forward_args& a) {
  for (const qkvet_tensor* t :
       {&a.weights,       &a.mask,        &a.bias,         &a.sink,
        &a.slopes,        &a.rope_cos,    &a.rope_sin,     &a.q_positions,
        &a.k_positions,   &a.q_len,       &a.kv_len,       &a.cu_seqlens_q,
        &a.cu_seqlens_k,  &a.block_table, &a.page_indptr,  &a.page_indices,
        &a.last_page_len, &a.k_new,       &a.v_new,        &a.q_scale,
        &a.k_scale,       &a.v_scale,     &a.dropout_mask, &a.key_indices,
        &a.topk_length,   &a.segments_q,  &a.segments_k,   &a.full_ranges,
        &a.tree_mask})
    if (t->data != nullptr || t->ndim != 0) return true;
  return a.has_window != 0 || a.softcap > 0 || a.rope != QKVET_ROPE_NONE ||
         a.dropout_p > 0 || a.chunk != 0 || a.causal < QKVET_CAUSAL_NONE ||
         a.causal > QKVET_CAUSAL_BOTTOM_RIGHT;
}

// nullptr, or why the call is refused; `a` are its arguments as they are known.
const char* refusal(const qkvet_forward_args* args,
                    const qkvet_forward_args& a) {
  if (is_newer(args)) return "an argument is too new for this kernel";
  if (asks_for_more(a)) return "masks, windows, pages, ... are not supported";
  for (const qkvet_tensor* t : {&a.q, &a.k, &a.v, &a.o}) {
    if (!is_f32(*t, 4))
      return "only f32 tensors of rank 4, on the device of this library";
    for (int axis = 0; axis < 4; ++axis)
      if (t->shape[axis] < 1) return "empty extents are not supported";
  }
  const int64_t B = a.q.shape[0], H = a.q.shape[1], Tq = a.q.shape[2];
  const int64_t Hkv = a.k.shape[1], Tk = a.k.shape[2];
  if (!has_shape(a.k, B, Hkv, Tk) || !has_shape(a.v, B, Hkv, Tk) ||
      !has_shape(a.o, B, H, Tq) || a.k.shape[3] != a.q.shape[3] ||
      a.o.shape[3] != a.v.shape[3] || H % Hkv != 0)
    return "the shapes of q, k, v and o do not fit";
  if (a.lse.ndim != 0 && (!is_f32(a.lse, 3) || !has_shape(a.lse, B, H, Tq)))
    return "lse must be f32 [B, H, Tq]";
  constexpr int64_t kMostBlocks = 0x7fffffff;
  if (a.q.shape[3] > kWidest || a.v.shape[3] > kWidest ||
      B * H * Tq > kMostBlocks)
    return "heads of at most 1,024, and a row of q for each block of a grid";
  return nullptr;
}

qkvet_status supports(const qkvet_kernel*, const qkvet_forward_args* args,
                      qkvet_text* why) {
  const char* reason = refusal(args, known(args));
  return reason == nullptr ? QKVET_OK : no(why, QKVET_UNSUPPORTED, reason);
}

qkvet_status forward(const qkvet_kernel*, qkvet_context*,
                     const qkvet_forward_args* args, const qkvet_exec* exec,
                     qkvet_text* why) {
  const qkvet_forward_args a = known(args);
  if (const char* reason = refusal(args, a))
    return no(why, QKVET_UNSUPPORTED, reason);
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
  if (host == nullptr || host->abi_major != QKVET_ABI_MAJOR)
    return no(why, QKVET_INVALID_ARGUMENT, "another version of the ABI");
  if (config != nullptr && config[0] != '\0')
    return no(why, QKVET_INVALID_ARGUMENT, "takes no configuration");
  if (out == nullptr || out->struct_size < sizeof *out)
    return no(why, QKVET_INVALID_ARGUMENT, "the library struct is too small");
  *out = {};
  out->struct_size = sizeof *out;
  out->abi_major = QKVET_ABI_MAJOR;
  out->abi_minor = QKVET_ABI_MINOR;
  out->name = "mine";
  out->kernel_count = 1;
  out->kernels = kKernels;
  return QKVET_OK;
}
