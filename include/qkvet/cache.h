/* SPDX-License-Identifier: Apache-2.0
 *
 * Part of the plug-in ABI (kernel.h, which includes this file): KV caches.
 *
 * A cache holds keys and values of several sequences of tokens. A step appends
 * tokens to one of them, attends with queries over what it then holds, or
 * both: a prefill is a step with the whole prompt, a decode a step with one
 * token, and a prompt in several steps is a chunked prefill.
 */
#ifndef QKVET_CACHE_H_
#define QKVET_CACHE_H_

#include "qkvet/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qkvet_cache qkvet_cache; /* opaque, owned by the kernel */

/* What a cache is made for. The kernel's capabilities (dtypes, widths, grouped
 * heads, scale, default scale, lse) hold for caches as well. */
typedef struct qkvet_cache_config {
  size_t struct_size;
  int64_t sequences; /* numbered from 0, all empty at first */
  int64_t heads;     /* H */
  int64_t kv_heads;  /* Hkv */
  int64_t d;
  int64_t dv;
  int64_t capacity; /* tokens that each sequence must be able to hold */
  qkvet_dtype q;    /* storage types of the tensors of every step */
  qkvet_dtype kv;
  qkvet_dtype o;
  float scale;         /* factor of q k^T; read only if scale_given */
  int32_t scale_given; /* 0: the kernel uses 1/sqrt(d) */

  /* A sliding window: a query sees the last `window` keys up to its own, and
   * the first `first_tokens` tokens of its sequence, however far behind they
   * are. 0: all keys. What no later query can see need not be kept, but for
   * `rollback` tokens that may be taken back (truncate, below). */
  int64_t window;
  int64_t first_tokens;
  int64_t rollback;

  /* Quantised storage: int8 or fp8 e4m3 (DLPack's codes); bits = 0: as given.
   * A stored number is code * scale, where the code is the nearest one. Per
   * token, the cache takes the scale from the token: the largest magnitude of
   * one head's row of k, or of v, over the largest code (127, 448). Per channel
   * it is given, and what is beyond the largest code saturates. */
  qkvet_dtype stored;
  int32_t scales;       /* QKVET_SCALES_* */
  qkvet_tensor k_scale; /* [Hkv, d]  f32, per channel only */
  qkvet_tensor v_scale; /* [Hkv, dv] f32, per channel only */

  /* Since minor version 6, as in qkvet_forward_args, for the life of the cache.
   * ALiBi counts its distance in positions of tokens: those that evict() leaves
   * keep theirs. */
  qkvet_tensor slopes; /* [H] f32 (f64 where q is f64), optional */
  qkvet_tensor sink;   /* the same */
  float softcap;       /* > 0: softcap * tanh(score / softcap) */
  int32_t reserved;    /* not read */
} qkvet_cache_config;

#define QKVET_SCALES_NONE 0
#define QKVET_SCALES_PER_TOKEN 1
#define QKVET_SCALES_PER_CHANNEL 2

/* One step on one sequence that holds `length` tokens. First k and v are
 * appended, if present; then the rows of q attend, if present. They stand at
 * the last Tq positions: row i sees the keys 0 .. length - Tq + i, of which a
 * window and a mask may hide some.
 *
 * Illegal, each an error with a reason (INVALID_ARGUMENT, or OUT_OF_MEMORY
 * beyond the capacity) that leaves the cache as it was: a sequence that is not
 * there; tensors of other shapes than the configuration's; one of k, v without
 * the other; more queries than the sequence then holds; more tokens than the
 * capacity, unless the cache GROWS; a step without k, v and q. With a window
 * also a query more than `rollback` tokens in front of the last token of the
 * longest that the sequence was before this step; a mask or a bias without q.
 */
