// SPDX-License-Identifier: Apache-2.0
// Attention on the whole plug-in ABI: f32, any strides, both causal alignments,
// grouped heads, dv != d, a given scale, lse. qkvet/kernel.h is the manual.
#include <cmath>
#include <cstddef>
#include <cstring>
#include <vector>

#include "qkvet/kernel.h"

namespace {

// ---- Arithmetic: yours to replace ------------------------------------------

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
  float& at(int64_t b, int64_t h, int64_t t, int64_t c = 0) const {
    return data[b * step[0] + h * step[1] + t * step[2] + c * step[3]];
  }
};

struct Call {
  View q, k, v, o, lse;
  int64_t B, H, Hkv, Tq, Tk, d, dv;
  float scale;
  int32_t causal;

  // How many keys row i sees: the first so many.
  int64_t seen(int64_t i) const {
    const int64_t end = causal == QKVET_CAUSAL_NONE       ? Tk
                        : causal == QKVET_CAUSAL_TOP_LEFT ? i + 1
                                                          : i + Tk - Tq + 1;
    return end < 0 ? 0 : end > Tk ? Tk : end;
  }
};

void attend_row(const Call& call, int64_t b, int64_t h, int64_t i,
                std::vector<float>& p) {
  const int64_t g = h / (call.H / call.Hkv);  // the head of k and v
  const int64_t seen = call.seen(i);
  float max = -INFINITY, sum = 0;
  for (int64_t j = 0; j < seen; ++j) {
    float dot = 0;
    for (int64_t c = 0; c < call.d; ++c)
      dot += call.q.at(b, h, i, c) * call.k.at(b, g, j, c);
    p[j] = dot * call.scale;
    max = std::fmax(max, p[j]);
  }
  for (int64_t j = 0; j < seen; ++j) sum += p[j] = std::exp(p[j] - max);
  for (int64_t c = 0; c < call.dv; ++c) {
    float value = 0;
    for (int64_t j = 0; j < seen; ++j) value += p[j] * call.v.at(b, g, j, c);
    call.o.at(b, h, i, c) = seen > 0 ? value / sum : 0;
  }
  if (call.lse.data != nullptr)
    call.lse.at(b, h, i) = seen > 0 ? max + std::log(sum) : -INFINITY;
}

void attend(const Call& call) {
  std::vector<float> p(call.Tk);
  for (int64_t b = 0; b < call.B; ++b)
    for (int64_t h = 0; h < call.H; ++h)
      for (int64_t i = 0; i < call.Tq; ++i) attend_row(call, b, h, i, p);
}

// ---- What is taken, and what is refused ------------------------------------

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
         t.strides != nullptr && t.device_type == QKVET_DEVICE_CPU &&
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
    if (!is_f32(*t, 4)) return "only f32 tensors of rank 4 on the CPU";
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
  return nullptr;
}

qkvet_status supports(const qkvet_kernel*, const qkvet_forward_args* args,
                      qkvet_text* why) {
  const char* reason = refusal(args, known(args));
  return reason == nullptr ? QKVET_OK : no(why, QKVET_UNSUPPORTED, reason);
}

qkvet_status forward(const qkvet_kernel*, qkvet_context*,
                     const qkvet_forward_args* args, const qkvet_exec*,
                     qkvet_text* why) {
  const qkvet_forward_args a = known(args);
  if (const char* reason = refusal(args, a))
    return no(why, QKVET_UNSUPPORTED, reason);
  const int64_t d = a.q.shape[3];
  const float scale =
      a.scale_given ? a.scale : 1 / std::sqrt(static_cast<float>(d));
  attend({View(a.q), View(a.k), View(a.v), View(a.o), View(a.lse), a.q.shape[0],
          a.q.shape[1], a.k.shape[1], a.q.shape[2], a.k.shape[2], d,
          a.v.shape[3], scale, a.causal});
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
  c.flags = QKVET_FLAG_REENTRANT | QKVET_FLAG_ALLOCATES;
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
  p.preset = QKVET_PRECISION_CPU_F32;
  return p;
}();

const qkvet_kernel kKernel = [] {
  qkvet_kernel kernel{};
  kernel.struct_size = sizeof kernel;
  kernel.name = "mine/attention";
  kernel.description = "f32, any strides";
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
