/* SPDX-License-Identifier: Apache-2.0
 *
 * The QKVet plug-in ABI: everything a kernel needs to be judged. C11 and C++17,
 * no dependency. This header and the ones that it includes are the manual.
 *
 *   o = softmax(scale * q k^T + mask) v        per sequence and query head
 *
 * Extents: B sequences (batch), H query heads, Hkv key/value heads (H = group *
 * Hkv; query head h reads key/value head h / group), Tq queries, Tk keys, d
 * width of q and k heads, dv width of v heads.
 *
 * Frozen since version 1.0 of the ABI: no field moves or changes its meaning
 * (frozen_layout.inc, a test).
 *
 * Growth. Every struct except qkvet_tensor begins with its size in bytes, in
 * the version of the side that fills it. Fields are only added at the end. A
 * reader treats everything past struct_size as zero, and zero always means
 * "absent", "off" or "not declared". The host refuses a library with another
 * abi_major; abi_minor only shows which fields the writer had.
 *
 * Threads. One thread at a time calls a context, and a library unless its
 * kernels declare QKVET_FLAG_REENTRANT. A library may be opened in several
 * processes at once. No function throws: a C++ exception that leaves one ends
 * the process and is judged as a crash.
 *
 * Text. `const char*` fields are UTF-8, zero-terminated, owned by their writer
 * and valid until the library is closed. */
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
  QKVET_CAUSAL_BOTTOM_RIGHT = 2 /* row i sees keys j <= i + Tk - Tq, with the
                                   lengths of each sequence */
};

enum {
  QKVET_ROPE_NONE = 0,
  QKVET_ROPE_HALF = 1,       /* pairs (c, c + r/2) */
  QKVET_ROPE_INTERLEAVED = 2 /* pairs (2c, 2c + 1) */
};

