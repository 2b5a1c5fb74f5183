// SPDX-License-Identifier: Apache-2.0
#include "core/abi_call.h"

#include <algorithm>
#include <cstdio>

namespace qkvet {
namespace {

void log_line(void*, const char* line) {
  if (line != nullptr) std::fprintf(stderr, "%s\n", line);
}

void serial_for(void*, int64_t count, void (*body)(void* data, int64_t i),
                void* data) {
  for (int64_t i = 0; i < count; ++i) body(data, i);
}

qkvet_host make_host() {
  qkvet_host host{};
  host.struct_size = sizeof host;
  host.abi_major = QKVET_ABI_MAJOR;
  host.abi_minor = QKVET_ABI_MINOR;
  host.log = log_line;
  host.parallel_for = serial_for;
  return host;
}

int32_t causal_to_abi(Causal causal) {
  switch (causal) {
    case Causal::kTopLeft:
      return QKVET_CAUSAL_TOP_LEFT;
    case Causal::kBottomRight:
      return QKVET_CAUSAL_BOTTOM_RIGHT;
    default:
      return QKVET_CAUSAL_NONE;
  }
}

}  // namespace

AbiCall::AbiCall(const CallPlan& plan, const TensorAddresses& addresses) {
  args_.struct_size = sizeof args_;
  qkvet_tensor* const tensors[kTensorCount] = {
      &args_.q, &args_.k, &args_.v, &args_.o, &args_.lse, &args_.weights};
  for (int t = 0; t < kTensorCount; ++t)
    if (plan.tensors[t].present())
      *tensors[t] = tensor(plan.tensors[t], addresses[t], t);
  args_.causal = causal_to_abi(plan.causal);
  args_.scale_given = plan.scale_given ? 1 : 0;
  args_.scale = plan.scale;
}

qkvet_tensor AbiCall::tensor(const TensorSpec& spec, std::byte* data,
                             int number) {
  std::copy_n(spec.shape.begin(), 4, shapes_[number]);
  std::copy_n(spec.strides.begin(), 4, strides_[number]);
  qkvet_tensor tensor{};
  tensor.data = data;
  tensor.device_type = QKVET_DEVICE_CPU;
  tensor.ndim = spec.ndim;
  tensor.dtype = dtype_to_abi(spec.dtype);
  tensor.shape = shapes_[number];
  tensor.strides = strides_[number];
  return tensor;
}

qkvet_exec plain_exec() {
  qkvet_exec exec{};
  exec.struct_size = sizeof exec;
  exec.device_type = QKVET_DEVICE_CPU;
  exec.threads = 1;
  return exec;
}

const qkvet_host& host_table() {
  static const qkvet_host host = make_host();
  return host;
}

std::string status_name(qkvet_status status) {
  switch (status) {
    case QKVET_OK:
      return "OK";
    case QKVET_UNSUPPORTED:
      return "UNSUPPORTED";
    case QKVET_UNAVAILABLE:
      return "UNAVAILABLE";
    case QKVET_INVALID_ARGUMENT:
      return "INVALID_ARGUMENT";
    case QKVET_OUT_OF_MEMORY:
      return "OUT_OF_MEMORY";
    case QKVET_INTERNAL:
      return "INTERNAL";
    default:
      return "status " + std::to_string(status);
  }
}

}  // namespace qkvet
