// SPDX-License-Identifier: Apache-2.0
// A CUDA driver without a device, for tests: its memory is the host's, closed
// to everybody while neither a copy nor a kernel is at work, and kernels run
// when somebody waits for them, not when they are launched. Variants lack a
// device (QKVET_FAKE_NONE, QKVET_FAKE_NO_INIT) or a function (QKVET_FAKE_OLD).
#include "core/testdata/fake_cuda.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

namespace {

constexpr int kSuccess = 0;
constexpr int kInvalidValue = 1;
constexpr int kOutOfMemory = 2;
constexpr int kNoDevice = 100;
constexpr int kInvalidContext = 201;
constexpr int kIllegalAddress = 700;

constexpr size_t kPage = 4096;
constexpr size_t kAlignment = 512;  // what a real driver grants, and no more
constexpr size_t kMemory = size_t{64} << 20;

struct Allocation {
  char* mapping;
  size_t mapped;
  size_t bytes;
};

struct Work {
  fake_kernel body;
  std::vector<char> data;
};

struct Device {
  std::map<uint64_t, Allocation> memory;  // by the address that was given
  size_t used = 0;
  std::map<void*, std::vector<Work>> streams;
  int error = kSuccess;  // sticky
  int context = 0;
  char stream = 0;  // its address is a stream
};

Device& device() {
  static Device device;
  return device;
}

thread_local const void* t_context = nullptr;

class Open {
 public:
  Open() { protect(PROT_READ | PROT_WRITE); }
  ~Open() { protect(PROT_NONE); }

 private:
  static void protect(int access) {
    for (const auto& [address, one] : device().memory)
      mprotect(one.mapping, one.mapped, access);
  }
};

// The error that every function returns before it does anything.
int state() {
  if (device().error != kSuccess) return device().error;
  return t_context == &device().context ? kSuccess : kInvalidContext;
}

int run(std::vector<Work>& works) {
  std::vector<Work> now;
  now.swap(works);
  const Open open;
  for (Work& work : now)
    if (device().error == kSuccess) work.body(work.data.data());
  return device().error;
}

// A copy waits for the default stream and for no other.
int begin_copy() {
  const int bad = state();
  return bad != kSuccess ? bad : run(device().streams[nullptr]);
}

int copy(void* to, const void* from, size_t bytes) {
  const int bad = begin_copy();
  if (bad != kSuccess) return bad;
  const Open open;
  std::memmove(to, from, bytes);
  return kSuccess;
}

void* pointer(uint64_t address) { return reinterpret_cast<void*>(address); }

bool owns(uint64_t address, size_t bytes) {
  return fakeOwns(pointer(address), bytes) != 0;
}

const char* name_of(int error) {
  switch (error) {
    case kInvalidValue:
      return "CUDA_ERROR_INVALID_VALUE";
    case kOutOfMemory:
      return "CUDA_ERROR_OUT_OF_MEMORY";
    case kNoDevice:
      return "CUDA_ERROR_NO_DEVICE";
    case kInvalidContext:
      return "CUDA_ERROR_INVALID_CONTEXT";
    case kIllegalAddress:
      return "CUDA_ERROR_ILLEGAL_ADDRESS";
    default:
      return nullptr;
  }
}

}  // namespace

#define QKVET_FAKE extern "C" __attribute__((visibility("default")))

QKVET_FAKE int fakeLaunch(void* stream, fake_kernel body, const void* data,
                          size_t bytes) {
  const auto* from = static_cast<const char*>(data);
  if (state() == kSuccess)
    device().streams[stream].push_back({body, {from, from + bytes}});
  return state();
}

QKVET_FAKE void fakeFail(int error) { device().error = error; }

QKVET_FAKE int fakeOwns(const void* memory, size_t bytes) {
  const auto address = reinterpret_cast<uint64_t>(memory);
  auto next = device().memory.upper_bound(address);
  if (next == device().memory.begin()) return 0;
  const auto& [begin, one] = *--next;
  return address - begin + bytes <= one.bytes;
}

QKVET_FAKE int cuInit(unsigned) {
#if defined(QKVET_FAKE_NO_INIT)
  return kNoDevice;
#else
  return kSuccess;
#endif
}