/* One call. Logical shapes; any strides. A kernel must refuse (UNSUPPORTED)
 * every set field that it does not support: an ignored field gives a wrong
 * answer. Inputs are read-only (except k and v with new tokens), outputs are
 * written in full, and no other memory is touched. */
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
  int64_t window_left;  /* visible keys left of the diagonal, inclusive count;
                           -1: all. The diagonal of row i is key i with
                           TOP_LEFT, key i + Tk - Tq otherwise, with the lengths
                           of each sequence. At most 2^62: a position can be
                           added in 64 bits */
  int64_t window_right; /* the same to the right */

  qkvet_tensor mask;   /* [B, H, Tq, Tk] bool or uint8, nonzero = attend */
  qkvet_tensor bias;   /* [B, H, Tq, Tk] added to the scaled scores */
  float softcap;       /* > 0: softcap * tanh(score / softcap) */
  qkvet_tensor sink;   /* [H] a logit per head that joins the denominator */
  qkvet_tensor slopes; /* [H] ALiBi: score -= slope * distance from the
                          diagonal, on either side. Or one set of slopes per
                          sequence: [B, H], packed [sequences, H] */

  /* Rotary positions (Su et al., "RoFormer", 3.2), applied to q and k before q
   * k^T. Channels a, b of pair n at position p become a cos - b sin, a sin + b
   * cos, with cos and sin from row p, column n of the tables. The tables are
   * f32 (f64 where q is f64) and may have any frequencies; positions are row
   * numbers of the tables. With rope all four tensors are present. */
  int32_t rope;             /* QKVET_ROPE_* */
  qkvet_tensor rope_cos;    /* [positions, r/2], r = d, or ROPE_PART */
  qkvet_tensor rope_sin;    /* [positions, r/2] */
  qkvet_tensor q_positions; /* [B, Tq] int64 */
  qkvet_tensor k_positions; /* [B, Tk] int64 */

  /* Dropout (Srivastava et al., "Dropout", 2014): in o the weight of key j is
   * multiplied by m_ij / (1 - p); m_ij is 0 with probability p, else 1. lse and
   * weights are those without dropout. The kernel has its own generator; m_ij
   * depends only on seed, offset, p, the extents and [b, h, i, j]. backward()
   * drops the same weights. See dropout_mask below. */
  float dropout_p; /* 0 <= p < 1; 0: none */
  uint64_t dropout_seed;
  uint64_t dropout_offset;

  /* o, lse and weights are not judged in rows that do not count. */
  qkvet_tensor q_len;  /* [B] int64: rows that count, 0 .. Tq */
  qkvet_tensor kv_len; /* [B] int64: keys that count, 0 .. Tk, with pages up to
                          P * page_size; with k_new: keys before the new ones,
                          which have room after them */

  /* A varlen (packed) batch, B = 1. The first start is 0, starts do not fall,
   * and the last number, the end, is at most Tq or Tk. Rows after it belong to
   * no sequence. A varlen batch has no q_len, and kv_len only with pages. */
  qkvet_tensor cu_seqlens_q; /* [sequences + 1] int64 */
  qkvet_tensor cu_seqlens_k; /* [sequences + 1] int64; absent with pages */

  /* Pages: k and v are a pool, [pages, Hkv, page_size, d] and dv. Token j of
   * sequence b is slot j % page_size of page block_table[b, j / page_size].
   * kv_len is present. Sequences may share pages. Unowned slots, and table
   * entries after the last page of a sequence, may hold anything: NaN, tokens
   * of other sequences, -1, missing pages, pages of others. Tk is the last
   * extent of mask, bias, weights and k_positions, or P * page_size.
   *
   * A varlen batch over pages: cu_seqlens_q assigns the rows of q, and
   * block_table, kv_len, k_new and v_new have a row for each sequence. Key j of
   * a sequence is column n + j of mask, bias, weights and k_positions, where n
   * is the number of keys of all sequences before it, new ones included. */
  qkvet_tensor block_table; /* [B, P] int32 */
  int64_t page_size;

  /* New tokens, with pages or without: token n of sequence b becomes token
   * kv_len[b] + n of k and v, as given (before any rotation). It is then
   * attended like all others, and the diagonal counts it. kv_len is present. No
   * other element of k and v changes: with new tokens these two are written. */
  qkvet_tensor k_new; /* [B, Hkv, Tnew, d] */
  qkvet_tensor v_new; /* [B, Hkv, Tnew, dv] */

  qkvet_tensor q_scale; /* scales of quantised storage, broadcast to q */
  qkvet_tensor k_scale;
  qkvet_tensor v_scale;

  /* [B, H, Tq, Tk] uint8 out, optional, of every pair, hidden or not: m_ij.
   * Also an output of backward(). Without it, m is derived from calls with q =
   * 0 and v = I. */
  qkvet_tensor dropout_mask;

  /* Pages in the other form (CSR), instead of block_table and kv_len: token j
   * of sequence b is slot j % page_size of page page_indices[page_indptr[b] + j
   * / page_size]. Its tokens fill all of its pages except the last, of which
   * they fill last_page_len[b] slots, 1 .. page_size; a sequence without pages
   * has 0 there. New tokens are counted, and their pages listed. The first
   * start is 0, starts do not fall, and the last number is at most N. Later
   * entries of page_indices, and unowned slots, may hold anything. Tk is the
   * last extent of mask, bias, weights and k_positions, or N * page_size. */
  qkvet_tensor page_indptr;   /* [B + 1] int32; packed: [sequences + 1] */
  qkvet_tensor page_indices;  /* [N] int32 */
  qkvet_tensor last_page_len; /* [B] int32; packed: [sequences] */

  /* Sparse attention: row i of head h sees key j only if j is among the first
   * topk_length[b, i] entries (all n without topk_length) of key_indices[b, h /
   * group, i], and if the causal rule, window, mask and kv_len allow it. An
   * extent of 1 means one list for all heads. Entries are keys of the sequence,
   * 0 .. Tk - 1, in any order and distinct, and -1 (none) anywhere. Entries
   * after topk_length may hold anything. A key is counted from the first key of
   * its sequence, in a varlen batch and over pages too: it is no slot of the
   * pool; the block table has its place. New tokens are counted after the
   * existing ones. A listed key that the sequence does not have is not seen.
   *
   * With key_block_size n > 1 entries are blocks: m means keys m n .. m n + n -
   * 1, as far as the sequence has them, and topk_length counts blocks. */
  qkvet_tensor key_indices; /* [B, Hkv or 1, Tq, n] int32 */
  qkvet_tensor topk_length; /* [B, Tq] int32, 0 .. n; optional */
  int64_t key_block_size;   /* 0: entries are keys */

  /* Pages with keys in groups of x = channel_group channels, 16 bytes: 8 of f16
   * and bf16, 4 of f32, 2 of f64. d is a multiple of x. k is [pages, Hkv,
   * page_size, d / x, x], with channel c of a token at number c % x of group c
   * / x, and v is [pages, Hkv, page_size, dv] as always. In memory the channels
   * come before the tokens. In one piece (vLLM's paged_attention_v1 and _v2) k
   * is an array [pages, Hkv, d / x, page_size, x] and v an array [pages, Hkv,
   * dv, page_size]; the strides express this. k_new and v_new are rows. */
  int64_t channel_group; /* 0: k is [pages, Hkv, page_size, d] */

  /* Masks in a few numbers. A pair that one of them hides is hidden. In a
   * sequence with Lq rows and Lk keys, row i is at position p, the diagonal of
   * windows.
   *
   * Segments (packed documents): row i sees key j only if segments_q[b, i] =
   * segments_k[b, j]; numbers below 0 are padding and see nothing. Both tensors
   * are present, of one type, int32 or int64. Numbers are in any order, and a
   * segment may have several pieces. Numbers of rows and keys past the lengths
   * are not read. Not with a varlen batch or pages. */
  qkvet_tensor segments_q; /* [B, Tq] */
  qkvet_tensor segments_k; /* [B, Tk] */

  /* Ranges of positions that see each other both ways, such as the tokens of an
   * image in a causal text: range r of sequence b has positions full_ranges[b,
   * r, 0] .. full_ranges[b, r, 1] - 1. Ranges are in any order and disjoint; an
   * empty one (end <= begin) has no effect. If p and key j are in one range,
   * the causal rule does not hide the pair; the dialect's ranges_and_window
   * decides whether the window does. All other rules hold as usual. Not with a
   * varlen batch or a chunk. */
  qkvet_tensor full_ranges; /* [B, R, 2] int32 or int64 */

  /* Local attention in chunks: row i sees key j only if j / chunk = p / chunk,
   * rounded down. */
  int64_t chunk; /* 0: none */

  /* A tree of drafts after a visible history (speculative decoding): key j is
   * draft n = j - (Lk - Lq), and row i sees it only if n < 0 or tree_mask[b, i,
   * n] is nonzero. Entries past Lq are not read. Not with a varlen batch. */
  qkvet_tensor tree_mask; /* [B, Tq, Tq] bool or uint8 */
} qkvet_forward_args;

