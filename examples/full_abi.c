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
#include <stdio.h>
#include <string.h>

#include "qkvet/kernel.h"

/* Element (b, h, t, c) of a tensor. The stride of an extent of 1 may be any
 * number, but its index is 0. */
static float* at(const qkvet_tensor* t, int64_t b, int64_t h, int64_t row,
                 int64_t c) {
  const int64_t index[4] = {b, h, row, c};
  float* data = (float*)(void*)((char*)t->data + t->byte_offset);
  for (int axis = 0; axis < t->ndim; ++axis)
    data += index[axis] * t->strides[axis];
  return data;
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

static qkvet_status no(qkvet_text* why, const char* reason) {
  if (why != NULL && why->data != NULL && why->capacity > 0)
    snprintf(why->data, why->capacity, "%s", reason);
  return QKVET_UNSUPPORTED;
}

/* The arguments as this file knows them: a shorter struct ends in zeros. */
static qkvet_forward_args known(const qkvet_forward_args* from) {
  qkvet_forward_args a = {0};
  memcpy(&a, from, from->struct_size < sizeof a ? from->struct_size : sizeof a);
  return a;
}

/* What was not declared is not asked for; a kernel that is called by others as
 * well refuses it all the same, since ignoring it would be a wrong answer. */
static qkvet_status supports(const qkvet_kernel* self,
                             const qkvet_forward_args* args, qkvet_text* why) {
  const qkvet_forward_args a = known(args);
  const qkvet_tensor* const unknown[] = {
      &a.weights,       &a.mask,        &a.bias,         &a.sink,
      &a.slopes,        &a.rope_cos,    &a.rope_sin,     &a.q_positions,
      &a.k_positions,   &a.q_len,       &a.kv_len,       &a.cu_seqlens_q,
      &a.cu_seqlens_k,  &a.block_table, &a.page_indptr,  &a.page_indices,
      &a.last_page_len, &a.k_new,       &a.v_new,        &a.q_scale,
      &a.k_scale,       &a.v_scale,     &a.dropout_mask, &a.key_indices,
      &a.topk_length,   &a.segments_q,  &a.segments_k,   &a.full_ranges,
      &a.tree_mask};
  const qkvet_tensor* const used[] = {&a.q, &a.k, &a.v, &a.o};
  (void)self;
  for (size_t i = sizeof *args; i < args->struct_size; ++i)
    if (((const unsigned char*)args)[i] != 0)
      return no(why, "an argument is too new for this kernel");
  for (size_t n = 0; n < sizeof unknown / sizeof unknown[0]; ++n)
    if (unknown[n]->ndim != 0) return no(why, "only q, k, v, o and lse");
  if (a.has_window || a.softcap > 0 || a.rope || a.dropout_p > 0 ||
      a.chunk != 0)
    return no(why, "no windows, softcap, rope or dropout");
  for (size_t n = 0; n < sizeof used / sizeof used[0]; ++n) {
    if (used[n]->ndim != 4 || used[n]->dtype.code != QKVET_DTYPE_FLOAT ||
        used[n]->dtype.bits != 32)
      return no(why, "q, k, v and o are f32 with four extents");
    for (int axis = 0; axis < 4; ++axis)
      if (used[n]->shape[axis] < 1) return no(why, "no empty extents");
  }
  return QKVET_OK;
}

static qkvet_status forward(const qkvet_kernel* self, qkvet_context* context,
                            const qkvet_forward_args* args,
                            const qkvet_exec* exec, qkvet_text* why) {
  const qkvet_forward_args a = known(args);
  const qkvet_status status = supports(self, args, why);
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
    .supports = supports,
    .forward = forward,
};

qkvet_status qkvet_open(const qkvet_host* host, const char* config,
                        qkvet_library* out, qkvet_text* why) {
  static const qkvet_kernel* const kernels[] = {&kKernel};
  (void)config;
  if (host == NULL || host->abi_major != QKVET_ABI_MAJOR)
    return no(why, "the host speaks another version of the ABI");
  if (out == NULL || out->struct_size < sizeof *out)
    return no(why, "the library struct is too small");
  *out = (qkvet_library){
      .struct_size = sizeof *out,
      .abi_major = QKVET_ABI_MAJOR,
      .abi_minor = QKVET_ABI_MINOR,
      .name = "full_abi",
      .kernel_count = 1,
      .kernels = kernels,
  };
  return QKVET_OK;
}
