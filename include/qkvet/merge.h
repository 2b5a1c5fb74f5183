/* SPDX-License-Identifier: Apache-2.0
 *
 * Part of the plug-in ABI (kernel.h, which includes this file): merging
 * attention states.
 *
 * Attention over some of the keys of a row leaves a state: o, and lse, the
 * log-sum-exp of the scaled scores of these keys. States over disjoint keys
 * merge to the state over all of them:
 *
 *   lse = log sum_i exp(lse_i)
 *   o   = sum_i exp(lse_i - lse) o_i
 *
 * (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018,
 * 3.1; the basis of split keys, shared prefixes and cascades.) T rows with n
 * states each, H heads, dv channels.
 *
 * A state with lse = -infinity is empty: it has seen no key and has no weight,
 * whatever finite numbers its o holds. A row with only empty states, or with
 * none, sees no key: the dialect defines its o and lse (0 and -infinity if
 * undeclared).
 */
#ifndef QKVET_MERGE_H_
#define QKVET_MERGE_H_

#include "qkvet/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One call. The states and o have the storage types that the kernel declares
 * for k, v and for o. Every lse is f32, f64 where the states are f64, in the
 * base of the dialect's lse_base (undeclared: natural). Inputs are read-only,
 * outputs are written in full, and no other memory is touched. An unknown field
 * is refused (UNSUPPORTED). */
typedef struct qkvet_merge_args {
  size_t struct_size;
  qkvet_tensor states;     /* [n, T, H, dv] in; with indptr [S, H, dv] */
  qkvet_tensor states_lse; /* [n, T, H]     in; with indptr [S, H] */

  /* Optional: a number of states for each row. Row t merges states indptr[t] ..
   * indptr[t + 1] - 1 of the S; indptr[0] is 0, indptr[T] is S. */
  qkvet_tensor indptr; /* [T + 1] int64 */

  qkvet_tensor o;   /* [T, H, dv] out */
  qkvet_tensor lse; /* [T, H]     out */

  /* Nonzero: o and lse hold one more state of every row, the first one, and are
   * overwritten by the merge of all. Not with indptr. */
  int32_t in_place;
  int32_t unused; /* never read */

  /* Optional, only in place: the rows to merge. o and lse of other rows stay as
   * they are. */
  qkvet_tensor row_mask; /* [T] bytes (bool or uint8), nonzero = merge */
} qkvet_merge_args;

/* Options (bits of qkvet_merge_table.options). */
#define QKVET_MERGE_RAGGED (UINT64_C(1) << 0)   /* indptr */
#define QKVET_MERGE_IN_PLACE (UINT64_C(1) << 1) /* in_place */
#define QKVET_MERGE_ROW_MASK (UINT64_C(1) << 2) /* row_mask */
/* Layouts beside contiguous tensors of the shapes above: every lse lies as
 * [n, H, T] and [H, T], the rest as above; or any strides. */
#define QKVET_MERGE_LSE_HEADS_FIRST (UINT64_C(1) << 3)
#define QKVET_MERGE_ANY_STRIDES (UINT64_C(1) << 4)
/* Not something that it can do, beside LSE_HEADS_FIRST: lse in any other layout
 * is refused. Since minor version 6. */
#define QKVET_MERGE_LSE_HEADS_FIRST_ONLY (UINT64_C(1) << 5)

struct qkvet_merge_table {
  size_t struct_size;
  uint64_t options; /* QKVET_MERGE_* */
  /* How many states of a row it takes without indptr, that of o counted where
   * it is one. */
  int64_t min_states; /* 0: 1 */
  int64_t max_states; /* 0: no limit */
  qkvet_status (*merge)(const qkvet_kernel* self, qkvet_context* context,
                        const qkvet_merge_args* args, const qkvet_exec* exec,
                        qkvet_text* why);
};
typedef struct qkvet_merge_table qkvet_merge_table;

#ifdef __cplusplus
}
#endif

#endif /* QKVET_MERGE_H_ */