typedef struct qkvet_cache_args {
  size_t struct_size;
  int64_t sequence;
  qkvet_tensor k;   /* [1, Hkv, Tnew, d]  in, optional */
  qkvet_tensor v;   /* [1, Hkv, Tnew, dv] in, optional */
  qkvet_tensor q;   /* [1, H, Tq, d]      in, optional */
  qkvet_tensor o;   /* [1, H, Tq, dv]     out, present with q */
  qkvet_tensor lse; /* [1, H, Tq]         out, optional */

  /* Rotary positions, as in qkvet_forward_args. The first token of a sequence
   * stands at 0, each further one behind the last that it holds, and stays
   * there; a query where the token does that it stands at. The same in every
   * step of a cache: keys may be stored rotated or not. */
  int32_t rope;          /* QKVET_ROPE_* */
  qkvet_tensor rope_cos; /* [positions, d/2], of all tokens that the sequence
                            then holds at least */
  qkvet_tensor rope_sin; /* the same */

  /* Since minor version 6, as in qkvet_forward_args. Row i belongs to query i,
   * column j to token j of those that the sequence then holds. */
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
/* Not things that it can do. The queries of a step attend to the tokens of
 * the same step as they came; codes are what later steps find. */
#define QKVET_CACHE_NEW_AS_GIVEN (UINT64_C(1) << 7)
/* The keys that read_back() gives are computed out of others that are stored:
 * rotated, or times the scale. Each may be off by 8 roundings to the storage
 * type of its own size, with rotations that of its pair. Codes of such keys are
 * not judged by what is read back. */
#define QKVET_CACHE_READ_BACK_COMPUTES (UINT64_C(1) << 8)
/* slopes, sink and softcap. */
#define QKVET_CACHE_ALIBI (UINT64_C(1) << 9)
#define QKVET_CACHE_SINK (UINT64_C(1) << 10)
#define QKVET_CACHE_SOFTCAP (UINT64_C(1) << 11)
/* mask and bias of a step. */
#define QKVET_CACHE_MASK (UINT64_C(1) << 12)
#define QKVET_CACHE_BIAS (UINT64_C(1) << 13)

struct qkvet_cache_table {
  size_t struct_size;
  uint64_t options; /* QKVET_CACHE_* */

  /* UNSUPPORTED with a reason if the kernel keeps no such cache. */
  qkvet_status (*create)(const qkvet_kernel* self, qkvet_context* context,
                         const qkvet_cache_config* config,
                         const qkvet_exec* exec, qkvet_cache** cache,
                         qkvet_text* why);
  void (*destroy)(const qkvet_kernel* self, qkvet_cache* cache);

  qkvet_status (*step)(const qkvet_kernel* self, qkvet_cache* cache,
                       const qkvet_cache_args* args, const qkvet_exec* exec,
                       qkvet_text* why);

  /* How many tokens the sequence holds. */
  qkvet_status (*length)(const qkvet_kernel* self, qkvet_cache* cache,
                         int64_t sequence, int64_t* tokens, qkvet_text* why);

  /* The sequence is empty again: the next prompt sees nothing of it. */
  qkvet_status (*reset)(const qkvet_kernel* self, qkvet_cache* cache,
                        int64_t sequence, qkvet_text* why);

  /* Keeps the first `tokens` tokens, as after rejected speculation. Illegal:
   * fewer than 0 or more than there are; with a window, more than `rollback`
   * tokens fewer than the most that the sequence held since it was last empty,
   * what it was before a fork or a reorder included. NULL: not offered. */
  qkvet_status (*truncate)(const qkvet_kernel* self, qkvet_cache* cache,
                           int64_t sequence, int64_t tokens, qkvet_text* why);

  /* The sequence `to` becomes what `from` is, and loses what it was; from then
   * on each goes its own way. Onto itself it changes nothing. Illegal: a
   * sequence that is not there. NULL: not offered. */
  qkvet_status (*fork)(const qkvet_kernel* self, qkvet_cache* cache,
                       int64_t from, int64_t to, qkvet_text* why);

  /* Beam search: every sequence s becomes what parents[s] was, all at once.
   * `parents` has as many numbers as there are sequences. Illegal: a parent
   * that is not there. NULL: not offered. */
  qkvet_status (*reorder)(const qkvet_kernel* self, qkvet_cache* cache,
                          const int64_t* parents, qkvet_text* why);

  /* The keys and values of a sequence as a query would find them now: before
   * any rotation, dequantised. With a window, rows that no query can see
   * any more may hold anything. NULL: not offered. */
  qkvet_status (*read_back)(const qkvet_kernel* self, qkvet_cache* cache,
                            int64_t sequence,
                            const qkvet_tensor* k, /* [1, Hkv, L, d]  f32 out */
                            const qkvet_tensor* v, /* [1, Hkv, L, dv] f32 out */
                            qkvet_text* why);

  /* Bytes that are allocated for tokens now, those that are free included.
   * NULL: not known. */
  qkvet_status (*memory)(const qkvet_kernel* self, qkvet_cache* cache,
                         int64_t* bytes, qkvet_text* why);

  /* Tokens [first, first + tokens) of a sequence leave it: what a long context
   * drops from its middle. The others close up, in their order, and keep their
   * positions; a query sees those up to its own. Illegal: a sequence that is
   * not there, fewer tokens than 1, tokens that are not there; a cache with a
   * window. NULL: not offered. */
  qkvet_status (*evict)(const qkvet_kernel* self, qkvet_cache* cache,
                        int64_t sequence, int64_t first, int64_t tokens,
                        qkvet_text* why);
};
typedef struct qkvet_cache_table qkvet_cache_table;

#ifdef __cplusplus
}
#endif

#endif /* QKVET_CACHE_H_ */
