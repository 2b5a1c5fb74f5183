// SPDX-License-Identifier: Apache-2.0
// The skeleton of kernels that plan (qkvet/plan.h): plan() copies the lengths
// and tables of a batch and cuts the rows that count into items of work; run()
// does the items, each with the keys of its member, gathered out of their
// pages; update() plans again for the same capacity. Each decision is a hook,
// and a fault is a class that derives from PlannedHooks and replaces one:
//
//   split            how rows become items of work  -> which rows are computed
//   renew            how update() changes a plan    -> lengths, tables, items
//   wrong_in_update  refusals of update()           -> capacity
//   wrong_in_run     refusals of run()              -> options, extents
//   question         the call that run() computes   -> anything
//   made             after plan() and update()      -> what plans share
//   work             the items that run() does      -> which rows are computed
//   finish           the last step of run()         -> rows that do not count
//
// Contract: that of serving_call.h without new tokens, and that of plan.h.
// Cost: k and v of a member are copied once for each of its items.
#ifndef QKVET_IMPL_SKELETONS_PLANNED_SKELETON_H_
#define QKVET_IMPL_SKELETONS_PLANNED_SKELETON_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "impl/call/declare.h"
#include "impl/call/plan_call.h"
#include "impl/skeletons/plain_row.h"
#include "impl/skeletons/serving_skeleton.h"

namespace qkvet::impl {

// Rows [first, first + rows) of a member.
struct WorkItem {
  int64_t member = 0;
  int64_t first = 0;
  int64_t rows = 0;
};
using WorkItems = std::vector<WorkItem>;

// A plan.
struct PlannedWork {
  MadeFor made_for;
  BatchNumbers numbers;
  WorkItems items;
  std::vector<float> notes;  // of a fault
  const void* noted = nullptr;
};

// Rows of an item, the work of a block of threads.
inline constexpr int64_t kItemRows = 4;

struct PlannedHooks {
  static constexpr uint64_t kClaims = QKVET_PLAN_UPDATE_INVARIANT;

  static void split(const ServingCall& s, WorkItems* items) {
    for (int64_t m = 0; m < s.members(); ++m) {
      const int64_t rows = served_member(s, m).queries;
      for (int64_t i = 0; i < rows; i += kItemRows) {
        items->push_back({m, i, std::min(kItemRows, rows - i)});
      }
    }
  }
  // `next` is the result of plan() for the new batch.
  static void renew(const PlannedWork& next, PlannedWork* work) {
    *work = next;
  }
  static const char* wrong_in_update(const PlannedWork& work,
                                     const qkvet_forward_args& args) {
    return work.made_for.differs(args);
  }
  static const char* wrong_in_run(const PlannedWork& work,
                                  const qkvet_forward_args& args) {
    return work.made_for.differs(args);
  }
  static qkvet_forward_args question(PlannedWork* work,
                                     const qkvet_forward_args& args) {
    return work->numbers.with(args);
  }
  static void made(const PlannedWork&) {}
  static const WorkItems& work(PlannedWork* work, const ServingCall&) {
    return work->items;
  }
  static void finish(const ServingCall&) {}
};

// Some rows of a call.
inline ForwardCall rows_of(const ForwardCall& call, int64_t first,
                           int64_t rows) {
  ForwardCall part = call;
  const auto move = [first](auto& view) {
    if (view.data != nullptr) {
      view.data = view.at(0, 0, first);
    }
  };
  part.queries = rows;
  part.diagonal += first;
  part.options = call.options.from(0, 0, first, 0);
  move(part.q);
  move(part.o);
  move(part.lse);
  move(part.half.q);
  move(part.half.o);
  return part;
}

template <class Hooks>
struct PlannedKernel {
  using Gather = ServingKernel<ServingHooks, compute_rows<PlainRow>>;

  static PlannedWork* of(qkvet_plan* plan) {
    return reinterpret_cast<PlannedWork*>(plan);
  }

  // Reads a call and checks its numbers.
  static qkvet_status read(const qkvet_kernel* self,
                           const qkvet_forward_args& args, ServingCall* s,
                           qkvet_text* why) {
    QKVET_TRY(read_serving(self, &args, s, why));
    return check_serving(s, why);
  }

