// SPDX-License-Identifier: Apache-2.0
#include "core/door/host.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "core/door/device_driver.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define QKVET_HAS_ASAN
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(QKVET_HAS_ASAN)
// Since LLVM 15 AddressSanitizer maps and unmaps a second stack for each fiber:
// emulated kernels take twenty times as long, and limits of hangs end them.
extern "C" __attribute__((visibility("default"))) const char*
__asan_default_options() {  // NOLINT(bugprone-reserved-identifier)
  return "detect_stack_use_after_return=0";
}
#endif

namespace qkvet {
namespace {

// How much device memory a library may hold: as a worker's own, so that one
// that leaks comes to an end of it.
constexpr size_t kMostHeld = size_t{4} << 30;

void log_line(void*, const char* line) {
  if (line != nullptr) std::fprintf(stderr, "%s\n", line);
}

void log_failure(const char* function, const std::string& why) {
  log_line(nullptr, (std::string(function) + ": " + why).c_str());
}

// Null where there is no such device, with *status; the reason is logged.
DeviceDriver* driver_of(const char* function, int32_t device_type,
                        int32_t device_id, qkvet_status* status) {
  *status = QKVET_UNSUPPORTED;
  if (device_type != QKVET_DEVICE_CUDA || device_id != 0) {
    log_failure(function, "device " + std::to_string(device_type) + ":" +
                              std::to_string(device_id) +
                              " is not offered, only 2:0 (CUDA)");
    return nullptr;
  }
  std::string why;
  DeviceDriver* const driver = DeviceDriver::of_process(&why);
  *status = driver == nullptr ? QKVET_UNAVAILABLE : QKVET_OK;
  if (driver == nullptr) log_failure(function, why);
  return driver;
}

// The status for an answer of the driver.
qkvet_status status_of(const char* function, const std::string& bad) {
  if (bad.empty()) return QKVET_OK;
  log_failure(function, bad);
  return QKVET_INTERNAL;
}

}  // namespace

Host::Host() {
  table_.struct_size = sizeof table_;
  table_.abi_major = QKVET_ABI_MAJOR;
  table_.abi_minor = QKVET_ABI_MINOR;
  table_.self = this;
  table_.log = log_line;
  table_.parallel_for = parallel_for;
  table_.device_alloc = device_alloc;
  table_.device_free = device_free;
  table_.device_copy = device_copy;
  table_.device_fill = device_fill;
  table_.device_sync = device_sync;
}

void* Host::device_alloc(void* self, int32_t device_type, int32_t device_id,
                         size_t bytes) {
  constexpr char kName[] = "device_alloc";
  auto* const host = static_cast<Host*>(self);
  qkvet_status status = QKVET_OK;
  DeviceDriver* const driver =
      driver_of(kName, device_type, device_id, &status);
  if (driver == nullptr) return nullptr;
  const std::lock_guard<std::mutex> lock(host->mutex_);
  if (bytes > kMostHeld - host->held_bytes_) {
    log_failure(kName, "more than 4 GiB would be held");
    return nullptr;
  }
  std::byte* memory = nullptr;
  status_of(kName, driver->allocate(static_cast<int64_t>(bytes), &memory));
  if (memory == nullptr) return nullptr;
  host->held_[memory] = bytes;
  host->held_bytes_ += bytes;
  return memory;
}

void Host::device_free(void* self, int32_t device_type, int32_t device_id,
                       void* memory) {
  constexpr char kName[] = "device_free";
  auto* const host = static_cast<Host*>(self);
  qkvet_status status = QKVET_OK;
  if (memory == nullptr) return;
  DeviceDriver* const driver =
      driver_of(kName, device_type, device_id, &status);
  if (driver == nullptr) return;
  const std::lock_guard<std::mutex> lock(host->mutex_);
  const auto found = host->held_.find(memory);
  if (found == host->held_.end())
    return log_failure(kName, "device_alloc() did not give this memory");
  host->held_bytes_ -= found->second;
  host->held_.erase(found);
  status_of(kName, driver->free(static_cast<std::byte*>(memory)));
}

qkvet_status Host::device_copy(void*, void* to, const void* from,
                               size_t bytes) {
  constexpr char kName[] = "device_copy";
  qkvet_status status = QKVET_OK;
  DeviceDriver* const driver = driver_of(kName, QKVET_DEVICE_CUDA, 0, &status);
  return driver == nullptr ? status
                           : status_of(kName, driver->copy(to, from, bytes));
}

qkvet_status Host::device_fill(void*, void* to, uint8_t value, size_t bytes) {
  constexpr char kName[] = "device_fill";
  qkvet_status status = QKVET_OK;
  DeviceDriver* const driver = driver_of(kName, QKVET_DEVICE_CUDA, 0, &status);
  return driver == nullptr ? status
                           : status_of(kName, driver->fill(to, value, bytes));
}

qkvet_status Host::device_sync(void*, int32_t device_type, int32_t device_id) {
  constexpr char kName[] = "device_sync";
  qkvet_status status = QKVET_OK;
  DeviceDriver* const driver =
      driver_of(kName, device_type, device_id, &status);
  return driver == nullptr ? status : status_of(kName, driver->synchronize());
}

// Neighbouring indices stay in one thread. Threads that cannot be made are
// done without: an exception must not pass through the kernel.
void Host::parallel_for(void* self, int64_t count,
                        void (*body)(void* data, int64_t i), void* data) {
  const int64_t allowed = static_cast<Host*>(self)->threads_.load();
  const int64_t parts = std::min(allowed, count);
  if (parts <= 1) {
    for (int64_t i = 0; i < count; ++i) body(data, i);
    return;
  }
  const auto first_of = [=](int64_t part) {
    return count / parts * part + std::min(part, count % parts);
  };
  const auto run = [=](int64_t part) {
    for (int64_t i = first_of(part); i < first_of(part + 1); ++i) body(data, i);
  };
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(parts) - 1);
  int64_t part = 1;
  try {
    for (; part < parts; ++part) threads.emplace_back(run, part);
  } catch (const std::system_error&) {
  }
  run(0);
  for (; part < parts; ++part) run(part);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace qkvet
