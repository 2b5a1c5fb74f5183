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
constexpr qkvet_kernel planned_fault(const char* name, const char* description,
                                     Place place) {
  return planned_kernel<Hooks>(name, description, place, &kPlannedPrecision,
                               kCapabilities);
}

}  // namespace

// Lengths of keys are those that plan() was given.
struct PlanLengthsKept : PlannedHooks {
  static void renew(const PlannedWork& next, PlannedWork* work) {
    PlannedWork renewed = next;
    renewed.numbers.take_from(work->numbers, &qkvet_forward_args::kv_len);
    *work = renewed;
  }
};
QKVET_FAULT(plan_lengths_kept) = {
    .kernel = planned_fault<PlanLengthsKept>,
    .mechanism = "update() renews the work and keeps the lengths of keys",
    .symptom =
        "the first batch is right; later ones see as many keys as its members "
        "had",
    .cause = "a graph is captured with the lengths of its first batch",
    .fix = "read the lengths from memory that update() fills",
    .source = "paiml/aprender#2030",
    .trigger = "an update with other lengths of keys",
    .killed_by = {"updated_plan_equals_new_plan"},
    .when = "kv_len",
};

// The table of an updated plan is never filled.
struct PlanTableNeverFilled : PlannedHooks {
  static void renew(const PlannedWork& next, PlannedWork* work) {
    *work = next;
    work->numbers.clear(&qkvet_forward_args::block_table);
  }
};
QKVET_FAULT(plan_table_never_filled) = {
    .kernel = planned_fault<PlanTableNeverFilled, &kPlannedPages>,
    .mechanism = "update() makes room for a block table and leaves it all 0",
    .symptom =
        "the first batch is right; in later ones every token is read from page "
        "0",
    .cause =
        "capture and replay were made one function, and the step that fills "
        "the table was in the other",
    .fix = "copy the table in update() as in plan()",
    .source = "sgl-project/sglang#26019",
    .trigger = "an update of a batch with a block table",
    .killed_by = {"updated_plan_equals_new_plan"},
    .when = "page_size > 0 && !csr && members(keys > 0)",
};

// The last pages are as full as those that plan() was given.
struct PlanLastPageKept : PlannedHooks {
  static void renew(const PlannedWork& next, PlannedWork* work) {
    PlannedWork renewed = next;
    renewed.numbers.take_from(work->numbers,
                              &qkvet_forward_args::last_page_len);
    *work = renewed;
  }
};
QKVET_FAULT(plan_last_page_kept) = {
    .kernel = planned_fault<PlanLastPageKept, &kPlannedLists>,
    .mechanism = "update() takes the pages and keeps last_page_len",
    .symptom =
        "right as long as a step stays in its page; then tokens that are not "
        "there are seen, or the last ones are not",
    .cause = "the pages change once a page, the length of the last every step",
    .fix = "copy last_page_len with the pages",
    .source = "textbook (plan once, run often)",
    .trigger = "an update with another number of tokens in a last page",
    .killed_by = {"updated_plan_equals_new_plan"},
    .when = "csr && page_size > 1 && members(keys > 0)",
};

// Items of a larger batch are still there.
struct PlanWorkLeftBehind : PlannedHooks {
  static void renew(const PlannedWork& next, PlannedWork* work) {
    PlannedWork renewed = next;
    for (size_t n = next.items.size(); n < work->items.size(); ++n) {
      renewed.items.push_back(work->items[n]);
    }
    *work = renewed;
  }
};
QKVET_FAULT(plan_work_left_behind) = {
    .kernel = planned_fault<PlanWorkLeftBehind>,
    .mechanism =
        "update() writes its items of work over the old ones, and as many are "
        "done as there were",
    .symptom =
        "the rows of the batch are right; behind a larger batch rows that do "
        "not count are written",
    .cause = "the grid is that of the largest batch, and no item says `none`",
    .fix = "store how many items there are, and stop there",
    .source = "NVIDIA/cudnn-frontend#606",
    .trigger = "a batch with fewer rows behind a larger one",
    .killed_by = {"rows_beyond_a_planned_batch_stay"},
    .when = "members(queries < Tq)",
};