/* ---- Declarations -------------------------------------------------------- */

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
/* cu_seqlens_q with pages, in each declared form of table; PACKED is for keys
 * in rows only. */
#define QKVET_OPTION_PACKED_PAGES (UINT64_C(1) << 24)
/* page_indptr, page_indices and last_page_len; PAGED is for block_table. */
#define QKVET_OPTION_PAGED_CSR (UINT64_C(1) << 25)
/* int32 instead of int64 in q_len, kv_len and cu_seqlens_*, in all of them that
 * a call has. */
#define QKVET_OPTION_INT32_LENGTHS (UINT64_C(1) << 26)
/* With ALIBI: slopes [B, H], packed [sequences, H], instead of [H]. */
#define QKVET_OPTION_ALIBI_PER_MEMBER (UINT64_C(1) << 27)
/* key_indices, and topk_length with it. */
#define QKVET_OPTION_KEY_LISTS (UINT64_C(1) << 28)
#define QKVET_OPTION_KEY_LIST_LENGTHS (UINT64_C(1) << 29)
/* With KEY_LISTS: key_block_size. */
#define QKVET_OPTION_KEY_LIST_BLOCKS (UINT64_C(1) << 30)
/* With PAGED or PAGED_CSR: channel_group. */
#define QKVET_OPTION_PAGED_CHANNEL_GROUPS (UINT64_C(1) << 31)
/* Values are the first dv channels of the keys, as in the latent cache of MLA
 * (DeepSeek-V2, 2.1): v is a view of k's memory, with its address and strides,
 * and there is no other copy of the values. dv <= d. Not with new tokens, and
 * not in backward(). */
