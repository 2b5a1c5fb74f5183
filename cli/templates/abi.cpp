// SPDX-License-Identifier: Apache-2.0
// Attention on the whole plug-in ABI: f32, any strides, both causal alignments,
// grouped heads, dv != d, a given scale, lse. qkvet/kernel.h is the manual.
#include <cmath>
#include <vector>

#include "qkvet/adapter.h"

namespace {

// ---- Arithmetic: yours to replace ------------------------------------------

float& at(const qkvet_tensor& t, int64_t b, int64_t h, int64_t row,
          int64_t c = 0) {
  return *static_cast<float*>(qkvet_element(&t, b, h, row, c));
}

// How many keys row i sees: the first so many.
int64_t seen_by(const qkvet_forward_args& a, int64_t i) {
  const int64_t Tq = a.q.shape[2], Tk = a.k.shape[2];
  const int64_t end = a.causal == QKVET_CAUSAL_NONE       ? Tk
                      : a.causal == QKVET_CAUSAL_TOP_LEFT ? i + 1
                                                          : i + Tk - Tq + 1;
  return end < 0 ? 0 : end > Tk ? Tk : end;
}

void attend_row(const qkvet_forward_args& a, float scale, int64_t b, int64_t h,
                int64_t i) {
  const int64_t g = h / (a.q.shape[1] / a.k.shape[1]);  // the head of k and v
  const int64_t d = a.q.shape[3], dv = a.v.shape[3], seen = seen_by(a, i);
  std::vector<float> p(seen);
  float max = -INFINITY, sum = 0;
  for (int64_t j = 0; j < seen; ++j) {
    float dot = 0;
    for (int64_t c = 0; c < d; ++c)
      dot += at(a.q, b, h, i, c) * at(a.k, b, g, j, c);
    p[j] = dot * scale;
    max = std::fmax(max, p[j]);
  }
  for (int64_t j = 0; j < seen; ++j) sum += p[j] = std::exp(p[j] - max);
  for (int64_t c = 0; c < dv; ++c) {
    float value = 0;
    for (int64_t j = 0; j < seen; ++j) value += p[j] * at(a.v, b, g, j, c);
    at(a.o, b, h, i, c) = seen > 0 ? value / sum : 0;
  }
  if (a.lse.ndim != 0)
    at(a.lse, b, h, i) = seen > 0 ? max + std::log(sum) : -INFINITY;
}

// ---- The call ---------------------------------------------------------------

qkvet_status forward(const qkvet_kernel* self, qkvet_context*,
                     const qkvet_forward_args* args, const qkvet_exec*,
                     qkvet_text* why) {
  const qkvet_status status = qkvet_supports_declared(self, args, why);
  if (status != QKVET_OK) return status;
  const qkvet_forward_args a = qkvet_known_args(args);
  const float scale =
      a.scale_given ? a.scale : 1 / std::sqrt(static_cast<float>(a.q.shape[3]));
  for (int64_t b = 0; b < a.q.shape[0]; ++b)
    for (int64_t h = 0; h < a.q.shape[1]; ++h)
      for (int64_t i = 0; i < a.q.shape[2]; ++i) attend_row(a, scale, b, h, i);
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
