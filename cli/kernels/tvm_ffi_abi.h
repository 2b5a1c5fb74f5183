// SPDX-License-Identifier: Apache-2.0
// The part of the calling convention of tvm-ffi 0.1 that a caller needs (Apache
// TVM FFI, tvm/ffi/c_api.h): an argument is 16 bytes that begin with the number
// of its type, a function takes an array of them, and an error is an object
// that the runtime keeps for the thread.
#ifndef QKVET_CLI_KERNELS_TVM_FFI_ABI_H_
#define QKVET_CLI_KERNELS_TVM_FFI_ABI_H_

#include <cstddef>
#include <cstdint>

namespace qkvet::cli::tvm_ffi {

inline constexpr uint32_t kMajor = 0, kMinor = 1;
struct Version {
  uint32_t major, minor, patch;
};

enum TypeIndex : int32_t {
  kNone = 0,
  kInt = 1,
  kBool = 2,
  kFloat = 3,
  kDLTensorPtr = 7,
  kRawString = 8,
  kFirstObject = 64
};

struct Any {
  int32_t type;
  uint32_t zero;
  union {
    int64_t as_int;
    double as_float;
    void* as_pointer;
    const char* as_string;
  };
};
static_assert(sizeof(Any) == 16);

// Exported as "__tvm_ffi_" and its name. Nonzero: an error waits in the
// runtime.
using Function = int (*)(void* self, const Any* arguments, int32_t count,
                         Any* result);

struct Bytes {
  const char* data;
  size_t size;
};
// An error, after the header of all objects.
struct Error {
  uint64_t references;
  int32_t type;
  uint32_t zero;
  void* deleter;
  Bytes kind, message;
};
static_assert(offsetof(Error, kind) == 24);

// Functions of the runtime: TVMFFIGetVersion, TVMFFIErrorMoveFromRaised,
// TVMFFIObjectDecRef, TVMFFIEnvSetStream.
using GetVersion = void (*)(Version*);
using TakeError = void (*)(void** error);
using DropObject = int (*)(void* object);
using SetStream = int (*)(int32_t device_type, int32_t device_id, void* stream,
                          void** before);

}  // namespace qkvet::cli::tvm_ffi

#endif  // QKVET_CLI_KERNELS_TVM_FFI_ABI_H_
