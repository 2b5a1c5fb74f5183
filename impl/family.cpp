// SPDX-License-Identifier: Apache-2.0
// The entry of every family: one source, compiled into each module with the
// name of the family and the list of its kernels, which CMake generates.
// Loading the module runs no code; qkvet_open only returns pointers to
// constants.
#include <stddef.h>
#include <string.h>

#include "impl/call/forward_view.h"
#include "qkvet/kernel.h"
#ifdef QKVET_FAMILY_OF_FAULTS
#include "impl/faulty/fault.h"
#endif

#ifndef QKVET_FAMILY
#error "QKVET_FAMILY is the name of the family"
#endif

namespace qkvet::impl {

#ifdef QKVET_FAMILY_OF_FAULTS
using FamilyKernel = Fault;
#else
using FamilyKernel = qkvet_kernel;
#endif

#ifdef QKVET_FAMILY_KERNELS  // a file with one QKVET_KERNEL(symbol) a line
#define QKVET_KERNEL(symbol) extern const FamilyKernel symbol;
#include QKVET_FAMILY_KERNELS
#undef QKVET_KERNEL
#else
// A family without a file defines its list in code.
const qkvet_kernel* const* family_kernels(int32_t* count);
#endif

#ifdef QKVET_FAMILY_CONFIGURED
// Each family that takes a configuration defines this: false if it refuses this
// one; then the error lists those that are allowed.
bool configure_family(const char* config);
const char* family_configurations();
#endif

namespace {

#ifndef QKVET_FAMILY_CONFIGURED
bool configure_family(const char*) { return false; }
const char* family_configurations() {
  return "this library takes no configuration";
}
#endif

#ifdef QKVET_FAMILY_KERNELS
#define QKVET_KERNEL(symbol) &(symbol),
constinit const qkvet_kernel* const kKernels[] = {
#include QKVET_FAMILY_KERNELS
};
#undef QKVET_KERNEL

const qkvet_kernel* const* family_kernels(int32_t* count) {
  *count = sizeof(kKernels) / sizeof(kKernels[0]);
  return kKernels;
}
#endif

// The bytes of a host up to the end of its version.
constexpr size_t kHostVersionEnd =
    offsetof(qkvet_host, abi_major) + sizeof(uint32_t);

}  // namespace
}  // namespace qkvet::impl

extern "C" qkvet_status qkvet_open(const qkvet_host* host, const char* config,
                                   qkvet_library* out, qkvet_text* why) {
  using qkvet::impl::refuse;
  if (host == nullptr || host->struct_size < qkvet::impl::kHostVersionEnd) {
    return refuse(why, QKVET_INVALID_ARGUMENT, "the host gives no version");
  }
  if (host->abi_major != QKVET_ABI_MAJOR) {
    return refuse(why, QKVET_INVALID_ARGUMENT,
                  "this library speaks another major version of the ABI");
  }
  if (config != nullptr && config[0] != '\0' &&
      !qkvet::impl::configure_family(config)) {
    return refuse(why, QKVET_INVALID_ARGUMENT,
                  qkvet::impl::family_configurations());
  }
  if (out == nullptr ||
      out->struct_size < offsetof(qkvet_library, kernels) + sizeof(void*)) {
    return refuse(why, QKVET_INVALID_ARGUMENT,
                  "the library struct is too small for a list of kernels");
  }
  // The host sets the size of *out: write no byte past it.
  const size_t room = out->struct_size < sizeof(qkvet_library)
                          ? out->struct_size
                          : sizeof(qkvet_library);
  qkvet_library library = {
      .struct_size = room,
      .abi_major = QKVET_ABI_MAJOR,
      .abi_minor = QKVET_ABI_MINOR,
      .name = QKVET_FAMILY,
      .kernel_count = 0,
      .kernels = nullptr,
      .close = nullptr,
  };
  library.kernels = qkvet::impl::family_kernels(&library.kernel_count);
  memcpy(out, &library, room);
  return QKVET_OK;
}
