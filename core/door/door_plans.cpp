// SPDX-License-Identifier: Apache-2.0
// Calls of forward() through a plan (qkvet/plan.h).
//
// A plan that stays gets copies of the lengths and tables, and their content is
// cleared before it is run: a kernel that kept the addresses reads numbers that
// no batch has.
#include <cstring>
#include <utility>

#include "core/door/door.h"
#include "core/door/door_answers.h"
#include "core/door/door_timed.h"

namespace qkvet {
namespace {

// plan() and update() are given these, and run() all others.
constexpr qkvet_tensor qkvet_forward_args::*kTables[] = {
#define QKVET_FORWARD_TENSOR(...)
#define QKVET_FORWARD_TABLE(field, ...) &qkvet_forward_args::field,
#include "qkvet/tensors.def"
};

void drop_data(qkvet_tensor& tensor) {
  tensor.data = nullptr;
  tensor.byte_offset = 0;
}

qkvet_forward_args without_data(qkvet_forward_args args) {
#define QKVET_FORWARD_TENSOR(field, ...) drop_data(args.field);
#define QKVET_FORWARD_TABLE(...)
#include "qkvet/tensors.def"
  return args;
}

qkvet_forward_args without_numbers(qkvet_forward_args args) {
  for (const auto table : kTables) drop_data(args.*table);
  return args;
}

int64_t span_bytes(const qkvet_tensor& tensor) {
  int64_t last = 0;
  for (int32_t axis = 0; axis < tensor.ndim; ++axis) {
    if (tensor.shape[axis] == 0) return 0;
    last += (tensor.shape[axis] - 1) * tensor.strides[axis];
  }
  return (last + 1) * tensor.dtype.bits * tensor.dtype.lanes / 8;
}

// `args` with numbers in memory of their own.
qkvet_forward_args with_copies(qkvet_forward_args args,
                               std::vector<std::vector<std::byte>>* copies) {
  for (const auto table : kTables) {
    qkvet_tensor& tensor = args.*table;
    const int64_t bytes = tensor.ndim == 0 ? 0 : span_bytes(tensor);
    if (bytes == 0) continue;
    const auto* const from =
        static_cast<const std::byte*>(tensor.data) + tensor.byte_offset;
    tensor.byte_offset = 0;
    tensor.data = copies->emplace_back(from, from + bytes).data();
  }
  return args;
}

void wipe(std::vector<std::vector<std::byte>>* copies) {
  for (std::vector<std::byte>& copy : *copies)
    std::memset(copy.data(), 0xff, copy.size());
}

}  // namespace

bool Door::is_planned(const Kernel& kernel, const CallPlan& plan) {
  return plan.plan_use != PlanUse::kNone || kernel.table.forward == nullptr;
}

void Door::destroy_plan(HeldPlan& held, CallReply* reply) {
  HeldPlan gone = std::exchange(held, {});
  if (gone.plan == nullptr) return;
  const FpEnvironment before = fp_environment();
  reply->enter(Phase::kDestroy);
  gone.table.destroy(gone.self, gone.plan);
  reply->enter(Phase::kOutside);
  restore_fp_environment(before);
}

bool Door::find_plan(const Kernel& kernel, const CallPlan& plan,
                     const qkvet_forward_args& args, const qkvet_exec& exec,
                     HeldPlan& held, CallReply* reply) {
  const bool makes =
      plan.plan_use == PlanUse::kMake || plan.plan_use == PlanUse::kNone;
  if (!makes && (held.plan == nullptr || held.self != kernel.self)) {
    reply->answer(CallStatus::kNotRun, "there is no plan to run");
    return false;
  }
  if (plan.plan_use == PlanUse::kRun) return true;
  const bool copies =
      plan.plan_use != PlanUse::kNone && kernel.device == QKVET_DEVICE_CPU;
  std::vector<std::vector<std::byte>> given;
  qkvet_forward_args numbers = without_data(args);
  if (copies) numbers = with_copies(numbers, &given);
  qkvet_exec without_workspace = exec;
  without_workspace.workspace = nullptr;
  without_workspace.workspace_size = 0;
  Reason reason(reply);
  const qkvet_status status =
      timed(makes ? Phase::kPlan : Phase::kUpdate, reply, [&] {
        return awaited(
            kernel,
            makes ? kernel.plans.plan(kernel.self, kernel.context, &numbers,
                                      &without_workspace, &held.plan,
                                      reason.text())
                  : kernel.plans.update(kernel.self, held.plan, &numbers,
                                        &without_workspace, reason.text()));
      });
  wipe(&given);
  held.given = std::move(given);
  if (status == QKVET_OK && held.plan != nullptr) {
    held.self = kernel.self;
    held.table = kernel.plans;
    return true;
  }
  if (makes) held.plan = nullptr;
  if (status == QKVET_OK)
    reply->answer(CallStatus::kRefused, "plan() returned OK and no plan");
  else if (status == QKVET_UNSUPPORTED && kernel.refuses_in_call)
    answer_unsupported(reply, makes ? "plan" : "update", status, reason);
  else
    refuse(reply, refusal_of(status), makes ? "plan" : "update", status,
           reason);
  return false;
}

void Door::planned(const Kernel& kernel, const CallPlan& plan,
                   const qkvet_forward_args& args, qkvet_exec* exec, Held& held,
                   CallReply* reply) {
  if (!is_ready(kernel, args, exec, reply)) return;
  HeldPlan own;
  const bool stays = plan.plan_use != PlanUse::kNone;
  const auto slot = static_cast<size_t>(plan.plan_slot);
  HeldPlan& used = stays ? held.plans[slot] : own;
  if (plan.plan_use == PlanUse::kMake)
    for (size_t n = slot; n < (slot == 0 ? kMostPlans : slot + 1); ++n)
      destroy_plan(held.plans[n], reply);
  if (!find_plan(kernel, plan, args, *exec, used, reply)) return;
  const uint32_t dirty = reply->dirty_environment;
  const qkvet_forward_args data = without_numbers(args);
  {
    Reason reason(reply);
    const qkvet_status status = timed(Phase::kRun, reply, [&] {
      return awaited(kernel, kernel.plans.run(kernel.self, used.plan, &data,
                                              exec, reason.text()));
    });
    reply->dirty_environment |= dirty;
    if (status == QKVET_UNSUPPORTED && kernel.refuses_in_call)
      answer_unsupported(reply, "run", status, reason);
    else
      conclude(reply, refusal_of(status), "run", status, reason);
  }
  if (exec->workspace != nullptr) check_workspace(kernel, reply);
  if (!stays) destroy_plan(own, reply);
}

}  // namespace qkvet
