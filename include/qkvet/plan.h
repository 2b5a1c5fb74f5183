/* SPDX-License-Identifier: Apache-2.0
 *
 * An extension of the plug-in ABI (kernel.h): plan once, run often, as in
 * serving systems. A batch is planned from its lengths and tables, run for each
 * layer, and planned again for the next step. A captured graph has the extents
 * of the largest batch, and smaller ones are padded to them.
 *
 * get_extension(self, QKVET_EXTENSION_PLAN) returns a qkvet_plan_table. A
 * kernel with this table needs no forward(): for a single call a plan is made,
 * run and destroyed. `supports` and `workspace` are about such a call;
 * exec->workspace is given to run() only, and holds nothing afterwards.
 *
 * The lengths and tables of a call are q_len, kv_len, cu_seqlens_q,
 * cu_seqlens_k, block_table, page_indptr, page_indices and last_page_len.
 * plan() and update() get these with data; all other tensors have shape,
 * strides and type, and data NULL. run() gets the others with data, and NULL
 * data in lengths and tables: those of the last plan() or update() count.
 * (Sparse key indices are data, like a mask.) `args` is not valid after a
 * function returns: copy what is needed later. */
#ifndef QKVET_PLAN_H_
#define QKVET_PLAN_H_

#include "qkvet/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

#define QKVET_EXTENSION_PLAN "qkvet.plan/1"

typedef struct qkvet_plan qkvet_plan; /* opaque, owned by the kernel */

/* Options (bits of qkvet_plan_table.options). */
/* A claim: run() after update() gives the same bits as a run after plan() with
 * the same lengths and tables, whatever was planned before. */
#define QKVET_PLAN_UPDATE_INVARIANT (UINT64_C(1) << 0)

typedef struct qkvet_plan_table {
  size_t struct_size;
  uint64_t options; /* QKVET_PLAN_* */

  /* A plan for calls of these extents, types and options. The extents are its
   * capacity: a smaller batch has lengths of 0, or starts that end earlier. A
   * context may have several independent plans at a time. */
  qkvet_status (*plan)(const qkvet_kernel* self, qkvet_context* context,
                       const qkvet_forward_args* args, const qkvet_exec* exec,
                       qkvet_plan** plan, qkvet_text* why);

  /* One call with the lengths and tables of the plan. Rows that do not count
   * are not written. A call with other extents, types or options than the
   * plan's is refused (UNSUPPORTED, INVALID_ARGUMENT), and nothing is written.
   */
  qkvet_status (*run)(const qkvet_kernel* self, qkvet_plan* plan,
                      const qkvet_forward_args* args, const qkvet_exec* exec,
                      qkvet_text* why);

  /* Other lengths and tables, with the same extents, types and options. Others
   * are refused and leave the plan as it was: a batch past the capacity,
   * lengths past the extents. */
  qkvet_status (*update)(const qkvet_kernel* self, qkvet_plan* plan,
                         const qkvet_forward_args* args, const qkvet_exec* exec,
                         qkvet_text* why);

  void (*destroy)(const qkvet_kernel* self, qkvet_plan* plan);
} qkvet_plan_table;

#ifdef __cplusplus
}
#endif

#endif /* QKVET_PLAN_H_ */
