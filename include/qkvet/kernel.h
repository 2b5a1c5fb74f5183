/* SPDX-License-Identifier: Apache-2.0
 *
 * The QKVet plug-in ABI: everything a kernel needs to be judged. C11 and C++17,
 * no dependency. This header and the ones that it includes are the manual.
 *
 *   o = softmax(scale * q k^T + mask) v        per batch member and query head
 *
 * One dictionary: B batch, H query heads, Hkv key/value heads (H = group * Hkv;
 * query head h reads key/value head h / group), Tq queries, Tk keys, d width of
 * q and k heads, dv width of v heads.
 *
 * Frozen since version 1.0 of the ABI: no field moves, none changes its meaning
 * (frozen_layout.inc, a test).
 *
 * How it grows. Every struct but qkvet_tensor begins with its size in bytes, as
 * the side that fills it knows it. Fields are only ever added at the end; a
 * reader treats what lies beyond struct_size as zero, and zero always means
 * "absent", "off" or "not declared". A library whose abi_major differs from the
 * host's is refused; abi_minor only tells which fields the writer knew.
 *
 * Threads. One thread at a time per context, and per library unless a kernel
 * declares QKVET_FLAG_REENTRANT. A library may be opened in several
 * processes at once. Nothing here throws: a C++ exception that leaves one of
 * these functions ends the process and is judged as a crash.
 *
 * Text. `const char*` fields are UTF-8, zero-terminated, owned by their writer
 * and valid until the library is closed.
 */
#ifndef QKVET_KERNEL_H_
#define QKVET_KERNEL_H_

#include <stddef.h>
#include <stdint.h>

#include "qkvet/backward.h"  /* qkvet_backward_table */
#include "qkvet/base.h"      /* status, text, tensor, host, exec */
#include "qkvet/cache.h"     /* qkvet_cache_table */
#include "qkvet/layer.h"     /* qkvet_layer_table */
#include "qkvet/merge.h"     /* qkvet_merge_table */
#include "qkvet/precision.h" /* dtypes, and qkvet_precision */