#define QKVET_OPTION_VALUES_IN_KEYS (UINT64_C(1) << 32)
/* segments_q and segments_k; full_ranges; chunk; tree_mask: of forward(). A
 * kernel that takes only one integer type refuses the other in supports(). */
#define QKVET_OPTION_SEGMENTS (UINT64_C(1) << 33)
#define QKVET_OPTION_FULL_RANGES (UINT64_C(1) << 34)
#define QKVET_OPTION_CHUNK (UINT64_C(1) << 35)
#define QKVET_OPTION_TREE_MASK (UINT64_C(1) << 36)
/* With ROPE: tables of r/2 < d/2 columns. Only channels 0 to r - 1 are turned
 * (rotary_dim, partial_rotary_factor). */
#define QKVET_OPTION_ROPE_PART (UINT64_C(1) << 37)

/* Flags (bits of qkvet_capabilities.flags). */
/* A claim: simultaneous calls, each with its own context and thread, return
 * what they return one by one. It covers forward(), backward(), a layer and its
 * gradient, and operations on different caches. The caller promises that no two
 * calls share a context, a cache, a workspace or an output; inputs may be
 * shared. Without the flag a library is called one call at a time. */
#define QKVET_FLAG_REENTRANT (UINT64_C(1) << 0)
#define QKVET_FLAG_NONDETERMINISTIC (UINT64_C(1) << 1)
#define QKVET_FLAG_COMPILES_PER_SHAPE (UINT64_C(1) << 2)
#define QKVET_FLAG_ALLOCATES (UINT64_C(1) << 3)
/* "The same bits whatever the ...": claims of all functions of the kernel. The
 * order of heads and sequences includes where they begin in memory (sequences
 * of pages: only with PAGE_PLACEMENT_INVARIANT). A layout includes fused
 * projections but not alignment. ALIGNMENT_INVARIANT and CHUNKING_INVARIANT
 * have no law of their own. */
#define QKVET_FLAG_ALIGNMENT_INVARIANT (UINT64_C(1) << 8)
#define QKVET_FLAG_LAYOUT_INVARIANT (UINT64_C(1) << 9)
#define QKVET_FLAG_BATCH_INVARIANT (UINT64_C(1) << 10)
#define QKVET_FLAG_ROW_INVARIANT (UINT64_C(1) << 11)
#define QKVET_FLAG_HEAD_ORDER_INVARIANT (UINT64_C(1) << 12)
#define QKVET_FLAG_THREADS_INVARIANT (UINT64_C(1) << 13)
#define QKVET_FLAG_PAGE_PLACEMENT_INVARIANT (UINT64_C(1) << 14)
#define QKVET_FLAG_CHUNKING_INVARIANT (UINT64_C(1) << 15)
/* A claim of forward() and of runs of a plan: the bits of a sequence do not
 * depend on how many others are in the batch, nor on their lengths (what vLLM
 * calls batch invariance). Tq and Tk of a padded batch stay the same; where a
 * packed sequence begins in memory does not. Pages as above. */
