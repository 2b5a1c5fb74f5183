/* SPDX-License-Identifier: Apache-2.0
 *
 * The shortest way: a plain function over contiguous f32 becomes a kernel with
 * one line. C11 or C++17; the adapter is in this header, so nothing needs
 * linking.
 *
 *   static void my_attention(const float* q, const float* k, const float* v,
 *                            float* o, int64_t B, int64_t H, int64_t Tq,
 *                            int64_t Tk, int64_t d, int causal) { ... }
 *   QKVET_PLAIN_KERNEL(my_attention, "my/attention");
 *
 * q and o are [B, H, Tq, d], k and v [B, H, Tk, d], row by row without gaps:
 * element (b, h, t, c) of k is k[((b * H + h) * Tk + t) * d + c]. No extent is
 * 0. The function writes all of o, computes the scale 1/sqrt(d) itself and
 * touches no other memory.
 *
 * If `causal` is nonzero row i sees the keys j <= i + Tk - Tq: the last row
 * sees all keys, as in a decode step. Rows that see no key (Tq > Tk) are not
 * judged. If row i sees the keys j <= i instead, declare the function by
 * QKVET_PLAIN_KERNEL_TOP_LEFT. With Tq = Tk both are the same, and a kernel is
 * tried with either name for it.
 *
 * One such line per library. Everything else (another scale, grouped heads,
 * lse, masks, strides) is declared as missing and refused; use kernel.h for it.
 */
#ifndef QKVET_PLAIN_H_
#define QKVET_PLAIN_H_

#include "qkvet/adapter.h"

typedef void (*qkvet_plain_function)(const float* q, const float* k,
                                     const float* v, float* o, int64_t B,
                                     int64_t H, int64_t Tq, int64_t Tk,
                                     int64_t d, int causal);

/* `name` is "family/variant" in [a-z0-9_]. */
#define QKVET_PLAIN_KERNEL(function, name) \
  QKVET_PLAIN_DEFINE(function, name, QKVET_CAUSAL_BOTTOM_RIGHT)
#define QKVET_PLAIN_KERNEL_TOP_LEFT(function, name) \
  QKVET_PLAIN_DEFINE(function, name, QKVET_CAUSAL_TOP_LEFT)

/* ---- Implementation ----------------------------------------------------- */

/* The capabilities of the library, and one alignment unless Tq = Tk. */
static inline qkvet_status qkvet_plain_supports(const qkvet_kernel* self,
                                                const qkvet_forward_args* args,
                                                int32_t alignment,
                                                qkvet_text* why) {
  const qkvet_status status = qkvet_supports_declared(self, args, why);
  if (status == QKVET_OK && args->causal != QKVET_CAUSAL_NONE &&
      args->causal != alignment && args->q.shape[2] != args->k.shape[2])
    return qkvet_refuse(why, QKVET_UNSUPPORTED,
                        "Tq != Tk with the other causal alignment");
  return status;
}

static inline qkvet_status qkvet_plain_forward(const qkvet_kernel* self,
                                               const qkvet_forward_args* a,
                                               int32_t alignment,
                                               qkvet_plain_function function,
                                               qkvet_text* why) {
  const qkvet_status status = qkvet_plain_supports(self, a, alignment, why);
  if (status != QKVET_OK) return status;
  function((const float*)qkvet_data(&a->q), (const float*)qkvet_data(&a->k),
           (const float*)qkvet_data(&a->v), (float*)qkvet_data(&a->o),
           a->q.shape[0], a->q.shape[1], a->q.shape[2], a->k.shape[2],
           a->q.shape[3], a->causal != QKVET_CAUSAL_NONE);
  return QKVET_OK;
}

/* The contents of one library. */
typedef struct qkvet_plain_library {
  qkvet_capabilities capabilities;
  qkvet_dialect dialect;
  qkvet_kernel kernel;
  const qkvet_kernel* kernels[1];
  char family[64];
} qkvet_plain_library;

/* Fills in everything of `self` that does not name the function. */
static inline qkvet_status qkvet_plain_open(qkvet_plain_library* self,
                                            const qkvet_host* host,
                                            const char* config,
                                            qkvet_library* out,
                                            qkvet_text* why) {
  qkvet_kernel* kernel = &self->kernel;
  size_t word = 0;
  self->capabilities.struct_size = sizeof self->capabilities;
  self->capabilities.options =
      QKVET_OPTION_CAUSAL_TOP_LEFT | QKVET_OPTION_CAUSAL_BOTTOM_RIGHT |
      QKVET_OPTION_DEFAULT_SCALE | QKVET_OPTION_CROSS_LENGTHS;
  self->capabilities.layouts = QKVET_LAYOUT_BHTD;
  self->dialect.struct_size = sizeof self->dialect;
  self->dialect.empty_row = QKVET_EMPTY_ROW_UNSPECIFIED;
  kernel->struct_size = sizeof *kernel;
  kernel->description = "a plain function over contiguous f32";
  kernel->capabilities = &self->capabilities;
  kernel->dialect = &self->dialect;
  self->kernels[0] = kernel;
  while (kernel->name[word] != '/' && kernel->name[word] != '\0' &&
         word + 1 < sizeof self->family) {
    self->family[word] = kernel->name[word];
    ++word;
  }
  return qkvet_open_kernels(host, config, out, why, self->family, self->kernels,
                            1);
}

/* QKVET_FLAG_*: qkvet/simt/simt.h declares that GPU threads do the work. */
#ifndef QKVET_PLAIN_FLAGS
#define QKVET_PLAIN_FLAGS 0
#endif

#ifdef __cplusplus
#define QKVET_PLAIN_C extern "C"
#else
#define QKVET_PLAIN_C
#endif

#define QKVET_PLAIN_DEFINE(function, kernel_name, alignment)                  \
  static qkvet_status qkvet_plain_supports_it(const qkvet_kernel* self,       \
                                              const qkvet_forward_args* args, \
                                              qkvet_text* why) {              \
    return qkvet_plain_supports(self, args, alignment, why);                  \
  }                                                                           \
  static qkvet_status qkvet_plain_forward_it(                                 \
      const qkvet_kernel* self, qkvet_context* context,                       \
      const qkvet_forward_args* args, const qkvet_exec* exec,                 \
      qkvet_text* why) {                                                      \
    (void)context, (void)exec;                                                \
    return qkvet_plain_forward(self, args, alignment, &(function), why);      \
  }                                                                           \
  QKVET_PLAIN_C QKVET_EXPORT qkvet_status qkvet_open(                         \
      const qkvet_host* host, const char* config, qkvet_library* out,         \
      qkvet_text* why) {                                                      \
    static qkvet_plain_library library;                                       \
    library.capabilities.flags = QKVET_PLAIN_FLAGS;                           \
    library.kernel.name = kernel_name;                                        \
    library.kernel.source_file = __FILE__;                                    \
    library.kernel.source_line = __LINE__;                                    \
    library.kernel.supports = &qkvet_plain_supports_it;                       \
    library.kernel.forward = &qkvet_plain_forward_it;                         \
    return qkvet_plain_open(&library, host, config, out, why);                \
  }                                                                           \
  typedef int qkvet_plain_needs_a_semicolon

#endif /* QKVET_PLAIN_H_ */