#ifdef __cplusplus
extern "C" {
#endif

#define QKVET_ABI_MAJOR 1
#define QKVET_ABI_MINOR                                    \
  6 /* 1: qkvet_kernel.merge; 2: page_indptr and its       \
       lists, lengths in int32, slopes of each member; 3:  \
       key_indices, topk_length; 4: paths, key_block_size, \
       channel_group, lists beside pages and backward,     \
       values in keys; 5: segments, full_ranges, chunk,    \
       tree_mask; 6: rules of B and H, widths, merges with \
       lse heads-first alone, slopes, sink and softcap of  \
       caches */

#if defined(_WIN32)
#define QKVET_EXPORT __declspec(dllexport)
#else
#define QKVET_EXPORT __attribute__((visibility("default")))
#endif

/* ---- Forward ------------------------------------------------------------ */

enum {
  QKVET_CAUSAL_NONE = 0,
  QKVET_CAUSAL_TOP_LEFT = 1,    /* row i sees keys j <= i */
  QKVET_CAUSAL_BOTTOM_RIGHT = 2 /* row i sees keys j <= i + Tk - Tq, counted
                                   from each member's own lengths */
};

enum {
  QKVET_ROPE_NONE = 0,
  QKVET_ROPE_HALF = 1,       /* pairs (c, c + d/2) */
  QKVET_ROPE_INTERLEAVED = 2 /* pairs (2c, 2c + 1) */
};

/* One call. Logical shapes; any strides. A kernel must refuse (UNSUPPORTED) a
 * field that is set and that it does not know: ignoring one is a wrong answer.
 * Inputs are read-only (but for k and v with new tokens), outputs are written
 * in full, nothing else is touched.
 */
typedef struct qkvet_forward_args {
  size_t struct_size;

  qkvet_tensor q;       /* [B, H, Tq, d]   in */
  qkvet_tensor k;       /* [B, Hkv, Tk, d] in */
  qkvet_tensor v;       /* [B, Hkv, Tk, dv] in */
  qkvet_tensor o;       /* [B, H, Tq, dv]  out */
  qkvet_tensor lse;     /* [B, H, Tq]      out, optional: log-sum-exp of the
                           scaled scores of a row, f32 or f64 */
  qkvet_tensor weights; /* [B, H, Tq, Tk]  out, optional: the softmax */

  float scale;          /* factor of q k^T; read only if scale_given */
  int32_t scale_given;  /* 0: the kernel uses 1/sqrt(d), never 1/sqrt(H*d) */
  int32_t causal;       /* QKVET_CAUSAL_* */
  int32_t has_window;   /* 0: the two fields below are not read */
  int64_t window_left;  /* keys to the left of the diagonal that stay visible,
                           inclusive count; -1: all. The diagonal of row i is
                           key i with TOP_LEFT, key i + Tk - Tq otherwise,
                           counted from each member's own lengths. 2^62 at
                           most: a position can be added in 64 bits */
  int64_t window_right; /* the same to the right */

  qkvet_tensor mask;   /* [B, H, Tq, Tk] bool or uint8, nonzero = attend */
  qkvet_tensor bias;   /* [B, H, Tq, Tk] added to the scaled scores */
  float softcap;       /* > 0: softcap * tanh(score / softcap) */
  qkvet_tensor sink;   /* [H] a logit per head that joins the denominator */
  qkvet_tensor slopes; /* [H] ALiBi: score -= slope * distance from the
                          diagonal, on either side; or [B, H], packed
                          [members, H]: those of each member */

  /* Rotary positions (Su et al., "RoFormer", 3.2), applied to q and k before
   * q k^T: channels a, b of a pair n become a cos - b sin, a sin + b cos, with
   * cos and sin of row p of the tables, column n, for what stands at position
   * p. The tables are f32 (f64 where q is f64) and need not be those of any
   * frequency; positions are rows of them. All four are there with rope. */
  int32_t rope;             /* QKVET_ROPE_* */
  qkvet_tensor rope_cos;    /* [positions, d/2] */
  qkvet_tensor rope_sin;    /* [positions, d/2] */
  qkvet_tensor q_positions; /* [B, Tq] int64 */
  qkvet_tensor k_positions; /* [B, Tk] int64 */

  /* Dropout (Srivastava et al., "Dropout", 2014): the weight of key j counts in
   * o as m_ij / (1 - p) times itself, m_ij is 0 with probability p, else 1. lse
   * and weights are those without it. The generator is the kernel's own, and
   * m_ij a function of seed, offset, p, the extents and the place [b, h, i, j]
   * alone. backward() drops the same. See dropout_mask below. */
  float dropout_p; /* 0 <= p < 1; 0: none */
  uint64_t dropout_seed;
  uint64_t dropout_offset;

  /* What o, lse and weights hold in rows that do not count is not looked at. */
  qkvet_tensor q_len;  /* [B] int64: rows of each member that count, 0 .. Tq */
  qkvet_tensor kv_len; /* [B] int64: keys of each member that count, 0 .. Tk,
                          with pages up to P * page_size; with k_new those in
                          front of the new ones, which find room behind them */

  /* A packed batch, B = 1. The first start is 0, none is below the one before,
   * and the last, which is the end, is Tq or Tk at most: rows behind it belong
   * to nobody. There is no q_len beside it, and kv_len with pages alone. */
  qkvet_tensor cu_seqlens_q; /* [members + 1] int64 */
  qkvet_tensor cu_seqlens_k; /* [members + 1] int64; absent with pages */

  /* Pages: k and v are then a pool, [pages, Hkv, page_size, d] and dv, and
   * token j of member b is slot j % page_size of page
   * block_table[b, j / page_size]. kv_len is there. Members may share pages.
   * Slots that no member owns, and entries of the table behind the last page of
   * a member, may hold anything: NaN, tokens of others, -1, pages that are not
   * there, pages of others. Tk is the last extent of mask, bias, weights and
   * k_positions, or P * page_size.
   *
   * A packed batch over pages: cu_seqlens_q says whose the rows of q are, and
   * block_table, kv_len, k_new and v_new have a row for each member. Key j of a
   * member is column n + j of mask, bias, weights and k_positions, n the keys
   * of all members before it, new ones included. */
  qkvet_tensor block_table; /* [B, P] int32 */
  int64_t page_size;

  /* New tokens, with pages or without: token n of member b becomes token
   * kv_len[b] + n of k and v, as it came (before any rotation), and is then
   * attended like all others; the diagonal counts it. kv_len is there. No other
   * element of k and v changes: with new tokens these two are written. */
  qkvet_tensor k_new; /* [B, Hkv, Tnew, d] */
  qkvet_tensor v_new; /* [B, Hkv, Tnew, dv] */

  qkvet_tensor q_scale; /* scales of quantised storage, broadcast to q */
  qkvet_tensor k_scale;
  qkvet_tensor v_scale;

  /* [B, H, Tq, Tk] uint8 out, optional, of every pair, hidden or not: 1 where
   * m_ij is 1, else 0. An output of backward() as well. Where it is not
   * declared m is read off calls with q = 0 and v = I. */
  qkvet_tensor dropout_mask;

  /* Pages in the other form (CSR), in the place of block_table and kv_len:
   * token j of member b is slot j % page_size of page
   * page_indices[page_indptr[b] + j / page_size]. Its tokens fill all of its
   * pages but the last, of which they fill last_page_len[b] slots, 1 ..
   * page_size; a member without pages has none, and 0 there. With new tokens
   * these are counted, and their pages listed. The first start is 0, none is
   * below the one before, and the last is N at most: what page_indices holds
   * behind it may be anything, as slots that no member owns. Tk is the last
   * extent of mask, bias, weights and k_positions, or N * page_size. */
  qkvet_tensor page_indptr;   /* [B + 1] int32; packed: [members + 1] */
  qkvet_tensor page_indices;  /* [N] int32 */
  qkvet_tensor last_page_len; /* [B] int32; packed: [members] */

  /* Sparse attention by lists of keys: row i of head h sees key j only if j is
   * among the first topk_length[b, i] entries (all n where there is no
   * topk_length) of key_indices[b, h / group, i], and if causal rule, window,
   * mask and kv_len let it. The one list of an extent of 1 is that of all
   * heads. Entries are keys of the member, 0 .. Tk - 1, in any order, none of
   * them twice, and -1, which is none, anywhere among them. What stands behind
   * topk_length may be anything. A key is counted from the first of its member,
   * in a packed batch and over pages, too: it is no slot of the pool, and where
   * it lies is what the block table says. New tokens are counted behind those
   * that were there. A listed key that the member does not have is not seen.
   *
   * With key_block_size n > 1 entries are blocks: m names the keys m n .. m n +
   * n - 1, as far as the member has them, and topk_length counts blocks. */
  qkvet_tensor key_indices; /* [B, Hkv or 1, Tq, n] int32 */
  qkvet_tensor topk_length; /* [B, Tq] int32, 0 .. n; optional */
  int64_t key_block_size;   /* 0: entries are keys */

  /* Pages whose keys lie in groups of x = channel_group channels, 16 bytes: 8
   * of f16 and bf16, 4 of f32, 2 of f64. d is a multiple of x. k is then
   * [pages, Hkv, page_size, d / x, x], channel c of a token number c % x of
   * group c / x, and v is [pages, Hkv, page_size, dv] as ever; but the channels
   * lie in front of the tokens. In one piece, as vLLM's paged_attention_v1 and
   * _v2 have them, k is an array [pages, Hkv, d / x, page_size, x] and v one
   * [pages, Hkv, dv, page_size]; the strides say so. k_new and v_new are rows.
   */
  int64_t channel_group; /* 0: k is [pages, Hkv, page_size, d] */

  /* Masks in a few numbers; what each of them hides is hidden. Of a member with
   * Lq rows and Lk keys row i stands at position p, the diagonal of windows.
   *
   * Segments (packed documents): row i sees key j only if segments_q[b, i] =
   * segments_k[b, j], and no number below 0 is a segment (padding). They come
   * together, of one type, int32 or int64, in any order; a segment need not lie
   * in one piece. Numbers of rows and keys beyond the lengths are not read. No
   * packed batch and no pages beside them. */
  qkvet_tensor segments_q; /* [B, Tq] */
  qkvet_tensor segments_k; /* [B, Tk] */

  /* Ranges of positions that see each other both ways, the tokens of an image
   * in a causal text: range r of member b is begin = full_ranges[b, r, 0] ..
   * end - 1, end = full_ranges[b, r, 1]. They stand in any order, none shares a
   * position with another, and an empty one (end <= begin) says nothing. Where
   * p and key j lie in one of them the causal rule hides nothing, nor does the
   * window, or it does: the dialect's ranges_and_window. All else holds as it
   * does elsewhere. No packed batch and no chunk beside them. */
  qkvet_tensor full_ranges; /* [B, R, 2] int32 or int64 */

  /* Local attention in chunks: row i sees key j only if j / chunk = p / chunk,
   * rounded down. */
  int64_t chunk; /* 0: none */

  /* A tree of drafts behind a visible history, as speculative decoding has it:
   * key j is draft n = j - (Lk - Lq), and row i sees it only if n < 0 or
   * tree_mask[b, i, n] is nonzero. What stands there beyond Lq is not read. No
   * packed batch beside it. */
  qkvet_tensor tree_mask; /* [B, Tq, Tq] bool or uint8 */
} qkvet_forward_args;

/* ---- What a kernel says of itself --------------------------------------- */

/* Options (bits of qkvet_capabilities.options). */
#define QKVET_OPTION_CAUSAL_TOP_LEFT (UINT64_C(1) << 0)
#define QKVET_OPTION_CAUSAL_BOTTOM_RIGHT (UINT64_C(1) << 1)
#define QKVET_OPTION_SCALE (UINT64_C(1) << 2)         /* scale_given */
#define QKVET_OPTION_DEFAULT_SCALE (UINT64_C(1) << 3) /* scale left to it */
#define QKVET_OPTION_LSE (UINT64_C(1) << 4)
#define QKVET_OPTION_WEIGHTS (UINT64_C(1) << 5)
#define QKVET_OPTION_GROUPED_HEADS (UINT64_C(1) << 6) /* Hkv < H */
#define QKVET_OPTION_VALUE_WIDTH (UINT64_C(1) << 7)   /* dv != d */
#define QKVET_OPTION_CROSS_LENGTHS (UINT64_C(1) << 8) /* Tq != Tk */
#define QKVET_OPTION_EMPTY_EXTENTS (UINT64_C(1) << 9)
#define QKVET_OPTION_WINDOW (UINT64_C(1) << 10)
#define QKVET_OPTION_MASK (UINT64_C(1) << 11)
#define QKVET_OPTION_BIAS (UINT64_C(1) << 12)
#define QKVET_OPTION_SOFTCAP (UINT64_C(1) << 13)
#define QKVET_OPTION_SINK (UINT64_C(1) << 14)
#define QKVET_OPTION_ALIBI (UINT64_C(1) << 15)
#define QKVET_OPTION_ROPE (UINT64_C(1) << 16)
#define QKVET_OPTION_DROPOUT (UINT64_C(1) << 17)
#define QKVET_OPTION_LENGTHS (UINT64_C(1) << 18)
#define QKVET_OPTION_PACKED (UINT64_C(1) << 19)
#define QKVET_OPTION_PAGED (UINT64_C(1) << 20)
#define QKVET_OPTION_APPEND (UINT64_C(1) << 21)
#define QKVET_OPTION_QUANT_SCALES (UINT64_C(1) << 22)
#define QKVET_OPTION_DROPOUT_MASK (UINT64_C(1) << 23) /* dropout_mask */
/* cu_seqlens_q beside pages, in each form of table that is declared; PACKED is
 * for keys in rows alone. */
#define QKVET_OPTION_PACKED_PAGES (UINT64_C(1) << 24)
/* page_indptr, page_indices and last_page_len; PAGED is for block_table. */
#define QKVET_OPTION_PAGED_CSR (UINT64_C(1) << 25)
/* int32 in the place of int64 in q_len, kv_len and cu_seqlens_*: the same in
 * all of them that a call has. */
#define QKVET_OPTION_INT32_LENGTHS (UINT64_C(1) << 26)
/* Beside ALIBI: slopes [B, H], packed [members, H], in the place of [H]. */
#define QKVET_OPTION_ALIBI_PER_MEMBER (UINT64_C(1) << 27)
/* key_indices, and topk_length beside it. */
#define QKVET_OPTION_KEY_LISTS (UINT64_C(1) << 28)
#define QKVET_OPTION_KEY_LIST_LENGTHS (UINT64_C(1) << 29)
/* Beside KEY_LISTS: key_block_size. */
#define QKVET_OPTION_KEY_LIST_BLOCKS (UINT64_C(1) << 30)
/* Beside PAGED or PAGED_CSR: channel_group. */
#define QKVET_OPTION_PAGED_CHANNEL_GROUPS (UINT64_C(1) << 31)
/* Values are the first dv channels of the keys, as the latent cache of MLA has
 * them (DeepSeek-V2, 2.1): v is a view of k's memory, of its address and its
 * strides, and nothing else holds values. dv <= d. Without new tokens, and not
 * in backward(). */
#define QKVET_OPTION_VALUES_IN_KEYS (UINT64_C(1) << 32)
/* segments_q and segments_k; full_ranges; chunk; tree_mask: of forward(). A
 * kernel that takes one integer type alone refuses the other in supports(). */
#define QKVET_OPTION_SEGMENTS (UINT64_C(1) << 33)
#define QKVET_OPTION_FULL_RANGES (UINT64_C(1) << 34)
#define QKVET_OPTION_CHUNK (UINT64_C(1) << 35)
#define QKVET_OPTION_TREE_MASK (UINT64_C(1) << 36)

/* Flags (bits of qkvet_capabilities.flags). */
/* A claim: calls at the same time, each with a context of its own and from a
 * thread of its own, give what they give one by one: of forward(), backward(),
 * a layer and its gradient, and commands to different caches. The caller
 * promises that no two calls have a context, a cache, a workspace or an output
 * in common; inputs may be the same. Without the flag calls of a library come
 * one by one. */
#define QKVET_FLAG_REENTRANT (UINT64_C(1) << 0)
#define QKVET_FLAG_NONDETERMINISTIC (UINT64_C(1) << 1)
#define QKVET_FLAG_COMPILES_PER_SHAPE (UINT64_C(1) << 2)
#define QKVET_FLAG_ALLOCATES (UINT64_C(1) << 3)
/* "The same bits whatever the ...": claims of all functions of the kernel. The
 * order of heads and members includes where they begin in memory (members of
 * pages: with PAGE_PLACEMENT_INVARIANT alone), a layout includes fused
 * projections, and says nothing of alignment. No law tests ALIGNMENT_INVARIANT
 * and CHUNKING_INVARIANT by themselves. */
#define QKVET_FLAG_ALIGNMENT_INVARIANT (UINT64_C(1) << 8)
#define QKVET_FLAG_LAYOUT_INVARIANT (UINT64_C(1) << 9)
#define QKVET_FLAG_BATCH_INVARIANT (UINT64_C(1) << 10)
#define QKVET_FLAG_ROW_INVARIANT (UINT64_C(1) << 11)
#define QKVET_FLAG_HEAD_ORDER_INVARIANT (UINT64_C(1) << 12)
#define QKVET_FLAG_THREADS_INVARIANT (UINT64_C(1) << 13)
#define QKVET_FLAG_PAGE_PLACEMENT_INVARIANT (UINT64_C(1) << 14)
#define QKVET_FLAG_CHUNKING_INVARIANT (UINT64_C(1) << 15)
/* Not a claim: forward() takes k and v in pages and in no other form. */
#define QKVET_FLAG_PAGES_ONLY (UINT64_C(1) << 16)
/* Nor this: its pages are those of PAGED_CHANNEL_GROUPS and no others. */
#define QKVET_FLAG_CHANNEL_GROUPS_ONLY (UINT64_C(1) << 33)
/* Nor this: its values lie in its keys (VALUES_IN_KEYS) and nowhere else. */
#define QKVET_FLAG_VALUES_IN_KEYS_ONLY (UINT64_C(1) << 36)
/* Not a claim: forward() and backward() take causal calls and no others. */
#define QKVET_FLAG_CAUSAL_ONLY (UINT64_C(1) << 26)
/* Nor these: calls with a scale below 0, with a mask and a bias together, or
 * with a bias and a causal mask, are refused, not drawn, and shown as not
 * judged. (A mask together with a causal one: the dialect's mask_and_causal.)
 */
#define QKVET_FLAG_POSITIVE_SCALE (UINT64_C(1) << 24)
#define QKVET_FLAG_MASK_OR_BIAS (UINT64_C(1) << 25)
#define QKVET_FLAG_BIAS_OR_CAUSAL (UINT64_C(1) << 27)
/* Nor these, beside KEY_LISTS: lists of keys and pages in one call; lists in
 * calls of backward(). Libraries below minor version 4, which had no such
 * calls, are not asked for them, as if they had declared both. */
#define QKVET_FLAG_LISTS_OR_PAGES (UINT64_C(1) << 34)
#define QKVET_FLAG_LISTS_IN_FORWARD_ONLY (UINT64_C(1) << 35)
/* Nor these, beside ROPE: rotations of interleaved pairs, and of halves. */
#define QKVET_FLAG_ROPE_HALF_ONLY (UINT64_C(1) << 37)
#define QKVET_FLAG_ROPE_INTERLEAVED_ONLY (UINT64_C(1) << 38)
/* A claim: the bits of a row are a function of its query, of the keys and
 * values that it sees, of extents, options and addresses. What stands in other
 * rows, heads and members, at hidden keys, beyond the lengths and in slots that
 * nobody owns chooses no path: no vote of a tile, no range check of a call.
 * Gradients: the same of a key/value head and its queries; projections of a
 * layer: of their own matrix. */
#define QKVET_FLAG_OTHER_DATA_INVARIANT (UINT64_C(1) << 17)
/* A claim: a factor that is a power of two, or minus one, moves exponents and
 * signs and no other bit, in v, in d_o and between q and the scale. Not so
 * where sqrt(scale) is on q and on k, where a scale of 1 has a path of its own,
 * and with an adder that rounds down. */
#define QKVET_FLAG_POWER_OF_TWO_INVARIANT (UINT64_C(1) << 18)
/* Not a claim: blocks of GPU threads do the work, under an emulator as well as
 * on a device. A kernel of a CUDA device need not say so. */
#define QKVET_FLAG_GPU_THREADS (UINT64_C(1) << 19)
/* Not claims: all members and heads have one dropout mask, which a function of
 * seed, offset, query and key is (Flax: broadcast_dropout); the heads of a
 * member have one, another in each member; the members have one of each head.
 */
#define QKVET_FLAG_DROPOUT_BROADCAST (UINT64_C(1) << 28)
#define QKVET_FLAG_DROPOUT_OF_MEMBER (UINT64_C(1) << 30)
#define QKVET_FLAG_DROPOUT_OF_HEAD (UINT64_C(1) << 31)
/* Not a claim: the kernel learns only in the call what it does not do, as one
 * that asks another library. UNSUPPORTED of forward() is then what it is of
 * supports(). */
#define QKVET_FLAG_REFUSES_IN_CALL (UINT64_C(1) << 29)
/* A claim: supports() or forward() refuses, with a reason, a call whose tensors
 * contradict each other, be it by their extents and types or by the numbers
 * that q_len, kv_len, cu_seqlens_*, page_indptr and last_page_len hold, and one
 * that sets a field which the
 * kernel does not know: anything but zero between the struct as it knows it and
 * struct_size. The numbers of a block table are not asked: what is trusted
 * there is the caller's business. */
#define QKVET_FLAG_REFUSES_MALFORMED (UINT64_C(1) << 32)

/* Layouts (bits of qkvet_capabilities.layouts). */
#define QKVET_LAYOUT_BHTD (UINT64_C(1) << 0) /* contiguous [B, H, T, d] */
#define QKVET_LAYOUT_BTHD (UINT64_C(1) << 1) /* contiguous [B, T, H, d] */
/* q, k and v lie in one block [B, T, H + 2 Hkv, d], which begins at q: k is
 * H * d elements behind q, v Hkv * d behind k, and each row of one of them is
 * (H + 2 Hkv) * d behind the one before. So q's address is that of a qkv
 * pointer, [B, T, 3, H, d] where Hkv = H. Alignment is that of the block. o is
 * BTHD. Gradients lie as what they are gradients of, each on its own. A kernel
 * that declares ANY_STRIDES and not this one is given these strides without the
 * block. */
#define QKVET_LAYOUT_PACKED_QKV (UINT64_C(1) << 2)
#define QKVET_LAYOUT_ANY_STRIDES (UINT64_C(1) << 3)

/* An interval of extents; {0, 0, 0} allows every positive one. */
typedef struct qkvet_extent_rule {
  int64_t min;      /* 0: 1 */
  int64_t max;      /* 0: no limit */
  int64_t multiple; /* 0: any */
} qkvet_extent_rule;

/* The width of q and k heads, and that of v heads. */
typedef struct qkvet_width {
  int64_t d;
  int64_t dv; /* 0: d */
} qkvet_width;

/* Which storage types go together. */
typedef struct qkvet_dtype_rule {
  qkvet_dtype q;
  qkvet_dtype kv;
  qkvet_dtype o;
} qkvet_dtype_rule;

/* An extent at which the kernel takes another path: the rows or keys of a tile,
 * the keys of a partition, the number of keys from which on they are split, a
 * width with code of its own. Calls then have it, the extents just below and
 * just beyond it and its first multiples, and sums of two of an axis, with each
 * option that is declared. Of a cache, TK is the length of a sequence and TQ
 * the tokens of a step; of a layer both are T. What is not declared is met by
 * chance, near powers of two more often than elsewhere. */
typedef struct qkvet_path {
  int32_t axis; /* QKVET_AXIS_* */
  int32_t at;   /* 2 .. QKVET_MOST_PATH */
} qkvet_path;
enum {
  QKVET_AXIS_TQ = 1,
  QKVET_AXIS_TK = 2,
  QKVET_AXIS_D = 3,
  QKVET_AXIS_DV = 4,
  QKVET_AXIS_B = 5, /* members, of a packed batch as well */
  QKVET_AXIS_H = 6  /* query heads */
};
#define QKVET_MOST_PATH 131072

/* What is not declared here is not tested, and shown as such. */
typedef struct qkvet_capabilities {
  size_t struct_size;
  uint64_t options;    /* QKVET_OPTION_* */
  uint64_t flags;      /* QKVET_FLAG_* */
  uint64_t layouts;    /* QKVET_LAYOUT_*; 0: contiguous BHTD */
  uint64_t devices;    /* bit n: device type n; 0: the CPU */
  int64_t alignment;   /* bytes that every tensor's address is a multiple of;
                          0: that of its element */
  int32_t dtype_count; /* 0: f32 everywhere */
  qkvet_dtype_rule dtypes[16];
  qkvet_extent_rule d;
  qkvet_extent_rule dv;
  qkvet_extent_rule group; /* H / Hkv */
  qkvet_extent_rule tq;
  qkvet_extent_rule tk;
  int32_t page_size_count; /* 0: any page size */
  int64_t page_sizes[16];
  int32_t path_count; /* since minor version 4; 0: not declared */
  qkvet_path paths[16];
  /* Since minor version 6. Rules of B, in a packed batch the number of its
   * members, of forward(), backward() and layers; and of H, of everything. */
  qkvet_extent_rule b;
  qkvet_extent_rule h;
  /* The widths that the kernel takes, and no others: each keeps the rules of d
   * and dv. Of a merge, every dv of the list. */
  int32_t width_count; /* 0: as the rules of d and dv say */
  int32_t reserved;    /* not read */
  qkvet_width widths[16];
} qkvet_capabilities;

/* Where correct libraries differ. 0 everywhere: not declared, found by probes,
 * and printed as assumed. */
typedef struct qkvet_dialect {
  size_t struct_size;
  int32_t empty_row;        /* o of a row with no visible key */
  int32_t lse_base;         /* of the lse output */
  int32_t empty_row_lse;    /* lse of a row with no visible key */
  int32_t softcap_order;    /* softcap before or after the bias */
  int32_t masked_nonfinite; /* NaN or Inf in k, v at masked keys */
  int32_t sink_in_lse;      /* whether the sink counts in the lse output */
  int32_t mask_and_causal;  /* a mask together with causal */
  int32_t reserved;         /* not read */
  /* empty_row and empty_row_lse by why a row sees no key, where that matters:
   * the mask hides all keys; the bias is -infinity at all of them; kv_len or
   * cu_seqlens_k leave none; Tk = 0. The same values; 0: as empty_row and
   * empty_row_lse, which are then those of the causal rule and of windows.
   * Rows with several of these reasons are judged where all say the same. */
  int32_t empty_row_by_mask;
  int32_t empty_row_by_bias;
  int32_t empty_row_by_length;
  int32_t empty_row_by_extent;
  int32_t empty_row_lse_by_mask;
  int32_t empty_row_lse_by_bias;
  int32_t empty_row_lse_by_length;
  int32_t empty_row_lse_by_extent;
  int32_t visible_nan; /* NaN in q, k, v or bias that a row sees; 0: as 1 */
  int32_t reserved_2;  /* not read */
  /* NaN or Inf in slots of pages behind the last token of a member, and in
   * pages that nobody owns; and in rows of q, k, v and d_o beyond the lengths.
   * 0: as 1. A kernel that multiplies what stands there by a weight of 0 says 2
   * and is then given finite numbers, which must not matter. */
  int32_t unowned_nonfinite;
  int32_t padding_nonfinite;
  /* Since minor version 5. What full_ranges and a window make of a pair:
   * (causal and window) or range, or (causal or range) and window. */
  int32_t ranges_and_window;
  int32_t reserved_3; /* not read */
} qkvet_dialect;
enum {
  QKVET_EMPTY_ROW_ZERO = 1,
  QKVET_EMPTY_ROW_NAN = 2,
  QKVET_EMPTY_ROW_MEAN = 3, /* mean of v over keys < kv_len */
  QKVET_EMPTY_ROW_UNSPECIFIED = 4
};
enum { QKVET_LSE_NATURAL = 1, QKVET_LSE_BASE2 = 2 };
enum {
  QKVET_EMPTY_LSE_MINUS_INF = 1,
  QKVET_EMPTY_LSE_PLUS_INF = 2,
  QKVET_EMPTY_LSE_NAN = 3,
  QKVET_EMPTY_LSE_UNSPECIFIED = 4
};
enum { QKVET_SOFTCAP_BEFORE_MASK = 1, QKVET_SOFTCAP_AFTER_MASK = 2 };
enum { QKVET_MASKED_IGNORED = 1, QKVET_MASKED_NOT_IGNORED = 2 };
enum { QKVET_UNOWNED_IGNORED = 1, QKVET_UNOWNED_NOT_IGNORED = 2 };
enum { QKVET_PADDING_IGNORED = 1, QKVET_PADDING_NOT_IGNORED = 2 };
enum { QKVET_RANGES_OVER_WINDOW = 1, QKVET_RANGES_IN_WINDOW = 2 };
enum { QKVET_SINK_IN_LSE = 1, QKVET_SINK_NOT_IN_LSE = 2 };
enum { QKVET_MASK_AND_CAUSAL_BOTH = 1, QKVET_MASK_AND_CAUSAL_REFUSED = 2 };
enum { QKVET_VISIBLE_NAN_REACHES = 1, QKVET_VISIBLE_NAN_MAY_VANISH = 2 };

/* ---- Kernel and library ------------------------------------------------- */

struct qkvet_kernel {
  size_t struct_size;
  const char* name;        /* "family/variant", [a-z0-9_]+/[a-z0-9_]+ */
  const char* description; /* one line */
  const char* source_file; /* may be NULL */
  int32_t source_line;     /* 0: unknown */
  const qkvet_capabilities* capabilities; /* required */
  const qkvet_dialect* dialect;           /* NULL: nothing declared */
  const qkvet_precision* precision;       /* NULL: generic */
  void* user; /* for the kernel's own use; the host never reads it */

  /* Makes a context. UNAVAILABLE with a reason when what the kernel needs is
   * not on this machine. NULL: no context is needed. */
  qkvet_status (*open)(const qkvet_kernel* self, const qkvet_exec* exec,
                       qkvet_context** context, qkvet_text* why);
  void (*close)(const qkvet_kernel* self, qkvet_context* context);

  /* Whether forward() takes these arguments. Pure: it may look at shapes,
   * strides and options, not at data. The last word: a yes that forward()
   * refuses is a failure (but see REFUSES_IN_CALL). NULL: what the capabilities
   * allow is supported. */
  qkvet_status (*supports)(const qkvet_kernel* self,
                           const qkvet_forward_args* args, qkvet_text* why);

  /* Bytes of workspace that a call needs. NULL: none. */
  qkvet_status (*workspace)(const qkvet_kernel* self, qkvet_context* context,
                            const qkvet_forward_args* args, size_t* bytes);

  qkvet_status (*forward)(const qkvet_kernel* self, qkvet_context* context,
                          const qkvet_forward_args* args,
                          const qkvet_exec* exec, qkvet_text* why);

  /* Other things that this kernel can do. One of forward, cache, layer and
   * merge is there; `supports` and `workspace` speak of forward alone. */
  const qkvet_cache_table* cache;
  const qkvet_layer_table* layer;
  const qkvet_backward_table* backward;

  /* A named extension, or NULL. */
  const void* (*get_extension)(const qkvet_kernel* self, const char* id);

  const qkvet_merge_table* merge; /* since minor version 1 */
};

typedef struct qkvet_library {
  size_t struct_size; /* set by the host: what it has room for */
  uint32_t abi_major; /* QKVET_ABI_MAJOR of the library */
  uint32_t abi_minor;
  const char* name; /* the family */
  int32_t kernel_count;
  const qkvet_kernel* const* kernels;
  void (*close)(struct qkvet_library* self); /* may be NULL */
} qkvet_library;

/* The one symbol that a library exports, under the name "qkvet_open". `config`
 * is the text after "FILE:", "" if there is none. Fills *out. */
typedef qkvet_status (*qkvet_open_function)(const qkvet_host* host,
                                            const char* config,
                                            qkvet_library* out,
                                            qkvet_text* why);
QKVET_EXPORT qkvet_status qkvet_open(const qkvet_host* host, const char* config,
                                     qkvet_library* out, qkvet_text* why);

/* ---- Extensions --------------------------------------------------------- */

/* What a deliberately faulty kernel tells about its fault. */
#define QKVET_EXTENSION_FAULT "qkvet.fault/1"
typedef struct qkvet_fault {
  size_t struct_size;
  const char* when;         /* the condition without which it cannot show, as
                               `qkvet check --faults` reads it; "" or NULL: always */
  const char* cause;        /* what the code does wrong, in one sentence */
  const char* fix;          /* in one sentence */
  const char* source;       /* the bug reports; NULL: textbooks warn of it */
  const char* killed_by[2]; /* ids of laws that must fail; [1] may be NULL */
  const char* extents;      /* at which it shows, as --pin takes them, where
                               hardly any drawn case has such; "" or NULL */
  int32_t tiled; /* not 0: it is in tiles or lanes, whose width "tile=N" sets,
                    and a diagnosis tries other widths */
} qkvet_fault;

#ifdef __cplusplus
}
#endif

#endif /* QKVET_KERNEL_H_ */
