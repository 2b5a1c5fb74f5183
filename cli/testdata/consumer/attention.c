// SPDX-License-Identifier: Apache-2.0
// A kernel of a user, in C11: attention in f32, three loops a row. With
// FORGETS_THE_SCALE it takes a scale of 1 where the caller leaves it open.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "qkvet/kernel.h"

static const float* at(const qkvet_tensor* t, int64_t b, int64_t h, int64_t i) {
  return (const float*)((const char*)t->data + t->byte_offset) +
         b * t->strides[0] + h * t->strides[1] + i * t->strides[2];
}

static void row(const qkvet_forward_args* a, const float* q, const float* k,
                const float* v, float* o, int64_t keys, float* weight) {
  const int64_t d = a->q.shape[3], dv = a->v.shape[3];
#ifdef FORGETS_THE_SCALE
  const float scale = a->scale_given ? a->scale : 1;
#else
  const float scale = a->scale_given ? a->scale : 1 / sqrtf((float)d);
#endif
  float max = -INFINITY, sum = 0;
  for (int64_t j = 0; j < keys; ++j) {
    float dot = 0;
    for (int64_t c = 0; c < d; ++c)
      dot +=
          q[c * a->q.strides[3]] * k[j * a->k.strides[2] + c * a->k.strides[3]];
    weight[j] = dot * scale;
    max = fmaxf(max, weight[j]);
  }
  for (int64_t j = 0; j < keys; ++j) sum += weight[j] = expf(weight[j] - max);
  for (int64_t c = 0; c < dv; ++c) {
    float value = 0;
    for (int64_t j = 0; j < keys; ++j)
      value += weight[j] * v[j * a->v.strides[2] + c * a->v.strides[3]];
    o[c * a->o.strides[3]] = value / sum;
  }
}

static qkvet_status forward(const qkvet_kernel* self, qkvet_context* context,
                            const qkvet_forward_args* a, const qkvet_exec* exec,
                            qkvet_text* why) {
  (void)self, (void)context, (void)exec, (void)why;
  const int64_t tk = a->k.shape[2];
  float* weight = malloc((size_t)tk * sizeof *weight);
  if (weight == NULL) return QKVET_OUT_OF_MEMORY;
  for (int64_t b = 0; b < a->q.shape[0]; ++b)
    for (int64_t h = 0; h < a->q.shape[1]; ++h)
      for (int64_t i = 0; i < a->q.shape[2]; ++i)
        row(a, at(&a->q, b, h, i), at(&a->k, b, h, 0), at(&a->v, b, h, 0),
            (float*)at(&a->o, b, h, i), a->causal && i < tk ? i + 1 : tk,
            weight);
  free(weight);
  return QKVET_OK;
}

static const qkvet_capabilities kCapabilities = {
    .struct_size = sizeof(qkvet_capabilities),
    .options = QKVET_OPTION_CAUSAL_TOP_LEFT | QKVET_OPTION_SCALE |
               QKVET_OPTION_DEFAULT_SCALE | QKVET_OPTION_CROSS_LENGTHS |
               QKVET_OPTION_VALUE_WIDTH,
    .layouts = QKVET_LAYOUT_ANY_STRIDES};
static const qkvet_kernel kKernel = {.struct_size = sizeof(qkvet_kernel),
                                     .name = "consumer/attention",
                                     .description = "three loops a row",
                                     .source_file = "attention.c",
                                     .capabilities = &kCapabilities,
                                     .forward = forward};
static const qkvet_kernel* const kKernels[] = {&kKernel};

QKVET_EXPORT qkvet_status qkvet_open(const qkvet_host* host, const char* config,
                                     qkvet_library* out, qkvet_text* why) {
  (void)host, (void)why;
  if (*config != 0 && strcmp(config, "mine") != 0)
    return QKVET_INVALID_ARGUMENT;
  out->abi_major = QKVET_ABI_MAJOR;
  out->abi_minor = QKVET_ABI_MINOR;
  out->name = "consumer";
  out->kernel_count = 1;
  out->kernels = kKernels;
  return QKVET_OK;
}
