/* SPDX-License-Identifier: Apache-2.0
 *
 * An extension of the plug-in ABI (kernel.h): plan once, run often. What
 * serving systems call: a batch is planned from its lengths and tables, run for
 * each layer, and planned anew for the next step; a captured graph has the
 * extents of the largest batch, and smaller ones are padded to them.
 *
 * get_extension(self, QKVET_EXTENSION_PLAN) returns a qkvet_plan_table. A
 * kernel that has one needs no forward(): where a call is asked for, a plan is
 * made for it, run and destroyed. `supports` and `workspace` speak of such a
 * call; exec->workspace is given to run() alone, and holds nothing afterwards.
 *
 * The lengths and tables of a call are q_len, kv_len, cu_seqlens_q,
 * cu_seqlens_k, block_table, page_indptr, page_indices and last_page_len. They
 * are given to plan() and update(), where all other tensors have shape, strides
 * and type, and data NULL. run() is given the others, and in lengths and tables
 * data is NULL: those of the last plan() or update() count. (Lists of keys are
 * data, as a mask is.) Nothing of `args`
 * is looked at once a function has returned: what is needed later is copied.
 */
#ifndef QKVET_PLAN_H_
#define QKVET_PLAN_H_

#include "qkvet/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

#define QKVET_EXTENSION_PLAN "qkvet.plan/1"

typedef struct qkvet_plan qkvet_plan; /* opaque, owned by the kernel */

/* Options (bits of qkvet_plan_table.options). */
/* A claim: run() after update() gives the bits of a run after plan() for the
 * same lengths and tables, whatever was planned before. */
#define QKVET_PLAN_UPDATE_INVARIANT (UINT64_C(1) << 0)

typedef struct qkvet_plan_table {
  size_t struct_size;
  uint64_t options; /* QKVET_PLAN_* */

  /* A plan for calls of these extents, types and options. The extents are its
   * capacity: a batch is smaller by lengths of 0, or starts that end earlier.
   * There may be several plans of a context at a time, each for itself. */
  qkvet_status (*plan)(const qkvet_kernel* self, qkvet_context* context,
                       const qkvet_forward_args* args, const qkvet_exec* exec,
                       qkvet_plan** plan, qkvet_text* why);

  /* One call with the lengths and tables of the plan. Rows that do not count
   * are not written. Refused (UNSUPPORTED, INVALID_ARGUMENT), with nothing
   * written: a call whose extents, types or options are not those of the
   * plan. */
  qkvet_status (*run)(const qkvet_kernel* self, qkvet_plan* plan,
                      const qkvet_forward_args* args, const qkvet_exec* exec,
                      qkvet_text* why);

  /* Other lengths and tables, of the same extents, types and options. Refused,
   * with the plan as it was: what has other ones, as a batch beyond the
   * capacity has, and lengths beyond the extents. */
  qkvet_status (*update)(const qkvet_kernel* self, qkvet_plan* plan,
                         const qkvet_forward_args* args, const qkvet_exec* exec,
                         qkvet_text* why);

  void (*destroy)(const qkvet_kernel* self, qkvet_plan* plan);
} qkvet_plan_table;

#ifdef __cplusplus
}
#endif

#endif /* QKVET_PLAN_H_ */
