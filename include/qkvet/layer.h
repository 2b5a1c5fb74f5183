/* SPDX-License-Identifier: Apache-2.0
 *
 * Part of the plug-in ABI (kernel.h, which includes this file): the layer of
 * multi-head self-attention, from X to Y.
 *
 *   q, k, v = x W_Q + b_Q, x W_K + b_K, x W_V + b_V
 *   split   q[b, h, t, c] is column h d + c of row (b, t); k, v alike
 *   heads   = attention(q, k, v), head by head
 *   merge   column h dv + c of row (b, t) is heads[b, h, t, c]
 *   y       = merged W_O + b_O
 *
 * (Vaswani et al., "Attention Is All You Need", 3.2.2.) D is the model width;
 * d = dv = D/H unless the matrices have other widths.
 */
#ifndef QKVET_LAYER_H_
#define QKVET_LAYER_H_

#include "qkvet/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One call. The matrices determine the widths: d = columns of w_q / heads, dv =
 * columns of w_v / kv_heads. A contradictory call is an error with a reason
 * (INVALID_ARGUMENT), and nothing is written: heads or kv_heads that do not
 * divide the columns of their matrix, kv_heads that do not divide heads, a w_k
 * with another head width than w_q, rows of a matrix or an extent of a bias
 * that do not fit, a w_qkv or b_qkv of another width than its three parts
 * together, a mask_buffer shorter than T. */
typedef struct qkvet_layer_args {
  size_t struct_size;
  int64_t heads;    /* H */
  int64_t kv_heads; /* Hkv */
  qkvet_tensor x;   /* [B, T, D] or [T, D] in */
  qkvet_tensor w_q; /* [D, H d]    in; logical shape, any strides */
  qkvet_tensor w_k; /* [D, Hkv d]  in */
  qkvet_tensor w_v; /* [D, Hkv dv] in */
  qkvet_tensor w_o; /* [H dv, D]   in */
  qkvet_tensor b_q; /* [H d]    in, optional, like the other biases */
  qkvet_tensor b_k; /* [Hkv d]  */
  qkvet_tensor b_v; /* [Hkv dv] */
  qkvet_tensor b_o; /* [D]      */
  qkvet_tensor y;   /* of the shape of x, out */

  /* The stages, out, all present or all absent. Each holds exactly the numbers
   * that the next stage reads, in the type that the table declares. */
  qkvet_tensor q;        /* [B, H, T, d] */
  qkvet_tensor k;        /* [B, Hkv, T, d] */
  qkvet_tensor v;        /* [B, Hkv, T, dv] */
  qkvet_tensor attended; /* [B, H, T, dv] output of attention, not merged */

  float scale;         /* factor of q k^T; read only if scale_given */
  int32_t scale_given; /* 0: the kernel uses 1/sqrt(d), never 1/sqrt(D) */
  int32_t causal;      /* QKVET_CAUSAL_*; both alignments agree here */
  int32_t unused;      /* never read: padding in callers without rope */

  /* Rotary positions, applied to q and k between the split and attention, as
   * in qkvet_forward_args: the stages q and k are the rotated ones. */
  int32_t rope;           /* QKVET_ROPE_* */
  qkvet_tensor rope_cos;  /* [positions, r/2] */
  qkvet_tensor rope_sin;  /* [positions, r/2] */
  qkvet_tensor positions; /* [B, T] int64, of queries and keys */

  /* Fused projections: one matrix with W_Q, W_K and W_V side by side in the
   * order of `fused`, each [head][channel], as in models (QKV: in_proj_weight
   * of torch.nn.MultiheadAttention, transposed, and c_attn of GPT-2). w_q, w_k
   * and w_v (b_q, b_k and b_v) are also given, as views into it, aligned to an
   * element. The biases of q, k and v are given all or none, and b_qkv with
   * them. */
  qkvet_tensor w_qkv; /* [D, H d + Hkv d + Hkv dv], optional */
  qkvet_tensor b_qkv; /* [H d + Hkv d + Hkv dv], optional */

  /* The causal mask of the longest context, C tokens, as in models: nonzero =
   * attend, so row i has ones up to column i. T < C tokens use its first rows
   * and columns; T > C is INVALID_ARGUMENT, and the reason names both numbers.
   * It is the only rule: `causal` is QKVET_CAUSAL_NONE. */
  qkvet_tensor mask_buffer; /* [C, C] bytes (bool or uint8), optional */

  /* softmax(scores), in the storage type of x; masked keys have weight 0. */
  qkvet_tensor weights; /* [B, H, T, T], out, optional */

  int32_t fused;      /* QKVET_FUSED_*; NONE: no w_qkv and no b_qkv */
  int32_t unused_end; /* never read: padding, as above */
} qkvet_layer_args;

/* The order of the parts of w_qkv and b_qkv. */
#define QKVET_FUSED_NONE 0
#define QKVET_FUSED_QKV 1
#define QKVET_FUSED_QVK 2
#define QKVET_FUSED_KQV 3
#define QKVET_FUSED_KVQ 4
#define QKVET_FUSED_VQK 5
#define QKVET_FUSED_VKQ 6

/* Options (bits of qkvet_layer_table.options). */
#define QKVET_LAYER_BIASES (UINT64_C(1) << 0)
#define QKVET_LAYER_STAGES (UINT64_C(1) << 1)    /* returns the stages */
#define QKVET_LAYER_UNBATCHED (UINT64_C(1) << 2) /* [T, D] */
#define QKVET_LAYER_ROPE (UINT64_C(1) << 3)
/* The orders of w_qkv that the kernel takes. */
#define QKVET_LAYER_FUSED_QKV (UINT64_C(1) << 4)
#define QKVET_LAYER_FUSED_QVK (UINT64_C(1) << 5)
#define QKVET_LAYER_FUSED_KQV (UINT64_C(1) << 6)
#define QKVET_LAYER_FUSED_KVQ (UINT64_C(1) << 7)
#define QKVET_LAYER_FUSED_VQK (UINT64_C(1) << 8)
#define QKVET_LAYER_FUSED_VKQ (UINT64_C(1) << 9)
#define QKVET_LAYER_MASK_BUFFER (UINT64_C(1) << 10)
#define QKVET_LAYER_WEIGHTS (UINT64_C(1) << 11)
#define QKVET_LAYER_ROPE_PART (UINT64_C(1) << 12) /* QKVET_OPTION_ROPE_PART */

struct qkvet_layer_table {
  size_t struct_size;
  uint64_t options;  /* QKVET_LAYER_* */
  qkvet_dtype stage; /* of the stages; all zero: the storage type of x */

  /* x, the matrices, the biases and y have one storage type; the kernel's
   * capabilities (dtypes, widths, grouped heads, scale, default scale, causal)
   * hold for layers too. */
  qkvet_status (*forward)(const qkvet_kernel* self, qkvet_context* context,
                          const qkvet_layer_args* args, const qkvet_exec* exec,
                          qkvet_text* why);
};
typedef struct qkvet_layer_table qkvet_layer_table;

#ifdef __cplusplus
}
#endif

#endif /* QKVET_LAYER_H_ */
