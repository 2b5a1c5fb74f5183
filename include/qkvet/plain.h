/* SPDX-License-Identifier: Apache-2.0
 *
 * The short way in: a plain function over contiguous f32 becomes a kernel with
 * one line. C11 or C++17; the adapter is in this header, there is nothing to
 * link.
 *
 *   static void my_attention(const float* q, const float* k, const float* v,
 *                            float* o, int64_t B, int64_t H, int64_t Tq,
 *                            int64_t Tk, int64_t d, int causal) { ... }
 *   QKVET_PLAIN_KERNEL(my_attention, "my/attention");
 *
 * q and o are [B, H, Tq, d], k and v [B, H, Tk, d], row by row without gaps:
 * element (b, h, t, c) of k is k[((b * H + h) * Tk + t) * d + c]. No extent is
 * 0. The function writes all of o, computes the scale 1/sqrt(d) itself and
 * touches nothing else.
 *
 * If `causal` is nonzero row i sees the keys j <= i + Tk - Tq: the last row
 * sees all keys, as in a decode step. What it writes to a row that sees no key
 * (Tq > Tk) does not count. A function whose row i sees the keys j <= i is
 * declared by QKVET_PLAIN_KERNEL_TOP_LEFT. With Tq = Tk both are the same, and
 * a kernel is tried with either name for it.
 *
 * One such line per library. What the function cannot be told (another scale,
 * grouped heads, lse, masks, strides) is declared as missing and refused. For
 * any of that, kernel.h is the whole way in.
 */
#ifndef QKVET_PLAIN_H_
#define QKVET_PLAIN_H_

#include <string.h>

#include "qkvet/kernel.h"

typedef void (*qkvet_plain_function)(const float* q, const float* k,
                                     const float* v, float* o, int64_t B,
                                     int64_t H, int64_t Tq, int64_t Tk,
                                     int64_t d, int causal);

/* `name` is "family/variant" in [a-z0-9_]. */
#define QKVET_PLAIN_KERNEL(function, name) \
  QKVET_PLAIN_DEFINE(function, name, QKVET_CAUSAL_BOTTOM_RIGHT)
#define QKVET_PLAIN_KERNEL_TOP_LEFT(function, name) \
  QKVET_PLAIN_DEFINE(function, name, QKVET_CAUSAL_TOP_LEFT)

/* ---- From here on: how it works ----------------------------------------- */

static inline qkvet_status qkvet_plain_no(qkvet_text* why, qkvet_status status,
                                          const char* reason) {
  if (why != NULL && why->data != NULL && why->capacity > 0) {
    size_t length = strlen(reason);
    if (length >= why->capacity) length = why->capacity - 1;
    memcpy(why->data, reason, length);
    why->data[length] = '\0';
  }
  return status;
}

/* Whether a field is set that is newer than this header. */
static inline int qkvet_plain_newer(const qkvet_forward_args* from) {
  const unsigned char* bytes = (const unsigned char*)from;
  size_t i;
  for (i = sizeof *from; i < from->struct_size; ++i)
    if (bytes[i] != 0) return 1;
  return 0;
}

/* The arguments as this header knows them: a shorter struct ends in zeros. */
static inline qkvet_forward_args qkvet_plain_args(const void* from) {
  qkvet_forward_args args;
  size_t size;
  memset(&args, 0, sizeof args);
  memcpy(&size, from, sizeof size);
  memcpy(&args, from, size < sizeof args ? size : sizeof args);
  return args;
}

static inline int qkvet_plain_absent(const qkvet_tensor* t) {
  return t->data == NULL && t->ndim == 0;
}

static inline float* qkvet_plain_data(const qkvet_tensor* t) {
  return (float*)(void*)((char*)t->data + t->byte_offset);
}

/* NULL, or why `t` is not contiguous f32 [B, H, T, d]. */
static inline const char* qkvet_plain_misfit(const qkvet_tensor* t, int64_t B,
                                             int64_t H, int64_t T, int64_t d) {
  const int64_t shape[4] = {B, H, T, d};
  int64_t step = 1;
  int axis;
  if (t->data == NULL || t->ndim != 4 || t->shape == NULL || t->strides == NULL)
    return "q, k, v and o must be there, with four extents";
  if (t->device_type != QKVET_DEVICE_CPU) return "only the CPU is supported";
  if (t->dtype.code != QKVET_DTYPE_FLOAT || t->dtype.bits != 32 ||
      t->dtype.lanes != 1)
    return "only f32 is supported";
  for (axis = 3; axis >= 0; --axis) {
    if (t->shape[axis] < 1) return "empty extents are not supported";
    if (t->shape[axis] != shape[axis])
      return "grouped heads, dv != d or shapes that do not fit";
    if (shape[axis] > 1 && t->strides[axis] != step)
      return "only contiguous [B, H, T, d] is supported";
    step *= shape[axis];
  }
  return NULL;
}

