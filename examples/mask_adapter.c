/* SPDX-License-Identifier: Apache-2.0
 * An adapter on the whole plug-in ABI: a function of q, k, v, a mask and o. It
 * needs what differs between its function and the ABI, the capabilities, and
 * one line for each thing that qkvet/adapter.h does. */
#include <math.h>
#include <stdlib.h>

#include "qkvet/adapter.h"

/* ---- The function: contiguous f32 [heads, T, d], a byte for each pair ---- */

static void their_attention(const float* q, const float* k, const float* v,
                            const unsigned char* mask, float* o, int64_t heads,
                            int64_t Tq, int64_t Tk, int64_t d, float scale) {
  float* p = (float*)malloc((size_t)Tk * sizeof *p);
  for (int64_t row = 0; p != NULL && row < heads * Tq; ++row) {
    const float *qi = q + row * d, *kh = k + row / Tq * Tk * d;
    const float* vh = v + row / Tq * Tk * d;
    const unsigned char* sees = mask == NULL ? NULL : mask + row * Tk;
    float max = -INFINITY, sum = 0;
    for (int64_t j = 0; j < Tk; ++j) {
      float dot = 0;
      for (int64_t c = 0; c < d; ++c) dot += qi[c] * kh[j * d + c];
      p[j] = dot * scale;
      if (sees == NULL || sees[j]) max = fmaxf(max, p[j]);
    }
    for (int64_t c = 0; c < d; ++c) o[row * d + c] = 0;
    for (int64_t j = 0; j < Tk; ++j) {
      if (sees != NULL && !sees[j]) continue;
      sum += p[j] = expf(p[j] - max);
      for (int64_t c = 0; c < d; ++c) o[row * d + c] += p[j] * vh[j * d + c];
    }
    for (int64_t c = 0; c < d; ++c)
      if (sum != 0) o[row * d + c] /= sum;
  }
  free(p);
}

/* ---- The adapter ----------------------------------------------------------
 */

static qkvet_status forward(const qkvet_kernel* self, qkvet_context* context,
                            const qkvet_forward_args* args,
                            const qkvet_exec* exec, qkvet_text* why) {
  const qkvet_status status = qkvet_supports_declared(self, args, why);
  (void)context, (void)exec;
  if (status != QKVET_OK) return status;
  const qkvet_forward_args a = qkvet_known_args(args);
  const int64_t B = a.q.shape[0], H = a.q.shape[1], Tq = a.q.shape[2];
  const int64_t Tk = a.k.shape[2], d = a.q.shape[3];
  unsigned char* mask = NULL;
  if (!qkvet_is_absent(&a.mask)) {
    /* A mask may be broadcast or strided; the function wants all pairs. */
    mask = (unsigned char*)malloc((size_t)(B * H * Tq * Tk));
    if (mask == NULL) return qkvet_refuse(why, QKVET_INTERNAL, "no memory");
    for (int64_t n = 0; n < B * H * Tq * Tk; ++n)
      mask[n] = *(const unsigned char*)qkvet_element(
          &a.mask, n / Tk / Tq / H, n / Tk / Tq % H, n / Tk % Tq, n % Tk);
  }
  their_attention(
      (const float*)qkvet_data(&a.q), (const float*)qkvet_data(&a.k),
      (const float*)qkvet_data(&a.v), mask, (float*)qkvet_data(&a.o), B * H, Tq,
      Tk, d, a.scale_given ? a.scale : 1 / sqrtf((float)d));
  free(mask);
  return QKVET_OK;
}

static const qkvet_capabilities kCapabilities = {
    .struct_size = sizeof(qkvet_capabilities),
    .options = QKVET_OPTION_SCALE | QKVET_OPTION_DEFAULT_SCALE |
               QKVET_OPTION_CROSS_LENGTHS | QKVET_OPTION_MASK};
static const qkvet_kernel kKernel = {.struct_size = sizeof(qkvet_kernel),
                                     .name = "mask_adapter/theirs",
                                     .description = "an adapter with a mask",
                                     .source_file = __FILE__,
                                     .source_line = __LINE__,
                                     .capabilities = &kCapabilities,
                                     .supports = qkvet_supports_declared,
                                     .forward = forward};

qkvet_status qkvet_open(const qkvet_host* host, const char* config,
                        qkvet_library* out, qkvet_text* why) {
  static const qkvet_kernel* const kernels[] = {&kKernel};
  return qkvet_open_kernels(host, config, out, why, "mask_adapter", kernels, 1);
}