  static qkvet_status make(const qkvet_kernel* self,
                           const qkvet_forward_args& args,
                           std::unique_ptr<PlannedWork>* work,
                           qkvet_text* why) {
    ServingCall s;
    QKVET_TRY(read(self, with_addresses(args), &s, why));
    work->reset(new PlannedWork{MadeFor(args), {}, {}, {}, nullptr});
    (*work)->numbers.take(args);
    Hooks::split(s, &(*work)->items);
    return QKVET_OK;
  }

  static qkvet_status plan(const qkvet_kernel* self, qkvet_context*,
                           const qkvet_forward_args* args,
                           const qkvet_exec* exec, qkvet_plan** plan,
                           qkvet_text* why) try {
    qkvet_forward_args known = {};
    std::unique_ptr<PlannedWork> work;
    QKVET_TRY(check_exec(exec, why));
    QKVET_TRY(read_struct(args, &known, why));
    QKVET_TRY(make(self, known, &work, why));
    Hooks::made(*work);
    *plan = reinterpret_cast<qkvet_plan*>(work.release());
    return QKVET_OK;
  } catch (const std::bad_alloc&) {
    return refuse(why, QKVET_OUT_OF_MEMORY, "no memory for a plan");
  }

  static qkvet_status update(const qkvet_kernel* self, qkvet_plan* plan,
                             const qkvet_forward_args* args,
                             const qkvet_exec* exec, qkvet_text* why) try {
    qkvet_forward_args known = {};
    std::unique_ptr<PlannedWork> next;
    QKVET_TRY(check_exec(exec, why));
    QKVET_TRY(read_struct(args, &known, why));
    if (const char* wrong = Hooks::wrong_in_update(*of(plan), known)) {
      return refuse(why, QKVET_INVALID_ARGUMENT, wrong);
    }
    QKVET_TRY(make(self, known, &next, why));
    Hooks::renew(*next, of(plan));
    Hooks::made(*of(plan));
    return QKVET_OK;
  } catch (const std::bad_alloc&) {
    return refuse(why, QKVET_OUT_OF_MEMORY, "no memory for a plan");
  }

  static qkvet_status compute_item(const ServingCall& s, const WorkItem& item,
                                   qkvet_text* why) {
    ForwardCall part =
        rows_of(served_member(s, item.member), item.first, item.rows);
    return Gather::compute_gathered(s, item.member, &part, why);
  }

  static qkvet_status run(const qkvet_kernel* self, qkvet_plan* plan,
                          const qkvet_forward_args* args,
                          const qkvet_exec* exec, qkvet_text* why) try {
    qkvet_forward_args known = {};
    QKVET_TRY(check_exec(exec, why));
    QKVET_TRY(read_struct(args, &known, why));
    PlannedWork* const work = of(plan);
    if (const char* wrong = Hooks::wrong_in_run(*work, known)) {
      return refuse(why, QKVET_INVALID_ARGUMENT, wrong);
    }
    const qkvet_forward_args whole = Hooks::question(work, known);
    ServingCall s;
    QKVET_TRY(read(self, whole, &s, why));
    QKVET_TRY(check_positions(s.call, why));
    for (const WorkItem& item : Hooks::work(work, s)) {
      QKVET_TRY(compute_item(s, item, why));
    }
    Hooks::finish(s);
    return QKVET_OK;
  } catch (const std::bad_alloc&) {
    return refuse(why, QKVET_OUT_OF_MEMORY, "no memory for a plan");
  }

  static void destroy(const qkvet_kernel*, qkvet_plan* plan) {
    delete of(plan);
  }

  static constexpr qkvet_plan_table kTable = {
      sizeof(qkvet_plan_table), Hooks::kClaims, plan, run, update, destroy};

  static const void* extension(const qkvet_kernel*, const char* id) {
    return std::strcmp(id, QKVET_EXTENSION_PLAN) == 0 ? &kTable : nullptr;
  }
};

// A kernel that has plans and no forward().
template <class Hooks>
constexpr qkvet_kernel planned_kernel(const char* name, const char* description,
                                      Place place,
                                      const qkvet_precision* precision,
                                      const qkvet_capabilities* capabilities) {
  qkvet_kernel kernel = serving_kernel(name, description, place, precision,
                                       nullptr, capabilities);
  kernel.get_extension = PlannedKernel<Hooks>::extension;
  return kernel;
}

inline constexpr qkvet_precision kPlannedPrecision = sequential_f32();

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_SKELETONS_PLANNED_SKELETON_H_
