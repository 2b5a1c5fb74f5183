/* SPDX-License-Identifier: Apache-2.0
 * C11 on the whole plug-in ABI, without plain.h: f32, any strides, grouped
 * heads, dv != d, both causal alignments, a given scale, lse.
 *
 * One pass over the keys for the maximum and one for the sums, so that no
 * memory is needed; each dot product is computed twice.
 *
 * With -DBROKEN the lse forgets the maximum: o is right, and whoever merges
 * parts of a long row by their lse gets it wrong. */
#include <math.h>

#include "qkvet/adapter.h"

static float* at(const qkvet_tensor* t, int64_t b, int64_t h, int64_t row,
                 int64_t c) {
  return (float*)qkvet_element(t, b, h, row, c);
}

static float score(const qkvet_forward_args* a, float scale, int64_t b,
                   int64_t h, int64_t g, int64_t i, int64_t j) {
  float dot = 0;
  for (int64_t c = 0; c < a->q.shape[3]; ++c)
    dot += *at(&a->q, b, h, i, c) * *at(&a->k, b, g, j, c);
  return dot * scale;
}

static void attend_row(const qkvet_forward_args* a, float scale, int64_t b,
                       int64_t h, int64_t i) {
  const int64_t Tq = a->q.shape[2], Tk = a->k.shape[2];
  const int64_t g = h / (a->q.shape[1] / a->k.shape[1]);
  int64_t seen = Tk;
  if (a->causal == QKVET_CAUSAL_TOP_LEFT && i + 1 < Tk) seen = i + 1;
  if (a->causal == QKVET_CAUSAL_BOTTOM_RIGHT) seen = i + Tk - Tq + 1;

  float max = -INFINITY, sum = 0;
  for (int64_t c = 0; c < a->o.shape[3]; ++c) *at(&a->o, b, h, i, c) = 0;
  for (int64_t j = 0; j < seen; ++j)
    max = fmaxf(max, score(a, scale, b, h, g, i, j));
  for (int64_t j = 0; j < seen; ++j) {
    const float p = expf(score(a, scale, b, h, g, i, j) - max);
    sum += p;
    for (int64_t c = 0; c < a->o.shape[3]; ++c)
      *at(&a->o, b, h, i, c) += p * *at(&a->v, b, g, j, c);
  }
  if (seen > 0)
    for (int64_t c = 0; c < a->o.shape[3]; ++c) *at(&a->o, b, h, i, c) /= sum;
#ifdef BROKEN
  max = 0;
#endif
  if (a->lse.data != NULL)
    *at(&a->lse, b, h, i, 0) = seen > 0 ? max + logf(sum) : -INFINITY;
}

static qkvet_status forward(const qkvet_kernel* self, qkvet_context* context,
                            const qkvet_forward_args* args,
                            const qkvet_exec* exec, qkvet_text* why) {
  const qkvet_forward_args a = qkvet_known_args(args);
  const qkvet_status status = qkvet_supports_declared(self, args, why);
  (void)context, (void)exec;
  if (status != QKVET_OK) return status;
  const float scale = a.scale_given ? a.scale : 1 / sqrtf((float)a.q.shape[3]);
  for (int64_t b = 0; b < a.q.shape[0]; ++b)
    for (int64_t h = 0; h < a.q.shape[1]; ++h)
      for (int64_t i = 0; i < a.q.shape[2]; ++i) attend_row(&a, scale, b, h, i);
  return QKVET_OK;
}

static const qkvet_capabilities kCapabilities = {
    .struct_size = sizeof(qkvet_capabilities),
    .options = QKVET_OPTION_CAUSAL_TOP_LEFT | QKVET_OPTION_CAUSAL_BOTTOM_RIGHT |
               QKVET_OPTION_SCALE | QKVET_OPTION_DEFAULT_SCALE |
               QKVET_OPTION_LSE | QKVET_OPTION_GROUPED_HEADS |
               QKVET_OPTION_VALUE_WIDTH | QKVET_OPTION_CROSS_LENGTHS,
    .layouts = QKVET_LAYOUT_BHTD | QKVET_LAYOUT_ANY_STRIDES,
};

static const qkvet_dialect kDialect = {
    .struct_size = sizeof(qkvet_dialect),
    .empty_row = QKVET_EMPTY_ROW_ZERO,
    .lse_base = QKVET_LSE_NATURAL,
    .empty_row_lse = QKVET_EMPTY_LSE_MINUS_INF,
};

/* f32 throughout, sums in order, one division at the end. */
static const qkvet_precision kPrecision = {
    .struct_size = sizeof(qkvet_precision),
    .preset = QKVET_PRECISION_CPU_F32,
};

static const qkvet_kernel kKernel = {
    .struct_size = sizeof(qkvet_kernel),
    .name = "full_abi/two_passes",
    .description = "C11 on the whole ABI",
    .source_file = __FILE__,
    .source_line = __LINE__,
    .capabilities = &kCapabilities,
    .dialect = &kDialect,
    .precision = &kPrecision,
    .supports = qkvet_supports_declared,
    .forward = forward,
};

qkvet_status qkvet_open(const qkvet_host* host, const char* config,
                        qkvet_library* out, qkvet_text* why) {
  static const qkvet_kernel* const kernels[] = {&kKernel};
  return qkvet_open_kernels(host, config, out, why, "full_abi", kernels, 1);
}
