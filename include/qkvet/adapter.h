/* SPDX-License-Identifier: Apache-2.0
 *
 * Help for adapters of forward(), C11 or C++17, nothing to link. The
 * capabilities of a kernel already state what it supports, so its supports()
 * follows from them (types of arguments are left out):
 *
 *   static qkvet_status forward(self, context, args, exec, why) {
 *     const qkvet_status status = qkvet_supports_declared(self, args, why);
 *     if (status != QKVET_OK) return status;
 *     const qkvet_forward_args a = qkvet_known_args(args);
 *     ...
 *   }
 *   ... .supports = qkvet_supports_declared, .forward = forward ...
 *
 * examples/mask_adapter.c is a whole adapter.
 */
#ifndef QKVET_ADAPTER_H_
#define QKVET_ADAPTER_H_

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "qkvet/kernel.h"

/* A struct of the ABI as `size` bytes of this header's version of it: a shorter
 * one ends in zeros. 0: the host has set a field that is newer. */
static inline int qkvet_read_struct(void* to, size_t size, const void* from) {
  const unsigned char* const bytes = (const unsigned char*)from;
  size_t given;
  memcpy(&given, from, sizeof given);
  memset(to, 0, size);
  memcpy(to, from, given < size ? given : size);
  for (; given > size; --given)
    if (bytes[given - 1] != 0) return 0;
  return 1;
}

/* The arguments in this header's version. */
static inline qkvet_forward_args qkvet_known_args(
    const qkvet_forward_args* from) {
  qkvet_forward_args args;
  qkvet_read_struct(&args, sizeof args, from);
  return args;
}

/* `status`, with its reason in `why`: one line that names the argument. */
static inline qkvet_status qkvet_refuse(qkvet_text* why, qkvet_status status,
                                        const char* reason) {
  if (why != NULL && why->data != NULL && why->capacity > 0)
    snprintf(why->data, why->capacity, "%s", reason);
  return status;
}

static inline int qkvet_is_absent(const qkvet_tensor* t) {
  return t->data == NULL && t->ndim == 0;
}

/* The first element of a tensor in memory of the host. */
static inline void* qkvet_data(const qkvet_tensor* t) {
  return (void*)((char*)t->data + t->byte_offset);
}

/* Element (n0, n1, n2, n3) of a tensor of at most four axes; with fewer axes
 * the last numbers are ignored. The stride of an extent of 1 may be any number,
 * but its index is 0. */
static inline void* qkvet_element(const qkvet_tensor* t, int64_t n0, int64_t n1,
                                  int64_t n2, int64_t n3) {
  const int64_t at[4] = {n0, n1, n2, n3};
  int64_t elements = 0;
  int axis;
  for (axis = 0; axis < t->ndim && axis < 4; ++axis)
    elements += at[axis] * t->strides[axis];
  return (char*)qkvet_data(t) + elements * (t->dtype.bits / 8) * t->dtype.lanes;
}

/* The options of the call, as QKVET_OPTION_*: those that a kernel must declare
 * to get it. Extents of 0, and Tq != Tk of varlen batches and of pages, are not
 * included. */
static inline uint64_t qkvet_options_of(const qkvet_forward_args* a);

/* UNSUPPORTED and the reason if the call has anything that the capabilities of
 * `self` do not declare, or shapes that contradict each other: q [B, H, Tq, d],
 * k [B, Hkv, Tk, d], v [B, Hkv, Tk, dv], o [B, H, Tq, dv], lse [B, H, Tq],
 * q_len and kv_len [B], and mask, bias and weights [B, H, Tq, Tk]. The shapes
 * of other tensors and of a pool of pages, alignment, and the strides of one
 * block of q, k and v are left to the kernel. */
static inline qkvet_status qkvet_supports_declared(
    const qkvet_kernel* self, const qkvet_forward_args* args, qkvet_text* why);

/* A library of these kernels, without a configuration. `name` is the family. */
static inline qkvet_status qkvet_open_kernels(
    const qkvet_host* host, const char* config, qkvet_library* out,
    qkvet_text* why, const char* name, const qkvet_kernel* const* kernels,
    int32_t count);

/* ---- Implementation ----------------------------------------------------- */