#define QKVET_FLAG_BATCH_MATES_INVARIANT (UINT64_C(1) << 39)
/* Not a claim: forward() takes k and v only in pages. */
#define QKVET_FLAG_PAGES_ONLY (UINT64_C(1) << 16)
/* Not a claim: it takes only pages of PAGED_CHANNEL_GROUPS. */
#define QKVET_FLAG_CHANNEL_GROUPS_ONLY (UINT64_C(1) << 33)
/* Not a claim: it takes values only in keys (VALUES_IN_KEYS). */
#define QKVET_FLAG_VALUES_IN_KEYS_ONLY (UINT64_C(1) << 36)
/* Not a claim: forward() and backward() take only causal calls. */
#define QKVET_FLAG_CAUSAL_ONLY (UINT64_C(1) << 26)
/* Not claims: calls with a scale below 0, with a mask and a bias, or with a
 * bias and a causal mask, are refused, not drawn, and reported as not judged.
 * (A mask with a causal rule: the dialect's mask_and_causal.) */
#define QKVET_FLAG_POSITIVE_SCALE (UINT64_C(1) << 24)
#define QKVET_FLAG_MASK_OR_BIAS (UINT64_C(1) << 25)
#define QKVET_FLAG_BIAS_OR_CAUSAL (UINT64_C(1) << 27)
/* Not claims, with KEY_LISTS: no lists together with pages; no lists in
 * backward(). Libraries below minor version 4 had no such calls and count as
 * declaring both. */
#define QKVET_FLAG_LISTS_OR_PAGES (UINT64_C(1) << 34)
#define QKVET_FLAG_LISTS_IN_FORWARD_ONLY (UINT64_C(1) << 35)
/* Not claims, with ROPE: only rotations of halves; only of interleaved pairs.
 */
#define QKVET_FLAG_ROPE_HALF_ONLY (UINT64_C(1) << 37)
#define QKVET_FLAG_ROPE_INTERLEAVED_ONLY (UINT64_C(1) << 38)
/* A claim: the bits of a row are a function of its query, of the keys and
 * values that it sees, of extents, options and addresses. Other rows, heads and
 * sequences, hidden keys, data past the lengths and unowned slots choose no
 * path: no vote of a tile, no range check of a call. Gradients: the same for a
 * key/value head and its queries; projections of a layer: for their own matrix.
 */
#define QKVET_FLAG_OTHER_DATA_INVARIANT (UINT64_C(1) << 17)
/* A claim: a factor that is a power of two, or minus one, changes only
 * exponents and signs: in v, in d_o and between q and the scale. This does not
 * hold if sqrt(scale) multiplies q and k, if a scale of 1 has a path of its
 * own, or with an adder that rounds down. */
#define QKVET_FLAG_POWER_OF_TWO_INVARIANT (UINT64_C(1) << 18)
/* Not a claim: blocks of GPU threads do the work, under an emulator or on a
 * device. A kernel with a CUDA device need not declare it. */
#define QKVET_FLAG_GPU_THREADS (UINT64_C(1) << 19)
/* Not claims. DROPOUT_BROADCAST: all sequences and heads share one dropout
 * mask, a function of seed, offset, query and key (Flax: broadcast_dropout).
 * DROPOUT_OF_MEMBER: the heads of a sequence share one. DROPOUT_OF_HEAD: the
 * sequences share one for each head. */
#define QKVET_FLAG_DROPOUT_BROADCAST (UINT64_C(1) << 28)
#define QKVET_FLAG_DROPOUT_OF_MEMBER (UINT64_C(1) << 30)
#define QKVET_FLAG_DROPOUT_OF_HEAD (UINT64_C(1) << 31)
/* Not a claim: only the call itself can decide what the kernel supports, for
 * example because it calls another library. UNSUPPORTED from forward() then
 * counts as from supports(). */
