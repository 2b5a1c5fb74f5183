/* SPDX-License-Identifier: Apache-2.0
 *
 * Part of the plug-in ABI (kernel.h, which includes this file): KV caches.
 *
 * A cache holds keys and values of several sequences of tokens. A step appends
 * tokens to one sequence, attends with queries over the tokens it then holds,
 * or both. A prefill is a step with the whole prompt, a chunked prefill the
 * prompt in several steps, a decode a step with one token. */
#ifndef QKVET_CACHE_H_
#define QKVET_CACHE_H_

#include "qkvet/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qkvet_cache qkvet_cache; /* opaque, owned by the kernel */

/* The purpose of a cache. The kernel's capabilities (dtypes, widths, grouped
 * heads, layouts, scale, default scale, lse) hold for caches too. */
typedef struct qkvet_cache_config {
  size_t struct_size;
  int64_t sequences; /* numbered from 0, all empty at first */
  int64_t heads;     /* H */
  int64_t kv_heads;  /* Hkv */
  int64_t d;
  int64_t dv;
  int64_t capacity; /* tokens for which each sequence must have room */
  qkvet_dtype q;    /* storage types of the tensors of every step */
  qkvet_dtype kv;
  qkvet_dtype o;
  float scale;         /* factor of q k^T; read only if scale_given */
  int32_t scale_given; /* 0: the kernel uses 1/sqrt(d) */

  /* A sliding window: a query sees the last `window` keys up to its own, and
   * the first `first_tokens` tokens of its sequence, at any distance. 0: all
   * keys. The cache must keep what a later query can see, and `rollback`
   * further tokens that may be taken back (truncate, below). */
  int64_t window;
  int64_t first_tokens;
  int64_t rollback;

  /* Quantised storage: int8 or fp8 e4m3 (DLPack's codes); bits = 0: as given. A
   * stored number is code * scale, with the nearest code. Per token, the cache
   * computes the scale: the largest magnitude of one head's row of k, or of v,
   * over the largest code (127, 448). Per channel the scale is given, and
   * larger numbers saturate. */
  qkvet_dtype stored;
  int32_t scales;       /* QKVET_SCALES_* */
  qkvet_tensor k_scale; /* [Hkv, d]  f32, per channel only */
  qkvet_tensor v_scale; /* [Hkv, dv] f32, per channel only */

  /* Since minor version 6, as in qkvet_forward_args, for the life of the cache.
   * ALiBi measures its distance in positions of tokens; tokens that evict()
   * leaves keep theirs. */
  qkvet_tensor slopes; /* [H] f32 (f64 where q is f64), optional */
  qkvet_tensor sink;   /* the same */
  float softcap;       /* > 0: softcap * tanh(score / softcap) */
  int32_t reserved;    /* not read */
} qkvet_cache_config;

#define QKVET_SCALES_NONE 0
#define QKVET_SCALES_PER_TOKEN 1
#define QKVET_SCALES_PER_CHANNEL 2

/* One step on one sequence that then holds `length` tokens. First k and v are
 * appended, if present; then the rows of q attend, if present. Their positions
 * are the last Tq: row i sees the keys 0 .. length - Tq + i, except those that
 * a window or a mask hides.
 *
 * Illegal calls return an error with a reason (INVALID_ARGUMENT, or
 * OUT_OF_MEMORY past the capacity) and leave the cache unchanged: a missing
 * sequence; tensors of other shapes than the configuration's; k without v, or v
 * without k; more queries than the sequence then holds; more tokens than the
 * capacity, unless the cache GROWS; a step without k, v and q; a mask or a bias
 * without q. With a window also a query more than `rollback` tokens before the
 * last token of the longest history of the sequence before this step. */
typedef struct qkvet_cache_args {
  size_t struct_size;
  int64_t sequence;
  qkvet_tensor k;   /* [1, Hkv, Tnew, d]  in, optional */
  qkvet_tensor v;   /* [1, Hkv, Tnew, dv] in, optional */
  qkvet_tensor q;   /* [1, H, Tq, d]      in, optional */
  qkvet_tensor o;   /* [1, H, Tq, dv]     out, present with q */
  qkvet_tensor lse; /* [1, H, Tq]         out, optional */

  /* Rotary positions, as in qkvet_forward_args. The first token of a sequence
   * has position 0; each further one has the position after the last token of
   * the sequence, and keeps it. A query has its token's position. rope is the
   * same in every step of a cache: keys may be stored rotated or not. */
  int32_t rope;          /* QKVET_ROPE_* */
  qkvet_tensor rope_cos; /* [positions, r/2], at least of all tokens that the
                            sequence then holds */
  qkvet_tensor rope_sin; /* the same */

  /* Since minor version 6, as in qkvet_forward_args. Row i is query i, column j
   * is token j that the sequence then holds. */
  qkvet_tensor mask; /* [1, H, Tq, length], strides may be 0, optional */
  qkvet_tensor bias; /* the same extents, optional */
} qkvet_cache_args;

