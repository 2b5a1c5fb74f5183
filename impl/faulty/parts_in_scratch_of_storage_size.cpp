// SPDX-License-Identifier: Apache-2.0
// faulty/parts_in_scratch_of_storage_size: scratch is as large as f16 or
// bf16 would need, and holds f32.
#include <cstddef>
#include <memory>
#include <new>

#include "impl/faulty/seams.h"

namespace qkvet::impl {
namespace {

// The memory goes where a kernel with a context has its context.
qkvet_status compute(const ForwardCall& call, qkvet_context* memory,
                     qkvet_text*) {
  auto* const scores = reinterpret_cast<float*>(memory);
  for (int64_t h = 0; h < call.heads * call.batch; ++h) {
    for (int64_t i = 0; i < call.queries; ++i) {
      SeamsKernel<PlainSeams>::row(call, h / call.heads, h % call.heads, i,
                                   scores);
    }
  }
  return QKVET_OK;
}

qkvet_status workspace(const qkvet_kernel*, qkvet_context*,
                       const qkvet_forward_args* args, size_t* bytes) {
  const size_t element = args->o.dtype.bits / 8;
  *bytes = static_cast<size_t>(args->k.shape[2]) * element;
  return QKVET_OK;
}

qkvet_status forward(const qkvet_kernel* self, qkvet_context*,
                     const qkvet_forward_args* args, const qkvet_exec* exec,
                     qkvet_text* why) {
  ForwardCall call;
  qkvet_status status = check_exec(exec, why);
  status = status == QKVET_OK ? read_forward(self, args, &call, why) : status;
  if (status != QKVET_OK) {
    return status;
  }
  // A caller that gives none gets what is enough.
  const std::unique_ptr<float[]> own(
      new (std::nothrow) float[static_cast<size_t>(call.keys)]);
  qkvet_exec known = {};
  if (exec != nullptr) {
    status = read_struct(exec, &known, why);
  }
  void* const memory = known.workspace != nullptr ? known.workspace : own.get();
  if (memory == nullptr) {
    return refuse(why, QKVET_OUT_OF_MEMORY, "no memory for the scores");
  }
  return status == QKVET_OK
             ? compute_in_f32(
                   call, {compute, static_cast<qkvet_context*>(memory)}, why)
             : status;
}

constexpr qkvet_kernel kernel_at(Place place, const qkvet_fault* fault) {
  qkvet_kernel kernel =
      plain_kernel("faulty/parts_in_scratch_of_storage_size", fault->mechanism,
                   place, &kSeamsPrecision, forward, &kCommonCapabilities);
  kernel.workspace = workspace;
  return with_fault(kernel, fault);
}

constexpr const char* kKilledBy[] = {"reads_only_its_inputs", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "the workspace is counted in elements of o and filled with f32",
    .symptom =
        "right for f32; with f16 and bf16 twice as much is written as was "
        "asked for",
    .cause =
        "one size of an element for what is returned and for what is summed",
    .fix = "size scratch by the type that it holds",
    .source = "vllm-project/vllm#45844",
    .trigger = "f16 or bf16",
    .killed_by = kKilledBy,
    .when = "dtype == f16 || dtype == bf16",
};

}  // namespace

extern constinit const qkvet_kernel faulty_parts_in_scratch_of_storage_size =
    kernel_at({"impl/faulty/parts_in_scratch_of_storage_size.cpp", __LINE__},
              &kFault) /*PartsInScratchOfStorageSize*/;

}  // namespace qkvet::impl