#define QKVET_FLAG_REFUSES_IN_CALL (UINT64_C(1) << 29)
/* A claim: supports() or forward() refuses, with a reason, a call with tensors
 * that contradict each other: by extents and types, or by the numbers in q_len,
 * kv_len, cu_seqlens_*, page_indptr and last_page_len. It also refuses a call
 * that sets an unknown field: anything but zero between the kernel's own struct
 * and struct_size. The numbers of a block table are not checked; the caller is
 * trusted. */
#define QKVET_FLAG_REFUSES_MALFORMED (UINT64_C(1) << 32)

/* Layouts (bits of qkvet_capabilities.layouts). */
#define QKVET_LAYOUT_BHTD (UINT64_C(1) << 0) /* contiguous [B, H, T, d] */
#define QKVET_LAYOUT_BTHD (UINT64_C(1) << 1) /* contiguous [B, T, H, d] */
/* q, k and v are one block [B, T, H + 2 Hkv, d], which begins at q: k is H * d
 * elements after q, v Hkv * d after k, and each row of one of them is (H + 2
 * Hkv) * d after the one before. So q's address is that of a qkv pointer, [B,
 * T, 3, H, d] where Hkv = H. Alignment is that of the block. o is BTHD. A
 * gradient has the strides of its tensor, in memory of its own. A kernel that
 * declares ANY_STRIDES without this layout gets these strides without the
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

/* A combination of storage types. */
typedef struct qkvet_dtype_rule {
  qkvet_dtype q;
  qkvet_dtype kv;
  qkvet_dtype o;
} qkvet_dtype_rule;

/* An extent at which the kernel takes another path: the rows or keys of a tile,
 * the keys of a partition, the number of keys from which they are split, a
 * width with its own code. Calls then have this extent, the ones just below and
 * above it, its first multiples, and sums of two of an axis, with each declared
 * option. In a cache TK is the length of a sequence and TQ the tokens of a
 * step; in a layer both are T. Undeclared paths are met by chance, more often
 * near powers of two. */
typedef struct qkvet_path {
  int32_t axis; /* QKVET_AXIS_* */
  int32_t at;   /* 2 .. QKVET_MOST_PATH */
} qkvet_path;
enum {
  QKVET_AXIS_TQ = 1,
  QKVET_AXIS_TK = 2,
  QKVET_AXIS_D = 3,
  QKVET_AXIS_DV = 4,
  QKVET_AXIS_B = 5, /* sequences, of a varlen batch too */
  QKVET_AXIS_H = 6  /* query heads */
};
#define QKVET_MOST_PATH 131072

/* Undeclared features are not tested, and reported as such. */
typedef struct qkvet_capabilities {
  size_t struct_size;
  uint64_t options;    /* QKVET_OPTION_* */
  uint64_t flags;      /* QKVET_FLAG_* */
  uint64_t layouts;    /* QKVET_LAYOUT_*; 0: contiguous BHTD */
  uint64_t devices;    /* bit n: device type n; 0: the CPU */
  int64_t alignment;   /* every tensor's address is a multiple of this many
                          bytes; 0: of its element */
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
  /* Since minor version 6. b: the number of sequences, also of a varlen batch,
   * of forward(), backward() and layers. h: query heads, of everything. */
  qkvet_extent_rule b;
  qkvet_extent_rule h;
  /* The only widths that the kernel takes; each also keeps the rules of d and
   * dv. For a merge: every dv of the list. */
  int32_t width_count; /* 0: by the rules of d and dv */
  int32_t reserved;    /* not read */
  qkvet_width widths[16];
} qkvet_capabilities;

