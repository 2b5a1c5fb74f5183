// SPDX-License-Identifier: Apache-2.0
// Attention on the whole plug-in ABI: f32, any strides, both causal alignments,
// grouped heads, dv != d, a given scale, lse. qkvet/kernel.h is the manual.
#include <cmath>
#include <vector>

#include "qkvet/adapter.h"

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

// ---- The call ---------------------------------------------------------------

qkvet_status forward(const qkvet_kernel* self, qkvet_context*,
                     const qkvet_forward_args* args, const qkvet_exec*,
                     qkvet_text* why) {
  const qkvet_status status = qkvet_supports_declared(self, args, why);
  if (status != QKVET_OK) return status;
  const qkvet_forward_args a = qkvet_known_args(args);
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
  kernel.supports = qkvet_supports_declared;
  kernel.forward = forward;
  return kernel;
}();

const qkvet_kernel* const kKernels[] = {&kKernel};

}  // namespace

extern "C" qkvet_status qkvet_open(const qkvet_host* host, const char* config,
                                   qkvet_library* out, qkvet_text* why) {
  return qkvet_open_kernels(host, config, out, why, "mine", kKernels, 1);
}