// A batch is padded to the capacity, with zeros.
struct PlanPadsRows : PlannedHooks {
  static void finish(const ServingCall& s) {
    for (int64_t b = 0; b < s.members(); ++b) {
      const int64_t rows = served_member(s, b).queries;
      for (int64_t h = 0; h < s.call.heads; ++h) {
        for (int64_t i = rows; i < s.call.queries; ++i) {
          for (int64_t c = 0; c < s.call.value_width; ++c) {
            s.call.o.at(b, h, i)[c * s.call.o.step[3]] = 0;
          }
        }
      }
    }
  }
};
QKVET_FAULT(plan_pads_rows) = {
    .kernel = planned_fault<PlanPadsRows>,
    .mechanism = "rows between the batch and the capacity become zeros",
    .symptom = "what others keep behind a small batch is gone",
    .cause = "padded entries stand for a row that somebody owns",
    .fix = "entries that pad a batch write nothing",
    .source = "m0at/rvllm#32",
    .trigger = "a batch with fewer rows than its capacity",
    .killed_by = {"rows_beyond_a_planned_batch_stay"},
    .when = "members(queries < Tq)",
};

// The scale is that of plan().
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
QKVET_FAULT(plan_scale_kept) = {
    .kernel = planned_fault<PlanScaleKept>,
    .mechanism = "what a plan is good for is asked without the scale",
    .symptom =
        "a call of the same extents and another scale is answered with the "
        "first one",
    .cause = "a graph is found again by a key in which the scale is missing",
    .fix = "the scale is a part of the key, or an argument of the run",
    .source = "flashinfer-ai/flashinfer#4014",
    .trigger = "a run with another scale than that of the plan",
    .killed_by = {"plans_refuse_what_they_were_not_made_for"},
    .when = "",
};

// What there is no room for is left out without a word.
struct PlanCapacityUnchecked : PlannedHooks {
  static const char* wrong_in_update(const PlannedWork&,
                                     const qkvet_forward_args&) {
    return nullptr;
  }
  static void renew(const PlannedWork& next, PlannedWork* work) {
    const size_t room = work->items.size();
    *work = next;
    if (work->items.size() > room) {
      work->items.resize(room);
    }
  }
};
QKVET_FAULT(plan_capacity_unchecked) = {
    .kernel = planned_fault<PlanCapacityUnchecked>,
    .mechanism =
        "update() takes a batch beyond the capacity, and leaves out the work "
        "for which there is no room",
    .symptom = "members at the end of a large batch get no answer",
    .cause = "buffers have the size of the first batch, and nobody compares",
    .fix = "refuse what is beyond the capacity; the caller makes a new plan",
    .source = "textbook (plan once, run often)",
    .trigger = "an update with more rows or members than were planned",
    .killed_by = {"plans_refuse_what_they_were_not_made_for"},
    .when = "",
};

// All plans have one place for their lengths of keys.
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
QKVET_FAULT(plan_workspace_shared) = {
    .kernel = planned_fault<PlanWorkspaceShared, &kOneByOne>,
    .mechanism = "all plans keep their lengths in one buffer",
    .symptom =
        "one plan is right; of two the one that was made first runs with the "
        "lengths of the other",
    .cause =
        "a buffer for what is left of nothing is shared, and lengths are "
        "put there as well",
    .fix = "a buffer of each plan for what must last until its run",
    .source = "flashinfer-ai/flashinfer#442",
    .trigger = "two plans of other lengths, and a run of the first",
    .killed_by = {"plans_are_separate"},
    .when = "kv_len",
};

// What was read at an address is what stands there.
struct PlanQueriesKept : PlannedHooks {
  static qkvet_forward_args question(PlannedWork* work,
                                     const qkvet_forward_args& args) {
    qkvet_forward_args known = PlannedHooks::question(work, args);
    qkvet_tensor& q = known.q;
    if (work->noted != q.data) {
      int64_t last = 0;
      for (int32_t axis = 0; axis < q.ndim; ++axis) {
        last += (q.shape[axis] - 1) * step_of(q, axis);
      }
      const float* const from = static_cast<const float*>(first_element(q));
      work->notes.assign(from, from + last + 1);
      work->noted = q.data;
    }
    q.data = work->notes.data();
    q.byte_offset = 0;
    return known;
  }
};
QKVET_FAULT(plan_queries_kept) = {
    .kernel = planned_fault<PlanQueriesKept>,
    .mechanism =
        "a plan copies the queries of its first run and looks at their "
        "address alone",
    .symptom = "each layer answers the queries of the first one",
    .cause = "what is staged for a captured graph is staged once",
    .fix = "copy what stands at the address before every run",
    .source = "textbook (captured graphs)",
    .trigger = "two runs of a plan with other queries at the same address",
    .killed_by = {"runs_of_a_plan_are_calls"},
    .when = "",
};

}  // namespace qkvet::impl