/* NULL, or what is asked for beyond q, k, v, o and causal. */
static inline const char* qkvet_plain_unknown(const qkvet_forward_args* a) {
  const qkvet_tensor* const no[] = {
      &a->weights,      &a->mask,         &a->bias,          &a->sink,
      &a->slopes,       &a->rope_cos,     &a->rope_sin,      &a->q_positions,
      &a->k_positions,  &a->q_len,        &a->kv_len,        &a->cu_seqlens_q,
      &a->cu_seqlens_k, &a->block_table,  &a->k_new,         &a->v_new,
      &a->q_scale,      &a->k_scale,      &a->v_scale,       &a->lse,
      &a->page_indptr,  &a->page_indices, &a->last_page_len, &a->dropout_mask,
      &a->key_indices,  &a->topk_length,  &a->segments_q,    &a->segments_k,
      &a->full_ranges,  &a->tree_mask};
  size_t i;
  for (i = 0; i < sizeof no / sizeof no[0]; ++i)
    if (!qkvet_plain_absent(no[i]))
      return "only q, k, v and o are supported: no lse, masks, pages, ...";
  if (a->scale_given) return "a given scale is not supported";
  if (a->has_window || a->softcap > 0 || a->rope != QKVET_ROPE_NONE ||
      a->dropout_p > 0 || a->chunk != 0)
    return "windows, chunks, softcap, rope and dropout are not supported";
  return NULL;
}

static inline const char* qkvet_plain_refusal(const qkvet_forward_args* a,
                                              int32_t alignment) {
  const char* no = qkvet_plain_unknown(a);
  int64_t B, H, Tq, Tk, d;
  if (no != NULL) return no;
  if (a->q.ndim != 4 || a->q.shape == NULL || a->k.ndim != 4 ||
      a->k.shape == NULL)
    return "q and k must be there, with four extents";
  B = a->q.shape[0], H = a->q.shape[1], Tq = a->q.shape[2], d = a->q.shape[3];
  Tk = a->k.shape[2];
  if ((no = qkvet_plain_misfit(&a->q, B, H, Tq, d)) != NULL ||
      (no = qkvet_plain_misfit(&a->k, B, H, Tk, d)) != NULL ||
      (no = qkvet_plain_misfit(&a->v, B, H, Tk, d)) != NULL ||
      (no = qkvet_plain_misfit(&a->o, B, H, Tq, d)) != NULL)
    return no;
  if (a->causal == QKVET_CAUSAL_NONE || a->causal == alignment) return NULL;
  if (a->causal != QKVET_CAUSAL_TOP_LEFT &&
      a->causal != QKVET_CAUSAL_BOTTOM_RIGHT)
    return "an unknown kind of causal mask";
  return Tq == Tk ? NULL : "Tq != Tk with the other causal alignment";
}

static inline qkvet_status qkvet_plain_supports(const qkvet_forward_args* from,
                                                int32_t alignment,
                                                qkvet_text* why) {
  const qkvet_forward_args args = qkvet_plain_args(from);
  const char* no = qkvet_plain_newer(from)
                       ? "an argument is set that this kernel is too old for"
                       : qkvet_plain_refusal(&args, alignment);
  return no == NULL ? QKVET_OK : qkvet_plain_no(why, QKVET_UNSUPPORTED, no);
}

static inline qkvet_status qkvet_plain_forward(const qkvet_forward_args* from,
                                               int32_t alignment,
                                               qkvet_plain_function function,
                                               qkvet_text* why) {
  const qkvet_forward_args a = qkvet_plain_args(from);
  const qkvet_status status = qkvet_plain_supports(from, alignment, why);
  if (status != QKVET_OK) return status;
  function(qkvet_plain_data(&a.q), qkvet_plain_data(&a.k),
           qkvet_plain_data(&a.v), qkvet_plain_data(&a.o), a.q.shape[0],
           a.q.shape[1], a.q.shape[2], a.k.shape[2], a.q.shape[3],
           a.causal != QKVET_CAUSAL_NONE);
  return QKVET_OK;
}

/* What one library holds. */
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
  if (host == NULL || host->abi_major != QKVET_ABI_MAJOR)
    return qkvet_plain_no(why, QKVET_INVALID_ARGUMENT,
                          "the host speaks another version of the ABI");
  if (config != NULL && config[0] != '\0')
    return qkvet_plain_no(why, QKVET_INVALID_ARGUMENT,
                          "this library takes no configuration");
  if (out == NULL || out->struct_size < sizeof *out)
    return qkvet_plain_no(why, QKVET_INVALID_ARGUMENT,
                          "the library struct is too small");
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
  memset(out, 0, sizeof *out);
  out->struct_size = sizeof *out;
  out->abi_major = QKVET_ABI_MAJOR;
  out->abi_minor = QKVET_ABI_MINOR;
  out->name = self->family;
  out->kernel_count = 1;
  out->kernels = self->kernels;
  return QKVET_OK;
}

/* QKVET_FLAG_*: qkvet/simt/simt.h says that threads of a GPU are at work. */
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
    (void)self;                                                               \
    return qkvet_plain_supports(args, alignment, why);                        \
  }                                                                           \
  static qkvet_status qkvet_plain_forward_it(                                 \
      const qkvet_kernel* self, qkvet_context* context,                       \
      const qkvet_forward_args* args, const qkvet_exec* exec,                 \
      qkvet_text* why) {                                                      \
    (void)self, (void)context, (void)exec;                                    \
    return qkvet_plain_forward(args, alignment, &(function), why);            \
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
