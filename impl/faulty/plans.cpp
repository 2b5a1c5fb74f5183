// SPDX-License-Identifier: Apache-2.0
// Faults of kernels that plan: what is left of another batch, another plan or
// another run.
#include "impl/faulty/kernels.h"
#include "impl/skeletons/planned_skeleton.h"

namespace qkvet::impl {
namespace {

// A length that is left of another batch is one of rows that are there; of
// pages it need not be.
constexpr qkvet_capabilities kPlannedRows =
    capabilities_with(kCommonOptions | QKVET_OPTION_LENGTHS, {kF32});
constexpr qkvet_capabilities kOneByOne = [] {
  qkvet_capabilities c = kPlannedRows;
  c.flags &= ~QKVET_FLAG_REENTRANT;
  return c;
}();
constexpr qkvet_capabilities kPlannedPages = capabilities_with(
    kCommonOptions | QKVET_OPTION_LENGTHS | QKVET_OPTION_PAGED, {kF32});
constexpr qkvet_capabilities kPlannedLists = capabilities_with(
    kCommonOptions | QKVET_OPTION_LENGTHS | QKVET_OPTION_PAGED_CSR, {kF32});

template <class Hooks, const qkvet_capabilities* kCapabilities = &kPlannedRows>
constexpr qkvet_kernel kPlannedFault = planned_kernel<Hooks>("", "", {},
                                                             &kPlannedPrecision,
                                                             kCapabilities);

}  // namespace

struct PlanLengthsKept : PlannedHooks {
  static void renew(const PlannedWork& next, PlannedWork* work) {
    PlannedWork renewed = next;
    renewed.numbers.take_from(work->numbers, &qkvet_forward_args::kv_len);
    *work = renewed;
  }
};
QKVET_FAULT(plan_lengths_kept, kPlannedFault<PlanLengthsKept>) = {
    .when = "kv_len",
    .cause = "update() renews the work and keeps the lengths of keys: they "
             "were captured with the first batch",
    .fix = "read the lengths from memory that update() fills",
    .source = "paiml/aprender#2030",
    .killed_by = {"updated_plan_equals_new_plan"},
};

struct PlanTableNeverFilled : PlannedHooks {
  static void renew(const PlannedWork& next, PlannedWork* work) {
    *work = next;
    work->numbers.clear(&qkvet_forward_args::block_table);
  }
};
QKVET_FAULT(plan_table_never_filled,
            kPlannedFault<PlanTableNeverFilled, &kPlannedPages>) = {
    .when = "page_size > 0 && !csr && members(keys > 0)",
    .cause = "update() makes room for a block table and leaves it all 0",
    .fix = "copy the table in update() as in plan()",
    .source = "sgl-project/sglang#26019",
    .killed_by = {"updated_plan_equals_new_plan"},
};

struct PlanLastPageKept : PlannedHooks {
  static void renew(const PlannedWork& next, PlannedWork* work) {
    PlannedWork renewed = next;
    renewed.numbers.take_from(work->numbers,
                              &qkvet_forward_args::last_page_len);
    *work = renewed;
  }
};
QKVET_FAULT(plan_last_page_kept,
            kPlannedFault<PlanLastPageKept, &kPlannedLists>) = {
    .when = "csr && page_size > 1 && members(keys > 0)",
    .cause = "update() takes the pages and keeps last_page_len",
    .fix = "copy last_page_len with the pages",
    .killed_by = {"updated_plan_equals_new_plan"},
};

struct PlanWorkLeftBehind : PlannedHooks {
  static void renew(const PlannedWork& next, PlannedWork* work) {
    PlannedWork renewed = next;
    for (size_t n = next.items.size(); n < work->items.size(); ++n)
      renewed.items.push_back(work->items[n]);
    *work = renewed;
  }
};
QKVET_FAULT(plan_work_left_behind, kPlannedFault<PlanWorkLeftBehind>) = {
    .when = "members(queries < Tq)",
    .cause = "update() writes its items of work over the old ones, and as many "
             "are done as there were: the grid is that of the largest batch",
    .fix = "store how many items there are, and stop there",
    .source = "NVIDIA/cudnn-frontend#606",
    .killed_by = {"rows_beyond_a_planned_batch_stay"},
};

struct PlanPadsRows : PlannedHooks {
  static void finish(const ServingCall& s) {
    for (int64_t b = 0; b < s.members(); ++b) {
      const int64_t rows = served_member(s, b).queries;
      for (int64_t h = 0; h < s.call.heads; ++h)
        for (int64_t i = rows; i < s.call.queries; ++i)
          for (int64_t c = 0; c < s.call.value_width; ++c)
            s.call.o.at(b, h, i)[c * s.call.o.step[3]] = 0;
    }
  }
};
QKVET_FAULT(plan_pads_rows, kPlannedFault<PlanPadsRows>) = {
    .when = "members(queries < Tq)",
    .cause = "rows between the batch and the capacity become zeros: padded "
             "entries write to rows that belong to others",
    .fix = "entries that pad a batch write nothing",
    .source = "m0at/rvllm#32",
    .killed_by = {"rows_beyond_a_planned_batch_stay"},
};

struct PlanScaleKept : PlannedHooks {
  static qkvet_forward_args with_scale(const PlannedWork& work,
                                       qkvet_forward_args args) {
    args.scale = work.made_for.options().scale;
    args.scale_given = work.made_for.options().scale_given;
    return args;
  }
  static const char* wrong_in_run(const PlannedWork& work,
                                  const qkvet_forward_args& args) {
    return work.made_for.differs(with_scale(work, args));
  }
  static qkvet_forward_args question(PlannedWork* work,
                                     const qkvet_forward_args& args) {
    return PlannedHooks::question(work, with_scale(*work, args));
  }
};
QKVET_FAULT(plan_scale_kept, kPlannedFault<PlanScaleKept>) = {
    .cause = "the scale is missing from the key of a plan, and a run with "
             "another scale is not refused",
    .fix = "the scale is a part of the key, or an argument of the run",
    .source = "flashinfer-ai/flashinfer#4014",
    .killed_by = {"plans_refuse_what_they_were_not_made_for"},
};

struct PlanCapacityUnchecked : PlannedHooks {
  static const char* wrong_in_update(const PlannedWork&,
                                     const qkvet_forward_args&) {
    return nullptr;
  }
  static void renew(const PlannedWork& next, PlannedWork* work) {
    const size_t room = work->items.size();
    *work = next;
    if (work->items.size() > room) work->items.resize(room);
  }
};
QKVET_FAULT(plan_capacity_unchecked, kPlannedFault<PlanCapacityUnchecked>) = {
    .cause = "update() takes a batch beyond the capacity, and leaves out the "
             "work for which there is no room",
    .fix = "refuse what is beyond the capacity; the caller makes a new plan",
    .killed_by = {"plans_refuse_what_they_were_not_made_for"},
};

struct PlanWorkspaceShared : PlannedHooks {
  static BatchNumbers& shared() {
    static BatchNumbers numbers;
    return numbers;
  }
  static void made(const PlannedWork& work) { shared() = work.numbers; }
  static qkvet_forward_args question(PlannedWork* work,
                                     const qkvet_forward_args& args) {
    work->numbers.take_from(shared(), &qkvet_forward_args::kv_len);
    return PlannedHooks::question(work, args);
  }
};
QKVET_FAULT(plan_workspace_shared,
            kPlannedFault<PlanWorkspaceShared, &kOneByOne>) = {
    .when = "kv_len",
    .cause = "all plans keep their lengths in one buffer",
    .fix = "one buffer for each plan until its run",
    .source = "flashinfer-ai/flashinfer#442",
    .killed_by = {"plans_are_separate"},
};

struct PlanQueriesKept : PlannedHooks {
  static qkvet_forward_args question(PlannedWork* work,
                                     const qkvet_forward_args& args) {
    qkvet_forward_args known = PlannedHooks::question(work, args);
    qkvet_tensor& q = known.q;
    if (work->noted != q.data) {
      int64_t last = 0;
      for (int32_t axis = 0; axis < q.ndim; ++axis)
        last += (q.shape[axis] - 1) * step_of(q, axis);
      const float* const from = static_cast<const float*>(first_element(q));
      work->notes.assign(from, from + last + 1);
      work->noted = q.data;
    }
    q.data = work->notes.data();
    q.byte_offset = 0;
    return known;
  }
};
QKVET_FAULT(plan_queries_kept, kPlannedFault<PlanQueriesKept>) = {
    .cause = "a plan copies the queries of its first run and later compares "
             "their address alone",
    .fix = "copy the queries before every run",
    .killed_by = {"runs_of_a_plan_are_calls"},
};

}  // namespace qkvet::impl
