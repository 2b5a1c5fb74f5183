// SPDX-License-Identifier: Apache-2.0
// An NVIDIA device. The CUDA runtime is linked statically and finds the driver
// by itself, so this module loads on machines without one.
#include <cuda_runtime.h>

#include <cstdio>

#include "impl/call/tensor_view.h"
#include "impl/cuda/device_call.h"
#include "impl/cuda/on_device.h"

namespace qkvet::impl {
namespace {

constexpr size_t kSharedPlain = 48 << 10;  // bytes, without asking

qkvet_status refuse_with(qkvet_text* why, qkvet_status status, const char* what,
                         cudaError_t error) {
  char text[256];
  std::snprintf(text, sizeof(text), "%s: %s", what, cudaGetErrorString(error));
  return refuse(why, status, text);
}

}  // namespace

qkvet_status open_device(const qkvet_kernel*, const qkvet_exec* exec,
                         qkvet_context** context, qkvet_text* why) {
  *context = nullptr;
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error != cudaSuccess || devices == 0) {
    return refuse_with(why, QKVET_UNAVAILABLE, "no CUDA device",
                       error == cudaSuccess ? cudaErrorNoDevice : error);
  }
  const int device = exec == nullptr ? 0 : exec->device_id;
  const cudaError_t chosen = cudaSetDevice(device);
  if (chosen != cudaSuccess) {
    return refuse_with(why, QKVET_UNAVAILABLE, "cudaSetDevice", chosen);
  }
  return QKVET_OK;
}

void close_device(const qkvet_kernel*, qkvet_context*) {}

size_t most_shared_bytes() {
  constexpr size_t kUnknown = 227 << 10;
  int bytes = 0;
  if (cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin,
                             0) != cudaSuccess) {
    cudaGetLastError();
    return kUnknown;
  }
  return static_cast<size_t>(bytes);
}

qkvet_status prepare_launch(const void* kernel, size_t shared_bytes,
                            const DeviceCall&, qkvet_text* why) {
  if (shared_bytes <= kSharedPlain) {
    return QKVET_OK;
  }
  const cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(shared_bytes));
  if (error != cudaSuccess) {
    cudaGetLastError();
    return refuse_with(why, QKVET_INTERNAL, "shared memory of a block", error);
  }
  return QKVET_OK;
}

qkvet_status end_launch(bool, qkvet_text* why) {
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess
             ? QKVET_OK
             : refuse_with(why, QKVET_INTERNAL, "the launch", error);
}

qkvet_status device_alloc(size_t bytes, void** memory, qkvet_text* why) {
  const cudaError_t error = cudaMalloc(memory, bytes);
  if (error != cudaSuccess) {
    cudaGetLastError();
    return refuse_with(why, QKVET_OUT_OF_MEMORY, "cudaMalloc", error);
  }
  return QKVET_OK;
}

void device_free(void* memory) { cudaFree(memory); }

// From pageable memory: staged before the call returns.
qkvet_status copy_to_device(void* to, const void* from, size_t bytes,
                            void* stream, qkvet_text* why) {
  const cudaError_t error =
      cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice,
                      static_cast<cudaStream_t>(stream));
  return error == cudaSuccess
             ? QKVET_OK
             : refuse_with(why, QKVET_INTERNAL, "a copy to the device", error);
}

qkvet_status copy_from_device(void* to, const void* from, size_t bytes,
                              void* stream, qkvet_text* why) {
  const auto queue = static_cast<cudaStream_t>(stream);
  cudaError_t error =
      cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, queue);
  error = error == cudaSuccess ? cudaStreamSynchronize(queue) : error;
  return error == cudaSuccess ? QKVET_OK
                              : refuse_with(why, QKVET_INTERNAL,
                                            "a copy from the device", error);
}

}  // namespace qkvet::impl
