// SPDX-License-Identifier: Apache-2.0
// Differences between a GPU and the emulator outside of kernels: the presence
// of a device, its memory, and the errors of a launch.
#ifndef QKVET_IMPL_CUDA_ON_DEVICE_H_
#define QKVET_IMPL_CUDA_ON_DEVICE_H_

#include <cstddef>
#include <cstdint>

#include "qkvet/kernel.h"

namespace qkvet::impl {

struct DeviceCall;

// UNAVAILABLE with the reason if there is no device.
qkvet_status open_device(const qkvet_kernel* self, const qkvet_exec* exec,
                         qkvet_context** context, qkvet_text* why);
void close_device(const qkvet_kernel* self, qkvet_context* context);

// Dynamic shared memory that a block can have; as on sm_90 without a device.
size_t most_shared_bytes();

// Before a kernel is launched with that many bytes of dynamic shared memory:
// requests more than the plain 48 KiB and, on the emulator, sets an order of
// threads that depends on the shape of the call.
qkvet_status prepare_launch(const void* kernel, size_t shared_bytes,
                            const DeviceCall& call, qkvet_text* why);

// After a launch: the errors that are known immediately.
qkvet_status end_launch(bool launched, qkvet_text* why);

// Memory of the device.
qkvet_status device_alloc(size_t bytes, void** memory, qkvet_text* why);
void device_free(void* memory);

// In the order of the stream. When the function has returned, the source of a
// copy to the device may change, and a copy from it is complete.
qkvet_status copy_to_device(void* to, const void* from, size_t bytes,
                            void* stream, qkvet_text* why);
qkvet_status copy_from_device(void* to, const void* from, size_t bytes,
                              void* stream, qkvet_text* why);

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CUDA_ON_DEVICE_H_
