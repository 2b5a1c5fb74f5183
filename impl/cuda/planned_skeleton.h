// SPDX-License-Identifier: Apache-2.0
// Plans (qkvet/plan.h) over the arithmetic of decode_skeleton.h, in the way of
// Ye et al., "FlashInfer" (2025), 3.3: the host reads the lengths, cuts the
// keys of all members into items of about as many tiles, and copies the items,
// with the lengths and tables, into memory of the device that belongs to the
// plan. A run reads only that memory, and its grid is that of the largest
// batch: blocks without an item end at once. So a run can be captured, and the
// captured launches read what update() writes.
//
// Contract: that of plan.h. Memory moves only when a table is longer than all
// before. Cost: plan() and update() wait for the stream; a run has as many
// blocks as the largest batch has items.
#ifndef QKVET_IMPL_CUDA_PLANNED_SKELETON_H_
#define QKVET_IMPL_CUDA_PLANNED_SKELETON_H_

#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "impl/cuda/planned_batch.h"

namespace qkvet::impl {

// The hook that a fault replaces.
struct DevicePlanHooks {
  // How update() changes a batch; `before` is that of the plan.
  static void renew(const PlannedBatch& /*before*/, PlannedBatch* /*next*/) {}
};

// The call with the lengths and tables of the plan.
inline qkvet_forward_args with_tables(const DevicePlan& plan,
                                      const qkvet_forward_args& args) {
  qkvet_forward_args whole = plan.batch.numbers.with(args);
  for (size_t n = 0; n < std::size(kBatchTables); ++n) {
    qkvet_tensor& table = whole.*kBatchTables[n];
    if (table.ndim > 0) {
      table.data = plan.memory.data() + plan.tables[n];
      table.device_type = kDevice;
    }
  }
  return whole;
}

// A workspace has room for the results of any batch.
inline DecodeParts planned_parts(const DeviceCall& call) {
  return decode_parts(call, kDecodeMostParts);
}

inline qkvet_status planned_workspace(const qkvet_kernel* self, qkvet_context*,
                                      const qkvet_forward_args* args,
                                      size_t* bytes) {
  DeviceCall call;
  Storage type;
  const qkvet_status status =
      read_device_call(self, args, kDecodeMostWidth, &call, &type, nullptr);
  *bytes = status == QKVET_OK ? bytes_of_results(call, planned_parts(call))
                              : size_t{0};
  return status;
}

template <class Hooks>
struct DevicePlans {
  static DevicePlan* of(qkvet_plan* plan) {
    return reinterpret_cast<DevicePlan*>(plan);
  }

  static qkvet_status plan(const qkvet_kernel* self, qkvet_context*,
                           const qkvet_forward_args* args,
                           const qkvet_exec* exec, qkvet_plan** plan,
                           qkvet_text* why) try {
    qkvet_forward_args known = {};
    QKVET_TRY(check_device(exec, why));
    QKVET_TRY(read_struct(args, &known, why));
    std::unique_ptr<DevicePlan> made(new DevicePlan(known));
    PlannedBatch batch;
    QKVET_TRY(read_batch(self, known, exec->stream, &batch, why));
    QKVET_TRY(upload(std::move(batch), exec->stream, made.get(), why));
    *plan = reinterpret_cast<qkvet_plan*>(made.release());
    return QKVET_OK;
  } catch (const std::bad_alloc&) {
    return refuse(why, QKVET_OUT_OF_MEMORY, "no memory for a plan");
  }

  static qkvet_status update(const qkvet_kernel* self, qkvet_plan* plan,
                             const qkvet_forward_args* args,
                             const qkvet_exec* exec, qkvet_text* why) try {
    qkvet_forward_args known = {};
    QKVET_TRY(check_device(exec, why));
    QKVET_TRY(read_struct(args, &known, why));
    if (const char* wrong = of(plan)->made_for.differs(known)) {
      return refuse(why, QKVET_INVALID_ARGUMENT, wrong);
    }
    PlannedBatch next;
    QKVET_TRY(read_batch(self, known, exec->stream, &next, why));
    Hooks::renew(of(plan)->batch, &next);
    return upload(std::move(next), exec->stream, of(plan), why);
  } catch (const std::bad_alloc&) {
    return refuse(why, QKVET_OUT_OF_MEMORY, "no memory for a plan");
  }

  static qkvet_status run(const qkvet_kernel* self, qkvet_plan* plan,
                          const qkvet_forward_args* args,
                          const qkvet_exec* exec, qkvet_text* why) {
    qkvet_forward_args known = {};
    QKVET_TRY(read_struct(args, &known, why));
    const DevicePlan& made = *of(plan);
    if (const char* wrong = made.made_for.differs(known)) {
      return refuse(why, QKVET_INVALID_ARGUMENT, wrong);
    }
    const qkvet_forward_args whole = with_tables(made, known);
    DeviceCall call;
    Storage type;
    QKVET_TRY(begin_device_call(self, &whole, exec, kDecodeMostWidth, &call,
                                &type, why));
    if (call.batch * call.heads * call.queries == 0) {
      return QKVET_OK;
    }
    DecodeParts parts = planned_parts(call);
    if (exec->workspace_size < bytes_of_results(call, parts)) {
      return refuse(why, QKVET_INVALID_ARGUMENT,
                    "the workspace is smaller than was asked for");
    }
    parts.results = static_cast<float*>(exec->workspace);
    parts.schedule = {
        reinterpret_cast<const DecodeItem*>(made.memory.data() + made.items),
        reinterpret_cast<const int*>(made.memory.data())};
    const auto blocks = static_cast<unsigned>(made.batch.room);
    const dim3 grid(blocks, call.kv_heads);
    using Decode = DecodeHooks;
    return type == Storage::kF32
               ? launch_decode<Decode, float>(call, parts, grid, exec, why)
           : type == Storage::kF16
               ? launch_decode<Decode, F16>(call, parts, grid, exec, why)
               : launch_decode<Decode, Bf16>(call, parts, grid, exec, why);
  }

  static void destroy(const qkvet_kernel*, qkvet_plan* plan) {
    delete of(plan);
  }

  static constexpr qkvet_plan_table kTable = {sizeof(qkvet_plan_table),
                                              QKVET_PLAN_UPDATE_INVARIANT,
                                              plan,
                                              run,
                                              update,
                                              destroy};

  static const void* extension(const qkvet_kernel*, const char* id) {
    return std::strcmp(id, QKVET_EXTENSION_PLAN) == 0 ? &kTable : nullptr;
  }
};

// Only plans; no forward() without one, no new tokens.
inline constexpr uint64_t kDevicePlanOptions =
    kDeviceOptions | kListOptions | QKVET_OPTION_PAGED |
    QKVET_OPTION_PACKED_PAGES | QKVET_OPTION_PAGED_CSR |
    QKVET_OPTION_PAGED_CHANNEL_GROUPS;

template <class Hooks>
constexpr qkvet_kernel device_planned_kernel(
    const char* name, const char* description, Place place,
    const qkvet_capabilities* capabilities) {
  qkvet_kernel kernel =
      device_kernel(name, description, place, &kDecodePrecision, nullptr,
                    capabilities, supports_device<kDecodeMostWidth>);
  kernel.workspace = planned_workspace;
  kernel.get_extension = DevicePlans<Hooks>::extension;
  return kernel;
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CUDA_PLANNED_SKELETON_H_
