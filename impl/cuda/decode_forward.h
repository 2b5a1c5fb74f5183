// SPDX-License-Identifier: Apache-2.0
// The forward() of cuda/decode and of the faults derived from it: stores new
// tokens, and attends in the same parts for all members.
#ifndef QKVET_IMPL_CUDA_DECODE_FORWARD_H_
#define QKVET_IMPL_CUDA_DECODE_FORWARD_H_

#include "impl/cuda/decode_skeleton.h"
#include "impl/skeletons/serving_skeleton.h"

namespace qkvet::impl {

// Stores tokens held, held + 1, ... of every member, a block a token.
template <class T>
__global__ void store_new_tokens(DeviceCall call) {
  const int n = blockIdx.x, b = blockIdx.y / call.kv_heads;
  const int kv = blockIdx.y % call.kv_heads, j = call.held_by(b) + n;
  for (int c = threadIdx.x; c < call.width; c += kBlockThreads) {
    call.token<T>(call.k, b, kv, j)[call.k.channel(c)] =
        call.k_new.at<const T>(b, kv, n)[c * call.k_new.step[3]];
  }
  for (int c = threadIdx.x; c < call.value_width; c += kBlockThreads) {
    call.token<T>(call.v, b, kv, j)[c * call.v.step[3]] =
        call.v_new.at<const T>(b, kv, n)[c * call.v_new.step[3]];
  }
}

template <class T>
qkvet_status store_new(const DeviceCall& call, const qkvet_exec* exec,
                       qkvet_text* why) {
  if (call.new_tokens == 0 || call.batch == 0) {
    return QKVET_OK;
  }
  const auto kernel = store_new_tokens<T>;
  QKVET_TRY(
      prepare_launch(reinterpret_cast<const void*>(kernel), 0, call, why));
  const dim3 grid(call.new_tokens, call.batch * call.kv_heads);
  return end_launch(
      SIMT_LAUNCH(kernel, grid, kBlockThreads, 0, exec->stream, call), why);
}

template <class Hooks, class T>
qkvet_status serve(const DeviceCall& call, const qkvet_exec* exec,
                   qkvet_text* why) {
  QKVET_TRY(store_new<T>(call, exec, why));
  if (call.batch * call.heads * call.queries == 0) {
    return QKVET_OK;
  }
  DecodeParts parts = even_parts(call);
  parts.results = static_cast<float*>(exec->workspace);
  const dim3 grid(parts.count, call.batch * call.kv_heads, parts.row_blocks);
  return launch_decode<Hooks, T>(call, parts, grid, exec, why);
}

inline qkvet_status decode_workspace(const qkvet_kernel* self, qkvet_context*,
                                     const qkvet_forward_args* args,
                                     size_t* bytes) {
  DeviceCall call;
  Storage type;
  const qkvet_status status =
      read_device_call(self, args, kDecodeMostWidth, &call, &type, nullptr);
  *bytes =
      status == QKVET_OK ? bytes_of_results(call, even_parts(call)) : size_t{0};
  return status;
}

template <class Hooks>
qkvet_status decode_forward(const qkvet_kernel* self, qkvet_context*,
                            const qkvet_forward_args* args,
                            const qkvet_exec* exec, qkvet_text* why) {
  DeviceCall call;
  Storage type;
  QKVET_TRY(
      begin_device_call(self, args, exec, kDecodeMostWidth, &call, &type, why));
  if (exec->workspace_size < bytes_of_results(call, even_parts(call))) {
    return refuse(why, QKVET_INVALID_ARGUMENT,
                  "the workspace is smaller than was asked for");
  }
  return type == Storage::kF32   ? serve<Hooks, float>(call, exec, why)
         : type == Storage::kF16 ? serve<Hooks, F16>(call, exec, why)
                                 : serve<Hooks, Bf16>(call, exec, why);
}

inline constexpr uint64_t kDecodeOptions =
    kDeviceOptions | kServingOptions | kListOptions |
    QKVET_OPTION_PACKED_PAGES | QKVET_OPTION_PAGED_CSR |
    QKVET_OPTION_PAGED_CHANNEL_GROUPS;

template <class Hooks>
constexpr qkvet_kernel decode_kernel(const char* name, const char* description,
                                     Place place,
                                     const qkvet_capabilities* capabilities) {
  qkvet_kernel kernel = device_kernel(
      name, description, place, &kDecodePrecision, decode_forward<Hooks>,
      capabilities, supports_device<kDecodeMostWidth>);
  kernel.workspace = decode_workspace;
  return kernel;
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CUDA_DECODE_FORWARD_H_
