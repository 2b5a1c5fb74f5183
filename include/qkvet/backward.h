/* SPDX-License-Identifier: Apache-2.0
 *
 * Part of the plug-in ABI (kernel.h, which includes this file): gradients.
 *
 *   p  = softmax(scale * q k^T + mask), recomputed as exp(score - lse)
 *   dv = p^T do,  dp = do v^T,  ds = p * (dp - rowsum(do * o))
 *   dq = scale * ds k,  dk = scale * ds^T q
 *
 * (Dao, "FlashAttention-2", 3.1.2.) With grouped heads dk and dv are summed
 * over the query heads of their group. With dropout
 *
 *   dv = (m / (1 - p_drop) p)^T do,  dp = m / (1 - p_drop) (do v^T)
 *
 * and the rest is unchanged: p is the softmax, o the output of forward().
 */
#ifndef QKVET_BACKWARD_H_
#define QKVET_BACKWARD_H_

#include "qkvet/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qkvet_forward_args qkvet_forward_args; /* kernel.h */
typedef struct qkvet_layer_args qkvet_layer_args;     /* layer.h */

/* The gradient of one forward call. */
typedef struct qkvet_backward_args {
  size_t struct_size;
  /* The call to differentiate, with its options. All of its tensors are inputs
   * here; o and lse are present, as forward() returned them, and weights is
   * absent. Only dropout_mask is an output: the weights that backward() drops.
   */
  const qkvet_forward_args* forward;
  qkvet_tensor d_o;    /* [B, H, Tq, dv]  in */
  qkvet_tensor d_q;    /* [B, H, Tq, d]   out, like the following */
  qkvet_tensor d_k;    /* [B, Hkv, Tk, d] */
  qkvet_tensor d_v;    /* [B, Hkv, Tk, dv] */
  qkvet_tensor d_bias; /* of the shape of bias, optional */
  qkvet_tensor d_sink; /* [H], optional */
} qkvet_backward_args;

/* The gradient of one layer call. */
typedef struct qkvet_layer_backward_args {
  size_t struct_size;
  /* The call that is differentiated; its outputs are absent. */
  const qkvet_layer_args* layer;
  qkvet_tensor d_y; /* of the shape of y in */
  qkvet_tensor d_x; /* out, like the following: each of the shape of what it
                       is the gradient of */
  qkvet_tensor d_w_q;
  qkvet_tensor d_w_k;
  qkvet_tensor d_w_v;
  qkvet_tensor d_w_o;
  qkvet_tensor d_b_q; /* biases: present if the layer has them */
  qkvet_tensor d_b_k;
  qkvet_tensor d_b_v;
  qkvet_tensor d_b_o;
} qkvet_layer_backward_args;

/* Options (bits of qkvet_backward_table.options). */
#define QKVET_BACKWARD_BIAS (UINT64_C(1) << 0) /* returns d_bias */
#define QKVET_BACKWARD_SINK (UINT64_C(1) << 1) /* returns d_sink */

struct qkvet_backward_table {
  size_t struct_size;
  uint64_t options; /* QKVET_BACKWARD_* */

  /* Bytes of workspace that a call needs. NULL: none. */
  qkvet_status (*workspace)(const qkvet_kernel* self, qkvet_context* context,
                            const qkvet_backward_args* args, size_t* bytes);

  /* UNSUPPORTED with a reason for options that only forward() takes. NULL: the
   * table has only the gradient of a layer. */
  qkvet_status (*backward)(const qkvet_kernel* self, qkvet_context* context,
                           const qkvet_backward_args* args,
                           const qkvet_exec* exec, qkvet_text* why);

  /* NULL: the layer has no gradient. */
  qkvet_status (*layer_backward)(const qkvet_kernel* self,
                                 qkvet_context* context,
                                 const qkvet_layer_backward_args* args,
                                 const qkvet_exec* exec, qkvet_text* why);
};
typedef struct qkvet_backward_table qkvet_backward_table;

#ifdef __cplusplus
}
#endif

#endif /* QKVET_BACKWARD_H_ */