static inline uint64_t qkvet_options_of(const qkvet_forward_args* a) {
  const int pages = a->page_size != 0;
  const int packed = !qkvet_is_absent(&a->cu_seqlens_q);
  const int appends = !qkvet_is_absent(&a->k_new);
  uint64_t options = 0;
  /* Tensors that one option alone brings. */
#define QKVET_FORWARD_TENSOR(field, tensor, brings)                  \
  if (((brings) & ((brings)-1)) == 0 && !qkvet_is_absent(&a->field)) \
    options |= (brings);
#include "qkvet/tensors.def"
  const struct {
    int is_set;
    uint64_t option;
  } rules[] = {
      {a->causal == QKVET_CAUSAL_TOP_LEFT, QKVET_OPTION_CAUSAL_TOP_LEFT},
      {a->causal == QKVET_CAUSAL_BOTTOM_RIGHT,
       QKVET_OPTION_CAUSAL_BOTTOM_RIGHT},
      {a->scale_given != 0, QKVET_OPTION_SCALE},
      {a->scale_given == 0, QKVET_OPTION_DEFAULT_SCALE},
      {a->has_window != 0, QKVET_OPTION_WINDOW},
#define QKVET_FORWARD_NUMBER(field, option) {a->field != 0, option},
#include "qkvet/tensors.def"
      {a->rope != QKVET_ROPE_NONE, QKVET_OPTION_ROPE},
      {a->rope_cos.ndim == 2 && a->q.ndim == 4 &&
           2 * a->rope_cos.shape[1] < a->q.shape[3],
       QKVET_OPTION_ROPE_PART},
      {a->dropout_p != 0, QKVET_OPTION_DROPOUT},
      {a->key_block_size > 1, QKVET_OPTION_KEY_LIST_BLOCKS},
      {packed, pages ? QKVET_OPTION_PACKED_PAGES : QKVET_OPTION_PACKED},
      {!qkvet_is_absent(&a->kv_len) && !pages && !appends,
       QKVET_OPTION_LENGTHS},
      {(a->q_len.ndim != 0 && a->q_len.dtype.bits == 32) ||
           (a->kv_len.ndim != 0 && a->kv_len.dtype.bits == 32) ||
           (a->cu_seqlens_q.ndim != 0 && a->cu_seqlens_q.dtype.bits == 32),
       QKVET_OPTION_INT32_LENGTHS},
      {a->slopes.ndim == 2, QKVET_OPTION_ALIBI_PER_MEMBER},
      {a->k.data != NULL && a->v.data == a->k.data &&
           a->v.byte_offset == a->k.byte_offset,
       QKVET_OPTION_VALUES_IN_KEYS}};
  size_t i;
  for (i = 0; i < sizeof rules / sizeof rules[0]; ++i)
    if (rules[i].is_set) options |= rules[i].option;
  if (a->q.ndim == 4 && a->k.ndim >= 4 && a->o.ndim == 4) {
    if (a->k.shape[1] < a->q.shape[1]) options |= QKVET_OPTION_GROUPED_HEADS;
    if (a->o.shape[3] != a->q.shape[3]) options |= QKVET_OPTION_VALUE_WIDTH;
    if (!packed && !pages && a->k.shape[2] != a->q.shape[2])
      options |= QKVET_OPTION_CROSS_LENGTHS;
  }
  return options;
}

/* The first optional tensor that is present but not declared; NULL: none. */
static inline const char* qkvet_undeclared_tensor_(const qkvet_forward_args* a,
                                                   uint64_t options) {
#define QKVET_FORWARD_TENSOR(field, tensor, brings) \
  if ((brings) != 0 && (options & (brings)) == 0 && \
      !qkvet_is_absent(&a->field))                  \
    return #field;
#include "qkvet/tensors.def"
  return NULL;
}

/* The same of the options that are no tensors. */
static inline const char* qkvet_undeclared_number_(const qkvet_forward_args* a,
                                                   uint64_t options) {
  static const struct {
    uint64_t option;
    const char* name;
  } rules[] = {{QKVET_OPTION_SCALE, "scale"},
               {QKVET_OPTION_DEFAULT_SCALE, "the default scale"},
               {QKVET_OPTION_WINDOW, "a window"},
#define QKVET_FORWARD_NUMBER(field, option) {option, #field},
#include "qkvet/tensors.def"
               {QKVET_OPTION_ROPE, "rope"},
               {QKVET_OPTION_ROPE_PART, "rope over some channels"},
               {QKVET_OPTION_DROPOUT, "dropout_p"},
               {QKVET_OPTION_KEY_LIST_BLOCKS, "key_block_size"},
               {QKVET_OPTION_PACKED_PAGES, "cu_seqlens_q beside pages"},
               {QKVET_OPTION_INT32_LENGTHS, "int32 lengths"},
               {QKVET_OPTION_ALIBI_PER_MEMBER, "slopes of each batch element"},
               {QKVET_OPTION_VALUES_IN_KEYS, "values in the keys"}};
  const uint64_t missing = qkvet_options_of(a) & ~options;
  size_t i;
  for (i = 0; i < sizeof rules / sizeof rules[0]; ++i)
    if (missing & rules[i].option) return rules[i].name;
  return NULL;
}