QKVET_FAKE int cuDeviceGetCount(int* count) {
#if defined(QKVET_FAKE_NONE)
  *count = 0;
#else
  *count = 1;
#endif
  return kSuccess;
}

QKVET_FAKE int cuDeviceGet(int* number, int ordinal) {
  *number = ordinal;
  return ordinal == 0 ? kSuccess : kInvalidValue;
}

QKVET_FAKE int cuDevicePrimaryCtxRetain(void** context, int) {
  *context = &device().context;
  return kSuccess;
}

QKVET_FAKE int cuDevicePrimaryCtxRelease_v2(int) { return kSuccess; }

QKVET_FAKE int cuCtxSetCurrent(void* context) {
  t_context = context;
  return kSuccess;
}

QKVET_FAKE int cuCtxSynchronize() {
  int bad = state();
  for (auto& [stream, works] : device().streams)
    if (bad == kSuccess) bad = run(works);
  return bad;
}

QKVET_FAKE int cuMemAlloc_v2(uint64_t* memory, size_t bytes) {
  const int bad = state();
  if (bad != kSuccess) return bad;
  if (bytes == 0) return kInvalidValue;
  if (bytes > kMemory - device().used) return kOutOfMemory;
  const size_t mapped = (kAlignment + bytes + kPage - 1) / kPage * kPage;
  void* mapping =
      mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return kOutOfMemory;
  *memory = reinterpret_cast<uint64_t>(mapping) + kAlignment;
  device().memory[*memory] = {static_cast<char*>(mapping), mapped, bytes};
  device().used += bytes;
  return kSuccess;
}

QKVET_FAKE int cuMemFree_v2(uint64_t memory) {
  const int bad = state();
  if (bad != kSuccess) return bad;
  const auto found = device().memory.find(memory);
  if (found == device().memory.end()) return kInvalidValue;
  munmap(found->second.mapping, found->second.mapped);
  device().used -= found->second.bytes;
  device().memory.erase(found);
  return kSuccess;
}

QKVET_FAKE int cuMemcpyHtoD_v2(uint64_t to, const void* from, size_t bytes) {
  if (!owns(to, bytes) || owns(reinterpret_cast<uint64_t>(from), 1))
    return kInvalidValue;
  return copy(pointer(to), from, bytes);
}

QKVET_FAKE int cuMemcpyDtoH_v2(void* to, uint64_t from, size_t bytes) {
  if (!owns(from, bytes) || owns(reinterpret_cast<uint64_t>(to), 1))
    return kInvalidValue;
  return copy(to, pointer(from), bytes);
}

// A driver that is as old as that lacks the name that programs look for.
#if defined(QKVET_FAKE_OLD)
QKVET_FAKE int cuMemcpyOld(uint64_t to, uint64_t from, size_t bytes) {
#else
QKVET_FAKE int cuMemcpy(uint64_t to, uint64_t from, size_t bytes) {
#endif
  return copy(pointer(to), pointer(from), bytes);
}

QKVET_FAKE int cuMemsetD8_v2(uint64_t to, unsigned char value, size_t count) {
  if (!owns(to, count)) return kInvalidValue;
  const int bad = begin_copy();
  if (bad != kSuccess) return bad;
  const Open open;
  std::memset(pointer(to), value, count);
  return kSuccess;
}

QKVET_FAKE int cuMemsetD16_v2(uint64_t to, unsigned short value, size_t count) {
  if (!owns(to, 2 * count)) return kInvalidValue;
  const int bad = begin_copy();
  if (bad != kSuccess) return bad;
  const Open open;
  auto* units = static_cast<unsigned short*>(pointer(to));
  for (size_t i = 0; i < count; ++i) units[i] = value;
  return kSuccess;
}

QKVET_FAKE int cuStreamCreate(void** stream, unsigned) {
  *stream = &device().stream;
  return state();
}

QKVET_FAKE int cuStreamDestroy_v2(void*) { return state(); }

QKVET_FAKE int cuGetErrorName(int error, const char** text) {
  *text = name_of(error);
  return *text == nullptr ? kInvalidValue : kSuccess;
}

QKVET_FAKE int cuGetErrorString(int error, const char** text) {
  *text = error == kIllegalAddress ? "an illegal memory access was encountered"
                                   : nullptr;
  return *text == nullptr ? kInvalidValue : kSuccess;
}
