// SPDX-License-Identifier: Apache-2.0
// The host's half of the CUDA kernels: checks a call, makes it a DeviceCall,
// and reports the result of a launch. The family `cuda` takes tensors of a
// device, the family `simt` those of the CPU; the rest of the source is shared.
#ifndef QKVET_IMPL_CUDA_LAUNCH_H_
#define QKVET_IMPL_CUDA_LAUNCH_H_

#include "impl/call/declare.h"
#include "impl/call/serving_call.h"
#include "impl/cuda/device_call.h"
#include "impl/cuda/on_device.h"
#include "qkvet/kernel.h"

namespace qkvet::impl {

#if defined(__CUDACC__)
inline constexpr int32_t kDevice = QKVET_DEVICE_CUDA;
#else
inline constexpr int32_t kDevice = QKVET_DEVICE_CPU;
#endif

// nullptr, or why the tensor, if there is one, is not on this device. Changes
// its device to the CPU, because the common checks, which read only shapes,
// strides and types, support no other.
const char* tensor_on_cpu(qkvet_tensor* t);

// Converts a View or a Stored for a launch.
template <class Seen>
DeviceTensor device_tensor(const Seen& seen) {
  DeviceTensor t;
  t.data = const_cast<void*>(static_cast<const void*>(seen.data));
  for (int axis = 0; axis < 4; ++axis) {
    t.step[axis] = seen.step[axis];
  }
  return t;
}

// Whether a call may run on the device of `exec`.
qkvet_status check_device(const qkvet_exec* exec, qkvet_text* why);

// The first part of the next two functions: shapes, strides and types.
qkvet_status read_served_call(const qkvet_kernel* self,
                              const qkvet_forward_args* args, int most,
                              ServingCall* serving, qkvet_text* why);

// Fills *call and *type, or refuses with a reason. Refuses widths above `most`
// and more rows than a grid has room for. Reads no data.
qkvet_status read_device_call(const qkvet_kernel* self,
                              const qkvet_forward_args* args, int most,
                              DeviceCall* call, Storage* type, qkvet_text* why);

// The same before a launch: also checks that `exec` is of this device and,
// where the data can be read, that lengths and tables are within the call.
qkvet_status begin_device_call(const qkvet_kernel* self,
                               const qkvet_forward_args* args,
                               const qkvet_exec* exec, int most,
                               DeviceCall* call, Storage* type,
                               qkvet_text* why);

// The supports() of these kernels, for heads of at most kMost.
template <int kMost>
qkvet_status supports_device(const qkvet_kernel* self,
                             const qkvet_forward_args* args, qkvet_text* why) {
  DeviceCall call;
  Storage type;
  return read_device_call(self, args, kMost, &call, &type, why);
}

constexpr qkvet_kernel device_kernel(
    const char* name, const char* description, Place place,
    const qkvet_precision* precision, ForwardFunction forward,
    const qkvet_capabilities* capabilities,
    qkvet_status (*supports)(const qkvet_kernel*, const qkvet_forward_args*,
                             qkvet_text*)) {
  qkvet_kernel kernel =
      plain_kernel(name, description, place, precision, forward, capabilities);
  kernel.supports = supports;
  kernel.open = open_device;
  kernel.close = close_device;
  return kernel;
}

// Heads of up to `most`, on the device of this family.
constexpr qkvet_capabilities device_capabilities(
    uint64_t options, std::initializer_list<qkvet_dtype> types, int64_t most) {
  qkvet_capabilities c = capabilities_with(options, types);
  c.flags = kOwnClaims | QKVET_FLAG_GPU_THREADS;
  // A launch uses only its arguments. On the emulator, concurrent launches wait
  // for each other; on a device no law makes concurrent calls, and what no law
  // tests is not claimed.
  if (kDevice == QKVET_DEVICE_CPU) c.flags |= QKVET_FLAG_REENTRANT;
  c.devices = uint64_t{1} << kDevice;
  c.d.max = c.dv.max = most;
  return c;
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CUDA_LAUNCH_H_