static inline int qkvet_same_dtype_(qkvet_dtype a, qkvet_dtype b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

static inline int qkvet_declares_dtypes_(const qkvet_capabilities* can,
                                         const qkvet_forward_args* a) {
  qkvet_dtype_rule f32;
  const qkvet_dtype_rule* rules = can->dtypes;
  int n = can->dtype_count, i;
  f32.q.code = QKVET_DTYPE_FLOAT, f32.q.bits = 32, f32.q.lanes = 1;
  f32.kv = f32.o = f32.q;
  if (n == 0) rules = &f32, n = 1;
  for (i = 0; i < n; ++i)
    if (qkvet_same_dtype_(rules[i].q, a->q.dtype) &&
        qkvet_same_dtype_(rules[i].kv, a->k.dtype) &&
        qkvet_same_dtype_(rules[i].kv, a->v.dtype) &&
        qkvet_same_dtype_(rules[i].o, a->o.dtype))
      return 1;
  return 0;
}

/* Whether t is contiguous in this order of its axes. */
static inline int qkvet_is_dense_(const qkvet_tensor* t, const int order[4]) {
  int64_t step = 1;
  int i;
  for (i = 3; i >= 0; --i) {
    if (t->shape[order[i]] > 1 && t->strides[order[i]] != step) return 0;
    step *= t->shape[order[i]];
  }
  return 1;
}

static inline int qkvet_declares_layout_(const qkvet_capabilities* can,
                                         const qkvet_forward_args* a) {
  static const int kBhtd[4] = {0, 1, 2, 3}, kBthd[4] = {0, 2, 1, 3};
  const uint64_t layouts = can->layouts != 0 ? can->layouts : QKVET_LAYOUT_BHTD;
  const qkvet_tensor* const all[] = {&a->q, &a->k, &a->v, &a->o};
  int bhtd = 1, bthd = 1, i;
  if (layouts & (QKVET_LAYOUT_ANY_STRIDES | QKVET_LAYOUT_PACKED_QKV)) return 1;
  for (i = 0; i < 4; ++i) {
    bhtd = bhtd && qkvet_is_dense_(all[i], kBhtd);
    bthd = bthd && qkvet_is_dense_(all[i], kBthd);
  }
  return (bhtd && (layouts & QKVET_LAYOUT_BHTD)) ||
         (bthd && (layouts & QKVET_LAYOUT_BTHD));
}

static inline int qkvet_keeps_rule_(int64_t extent, qkvet_extent_rule rule) {
  return extent == 0 ||
         (extent >= rule.min && (rule.max == 0 || extent <= rule.max) &&
          (rule.multiple == 0 || extent % rule.multiple == 0));
}

static inline int qkvet_declares_widths_(const qkvet_capabilities* can,
                                         int64_t d, int64_t dv) {
  int i;
  for (i = 0; i < can->width_count; ++i)
    if (can->widths[i].d == d &&
        (can->widths[i].dv == 0 ? d : can->widths[i].dv) == dv)
      return 1;
  return can->width_count == 0 || d == 0 || dv == 0;
}

static inline int qkvet_declares_page_size_(const qkvet_capabilities* can,
                                            int64_t page_size) {
  int i;
  for (i = 0; i < can->page_size_count; ++i)
    if (can->page_sizes[i] == page_size) return 1;
  return can->page_size_count == 0;
}

/* Whether t is absent or has these extents. */
static inline int qkvet_fits_(const qkvet_tensor* t, int rank, int64_t n0,
                              int64_t n1, int64_t n2, int64_t n3) {
  const int64_t shape[4] = {n0, n1, n2, n3};
  int axis;
  if (qkvet_is_absent(t)) return 1;
  if (t->ndim != rank || t->shape == NULL || t->strides == NULL) return 0;
  for (axis = 0; axis < rank; ++axis)
    if (t->shape[axis] != shape[axis]) return 0;
  return 1;
}

/* NULL, or the part of a call with keys in rows that is not as declared. */
static inline const char* qkvet_misfit_(const qkvet_forward_args* a,
                                        const qkvet_capabilities* can) {
  const uint64_t options = can->options;
  const int64_t B = a->q.shape[0], H = a->q.shape[1], Tq = a->q.shape[2];
  const int64_t Hkv = a->k.shape[1], Tk = a->k.shape[2], d = a->q.shape[3];
  const int64_t dv = a->v.shape[3];
  uint64_t missing;
  if (!qkvet_fits_(&a->k, 4, B, Hkv, Tk, d) ||
      !qkvet_fits_(&a->v, 4, B, Hkv, Tk, dv) ||
      !qkvet_fits_(&a->o, 4, B, H, Tq, dv) ||
      (Hkv == 0 ? H != 0 : H % Hkv != 0))
    return "q [B, H, Tq, d], k [B, Hkv, Tk, d], v [B, Hkv, Tk, dv] and o "
           "[B, H, Tq, dv] do not fit";
  if (!qkvet_fits_(&a->lse, 3, B, H, Tq, 0)) return "lse is not [B, H, Tq]";
  if (!qkvet_fits_(&a->weights, 4, B, H, Tq, Tk) ||
      !qkvet_fits_(&a->mask, 4, B, H, Tq, Tk) ||
      !qkvet_fits_(&a->bias, 4, B, H, Tq, Tk))
    return "mask, bias and weights are not [B, H, Tq, Tk]";
  if (!qkvet_fits_(&a->q_len, 1, B, 0, 0, 0) ||
      !qkvet_fits_(&a->kv_len, 1, B, 0, 0, 0))
    return "q_len and kv_len are not [B]";
  if (!(options & QKVET_OPTION_EMPTY_EXTENTS) &&
      (B < 1 || H < 1 || Hkv < 1 || Tq < 1 || Tk < 1 || d < 1 || dv < 1))
    return "empty extents are not declared";
  missing = qkvet_options_of(a) & ~options;
  if (missing & QKVET_OPTION_GROUPED_HEADS)
    return "grouped heads are not declared";
  if (missing & QKVET_OPTION_VALUE_WIDTH) return "dv != d is not declared";
  if (missing & QKVET_OPTION_CROSS_LENGTHS) return "Tq != Tk is not declared";
  if (!qkvet_keeps_rule_(Tk, can->tk)) return "Tk is not declared";
  if (Hkv > 0 && !qkvet_keeps_rule_(H / Hkv, can->group))
    return "H / Hkv is not declared";
  if (!qkvet_declares_layout_(can, a)) return "these strides are not declared";
  if (a->causal == QKVET_CAUSAL_NONE)
    return (can->flags & QKVET_FLAG_CAUSAL_ONLY) != 0
               ? "only causal calls are declared"
               : NULL;
  if (a->causal != QKVET_CAUSAL_TOP_LEFT &&
      a->causal != QKVET_CAUSAL_BOTTOM_RIGHT)
    return "causal is unknown";
  if ((missing &
       (QKVET_OPTION_CAUSAL_TOP_LEFT | QKVET_OPTION_CAUSAL_BOTTOM_RIGHT)) == 0)
    return NULL;
  return "this causal rule is not declared";
}

static inline qkvet_status qkvet_supports_declared(
    const qkvet_kernel* self, const qkvet_forward_args* args, qkvet_text* why) {
  const qkvet_capabilities* can = self->capabilities;
  qkvet_forward_args a;
  const qkvet_tensor* const all[] = {&a.q, &a.k, &a.v, &a.o};
  const char* undeclared;
  const char* misfit = NULL;
  char text[128];
  size_t i;
  if (!qkvet_read_struct(&a, sizeof a, args))
    return qkvet_refuse(why, QKVET_UNSUPPORTED,
                        "an argument is newer than this kernel");
  for (i = 0; i < 4; ++i) {
    if (all[i]->shape == NULL || all[i]->strides == NULL || all[i]->ndim < 4)
      return qkvet_refuse(why, QKVET_UNSUPPORTED,
                          "q, k, v and o must be there, with four extents");
    if (((can->devices != 0 ? can->devices : UINT64_C(1) << QKVET_DEVICE_CPU) >>
             all[i]->device_type &
         1) == 0)
      return qkvet_refuse(why, QKVET_UNSUPPORTED,
                          "memory of this device is not declared");
  }
  if (!qkvet_declares_dtypes_(can, &a))
    return qkvet_refuse(why, QKVET_UNSUPPORTED,
                        "the storage types of q, k, v and o are not declared");
  undeclared = qkvet_undeclared_tensor_(&a, can->options);
  if (undeclared == NULL)
    undeclared = qkvet_undeclared_number_(&a, can->options);
  if (undeclared != NULL) {
    snprintf(text, sizeof text, "%s is not declared", undeclared);
    return qkvet_refuse(why, QKVET_UNSUPPORTED, text);
  }
  if (!qkvet_keeps_rule_(a.q.shape[3], can->d))
    misfit = "d is not declared";
  else if (!qkvet_keeps_rule_(a.o.shape[3], can->dv))
    misfit = "dv is not declared";
  else if (!qkvet_declares_widths_(can, a.q.shape[3], a.o.shape[3]))
    misfit = "these widths are not declared";
  else if (!qkvet_keeps_rule_(a.q.shape[2], can->tq))
    misfit = "Tq is not declared";
  else if (!qkvet_keeps_rule_(a.q.shape[1], can->h))
    misfit = "H is not declared";
  else if (!qkvet_keeps_rule_(
               a.cu_seqlens_q.ndim == 1 && a.cu_seqlens_q.shape != NULL
                   ? a.cu_seqlens_q.shape[0] - 1
                   : a.q.shape[0],
               can->b))
    misfit = "B is not declared";
  else if ((can->flags & QKVET_FLAG_POSITIVE_SCALE) != 0 && a.scale_given &&
           a.scale < 0)
    misfit = "a scale below 0 is not declared";
  else if ((can->flags & QKVET_FLAG_MASK_OR_BIAS) != 0 && a.mask.ndim != 0 &&
           a.bias.ndim != 0)
    misfit = "a mask beside a bias is not declared";
  else if ((can->flags & QKVET_FLAG_BIAS_OR_CAUSAL) != 0 && a.bias.ndim != 0 &&
           a.causal != QKVET_CAUSAL_NONE)
    misfit = "a bias beside the causal rule is not declared";
  else if ((a.rope == QKVET_ROPE_INTERLEAVED &&
            (can->flags & QKVET_FLAG_ROPE_HALF_ONLY) != 0) ||
           (a.rope == QKVET_ROPE_HALF &&
            (can->flags & QKVET_FLAG_ROPE_INTERLEAVED_ONLY) != 0))
    misfit = "the other style of rotation is not declared";
  else if (a.page_size != 0 && !qkvet_declares_page_size_(can, a.page_size))
    misfit = "page_size is not declared";
  else if (a.page_size != 0 && a.key_indices.ndim != 0 &&
           (can->flags & QKVET_FLAG_LISTS_OR_PAGES) != 0)
    misfit = "lists of keys beside pages are not declared";
  else if (a.page_size == 0 && (can->flags & QKVET_FLAG_PAGES_ONLY) != 0)
    misfit = "keys in rows are not declared";
  else if (a.page_size == 0)
    misfit = qkvet_misfit_(&a, can);
  return misfit == NULL ? QKVET_OK
                        : qkvet_refuse(why, QKVET_UNSUPPORTED, misfit);
}

static inline qkvet_status qkvet_open_kernels(
    const qkvet_host* host, const char* config, qkvet_library* out,
    qkvet_text* why, const char* name, const qkvet_kernel* const* kernels,
    int32_t count) {
  if (host == NULL || host->abi_major != QKVET_ABI_MAJOR)
    return qkvet_refuse(why, QKVET_INVALID_ARGUMENT,
                        "the host speaks another version of the ABI");
  if (config != NULL && config[0] != '\0')
    return qkvet_refuse(why, QKVET_INVALID_ARGUMENT,
                        "this library takes no configuration");
  if (out == NULL || out->struct_size < sizeof *out)
    return qkvet_refuse(why, QKVET_INVALID_ARGUMENT,
                        "the library struct is too small");
  memset(out, 0, sizeof *out);
  out->struct_size = sizeof *out;
  out->abi_major = QKVET_ABI_MAJOR;
  out->abi_minor = QKVET_ABI_MINOR;
  out->name = name;
  out->kernel_count = count;
  out->kernels = kernels;
  return QKVET_OK;
}

#endif /* QKVET_ADAPTER_H_ */