/* Options (bits of qkvet_cache_table.options). */
#define QKVET_CACHE_GROWS (UINT64_C(1) << 0) /* the capacity is only a hint */
#define QKVET_CACHE_ROPE (UINT64_C(1) << 1)
#define QKVET_CACHE_WINDOW (UINT64_C(1) << 2)
#define QKVET_CACHE_INT8_PER_TOKEN (UINT64_C(1) << 3)
#define QKVET_CACHE_INT8_PER_CHANNEL (UINT64_C(1) << 4)
#define QKVET_CACHE_FP8_PER_TOKEN (UINT64_C(1) << 5)
#define QKVET_CACHE_FP8_PER_CHANNEL (UINT64_C(1) << 6)
/* Not a capability: the queries of a step attend to the tokens of the same step
 * as given; later steps read codes. */
#define QKVET_CACHE_NEW_AS_GIVEN (UINT64_C(1) << 7)
/* Not a capability: read_back() computes its keys from other stored ones,
 * rotated or times the scale. Each may be off by 8 roundings to the storage
 * type at its own size, with rotations at that of its pair. Codes of such keys
 * are not judged by read_back(). */
#define QKVET_CACHE_READ_BACK_COMPUTES (UINT64_C(1) << 8)
/* slopes, sink and softcap. */
#define QKVET_CACHE_ALIBI (UINT64_C(1) << 9)
#define QKVET_CACHE_SINK (UINT64_C(1) << 10)
#define QKVET_CACHE_SOFTCAP (UINT64_C(1) << 11)
/* mask and bias of a step. */
#define QKVET_CACHE_MASK (UINT64_C(1) << 12)
#define QKVET_CACHE_BIAS (UINT64_C(1) << 13)
#define QKVET_CACHE_ROPE_PART \
  (UINT64_C(1) << 14) /* as QKVET_OPTION_ROPE_PART */

struct qkvet_cache_table {
  size_t struct_size;
  uint64_t options; /* QKVET_CACHE_* */

  /* UNSUPPORTED with a reason if the kernel has no such cache. */
  qkvet_status (*create)(const qkvet_kernel* self, qkvet_context* context,
                         const qkvet_cache_config* config,
                         const qkvet_exec* exec, qkvet_cache** cache,
                         qkvet_text* why);
  void (*destroy)(const qkvet_kernel* self, qkvet_cache* cache);

  qkvet_status (*step)(const qkvet_kernel* self, qkvet_cache* cache,
                       const qkvet_cache_args* args, const qkvet_exec* exec,
                       qkvet_text* why);

  /* The number of tokens of the sequence. */
  qkvet_status (*length)(const qkvet_kernel* self, qkvet_cache* cache,
                         int64_t sequence, int64_t* tokens, qkvet_text* why);

  /* Empties the sequence: the next prompt sees none of its tokens. */
  qkvet_status (*reset)(const qkvet_kernel* self, qkvet_cache* cache,
                        int64_t sequence, qkvet_text* why);

  /* Keeps the first `tokens` tokens, as after rejected speculation. Illegal:
   * below 0, or more than exist; with a window, more than `rollback` tokens
   * fewer than the sequence's maximum since it was last empty, its history
   * before a fork or a reorder included. NULL: not offered. */
  qkvet_status (*truncate)(const qkvet_kernel* self, qkvet_cache* cache,
                           int64_t sequence, int64_t tokens, qkvet_text* why);

  /* The sequence `to` becomes a copy of `from`, and loses its own tokens; later
   * calls on one do not change the other. Onto itself it changes nothing.
   * Illegal: a missing sequence. NULL: not offered. */
  qkvet_status (*fork)(const qkvet_kernel* self, qkvet_cache* cache,
                       int64_t from, int64_t to, qkvet_text* why);

  /* Beam search: every sequence s becomes what parents[s] was, all at once.
   * `parents` has a number for each sequence. Illegal: a missing parent. NULL:
   * not offered. */
  qkvet_status (*reorder)(const qkvet_kernel* self, qkvet_cache* cache,
                          const int64_t* parents, qkvet_text* why);

  /* The keys and values of a sequence as a query would use them now: before any
   * rotation, dequantised. With a window, rows that no query can see any more
   * may hold anything. NULL: not offered. */
  qkvet_status (*read_back)(const qkvet_kernel* self, qkvet_cache* cache,
                            int64_t sequence,
                            const qkvet_tensor* k, /* [1, Hkv, L, d]  f32 out */
                            const qkvet_tensor* v, /* [1, Hkv, L, dv] f32 out */
                            qkvet_text* why);

  /* Bytes currently allocated for tokens, free ones included. NULL: unknown. */
  qkvet_status (*memory)(const qkvet_kernel* self, qkvet_cache* cache,
                         int64_t* bytes, qkvet_text* why);

  /* Removes tokens [first, first + tokens) of a sequence, such as the middle of
   * a long context. The others close up, in their order, and keep their
   * positions; a query sees those up to its own. Illegal: a missing sequence,
   * fewer tokens than 1, missing tokens; a cache with a window. NULL: not
   * offered. */
  qkvet_status (*evict)(const qkvet_kernel* self, qkvet_cache* cache,
                        int64_t sequence, int64_t first, int64_t tokens,
                        qkvet_text* why);
};
typedef struct qkvet_cache_table qkvet_cache_table;

#ifdef __cplusplus
}
#endif

#endif /* QKVET_CACHE_H_ */