/* Conventions about which correct libraries differ. 0: not declared; found by
 * probes and reported as assumed. */
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
  /* empty_row and empty_row_lse by the reason for which a row sees no key: the
   * mask hides all keys; the bias is -infinity at all of them; kv_len or
   * cu_seqlens_k leave none; Tk = 0. The same values. 0: as empty_row and
   * empty_row_lse, which then cover the causal rule and windows. Rows with
   * several reasons are judged where all of these fields agree. */
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
  /* NaN or Inf in slots after the last token of a sequence and in unowned
   * pages; and in rows of q, k, v and d_o past the lengths. 0: as 1. A kernel
   * that multiplies these places by a weight of 0 declares 2. It then gets
   * finite numbers there, which must not matter. */
  int32_t unowned_nonfinite;
  int32_t padding_nonfinite;
  /* Since minor version 5. Visible pairs with full_ranges and a window: (causal
   * and window) or range; or (causal or range) and window. */
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

  /* Makes a context. Returns UNAVAILABLE with a reason if this machine lacks
   * something the kernel needs. NULL: no context is needed. */
  qkvet_status (*open)(const qkvet_kernel* self, const qkvet_exec* exec,
                       qkvet_context** context, qkvet_text* why);
  void (*close)(const qkvet_kernel* self, qkvet_context* context);

  /* Whether forward() takes these arguments. Pure: it may read shapes, strides
   * and options, not data. If it returns OK, a refusal by forward() is a
   * failure (but see REFUSES_IN_CALL). NULL: everything that the capabilities
   * allow is supported. */
  qkvet_status (*supports)(const qkvet_kernel* self,
                           const qkvet_forward_args* args, qkvet_text* why);

  /* Bytes of workspace that a call needs. NULL: none. */
  qkvet_status (*workspace)(const qkvet_kernel* self, qkvet_context* context,
                            const qkvet_forward_args* args, size_t* bytes);

  qkvet_status (*forward)(const qkvet_kernel* self, qkvet_context* context,
                          const qkvet_forward_args* args,
                          const qkvet_exec* exec, qkvet_text* why);

  /* Other operations of this kernel. One of forward, cache, layer and merge is
   * present; `supports` and `workspace` are about forward only. */
  const qkvet_cache_table* cache;
  const qkvet_layer_table* layer;
  const qkvet_backward_table* backward;

  /* A named extension, or NULL. */
  const void* (*get_extension)(const qkvet_kernel* self, const char* id);

  const qkvet_merge_table* merge; /* since minor version 1 */
};

typedef struct qkvet_library {
  size_t struct_size; /* set by the host: its room */
  uint32_t abi_major; /* QKVET_ABI_MAJOR of the library */
  uint32_t abi_minor;
  const char* name; /* the family */
  int32_t kernel_count;
  const qkvet_kernel* const* kernels;
  void (*close)(struct qkvet_library* self); /* may be NULL */
} qkvet_library;

/* The one symbol that a library exports, named "qkvet_open". `config` is the
 * text after "FILE:", or "". Fills *out. */
typedef qkvet_status (*qkvet_open_function)(const qkvet_host* host,
                                            const char* config,
                                            qkvet_library* out,
                                            qkvet_text* why);
QKVET_EXPORT qkvet_status qkvet_open(const qkvet_host* host, const char* config,
                                     qkvet_library* out, qkvet_text* why);

/* ---- Extensions --------------------------------------------------------- */

/* The description of a deliberately faulty kernel. */
#define QKVET_EXTENSION_FAULT "qkvet.fault/2"
typedef struct qkvet_fault {
  size_t struct_size;
  const char* when;         /* the condition without which it cannot show, for
                               `qkvet check --faults`; "" or NULL: always */
  const char* cause;        /* the mistake in the code, in one sentence */
  const char* fix;          /* in one sentence */
  const char* source;       /* bug reports; NULL: textbooks warn of it */
  const char* killed_by[2]; /* ids of laws that must fail; [1] may be NULL */
  const char* extents;      /* at which it shows, as for --pin, if few drawn
                               cases have them; "" or NULL */
  int32_t tiled; /* not 0: the mistake is in tiles or lanes of the width that
                    "tile=N" sets, and a diagnosis tries other widths */
} qkvet_fault;

#ifdef __cplusplus
}
#endif

#endif /* QKVET_KERNEL_H_ */
