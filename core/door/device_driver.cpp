// SPDX-License-Identifier: Apache-2.0
#include "core/door/device_driver.h"

#include <dlfcn.h>

#include <cstdlib>

#include "core/door/kernel_reader.h"

namespace qkvet {
namespace {

constexpr char kDefaultPath[] = "libcuda.so.1";
constexpr size_t kMostMessage = 300;
constexpr unsigned kStreamNonBlocking = 1;  // CU_STREAM_NON_BLOCKING

uint64_t number_of(const void* address) {
  return reinterpret_cast<uint64_t>(address);
}

template <class Function>
bool find(void* library, const char* name, Function** function,
          std::string* missing) {
  *function = reinterpret_cast<Function*>(dlsym(library, name));
  if (*function == nullptr) *missing = name;
  return *function != nullptr;
}

// "" or the name that the library lacks.
std::string fill_table(void* library, DriverTable* t) {
  std::string missing;
  const auto has = [&](const char* name, auto** function) {
    return find(library, name, function, &missing);
  };
  [[maybe_unused]] const bool all =
      has("cuInit", &t->init) && has("cuDeviceGetCount", &t->device_count) &&
      has("cuDeviceGet", &t->device) &&
      has("cuDevicePrimaryCtxRetain", &t->retain) &&
      has("cuDevicePrimaryCtxRelease_v2", &t->release) &&
      has("cuCtxSetCurrent", &t->set_current) &&
      has("cuCtxSynchronize", &t->synchronize) &&
      has("cuMemAlloc_v2", &t->allocate) && has("cuMemFree_v2", &t->free) &&
      has("cuMemcpyHtoD_v2", &t->to_device) &&
      has("cuMemcpyDtoH_v2", &t->to_host) && has("cuMemcpy", &t->copy) &&
      has("cuMemsetD8_v2", &t->fill_bytes) &&
      has("cuMemsetD16_v2", &t->fill_units) &&
      has("cuStreamCreate", &t->create_stream) &&
      has("cuStreamDestroy_v2", &t->destroy_stream) &&
      has("cuGetErrorName", &t->error_name) &&
      has("cuGetErrorString", &t->error_string);
  return missing;
}

}  // namespace

std::unique_ptr<DeviceDriver> DeviceDriver::load(const std::string& path,
                                                 std::string* why) {
  std::unique_ptr<DeviceDriver> driver(new DeviceDriver);
  driver->handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (driver->handle_ == nullptr) {
    const char* text = dlerror();
    *why = "no CUDA driver: " +
           (text == nullptr ? path : one_line(text, kMostMessage));
    return nullptr;
  }
  const std::string missing = fill_table(driver->handle_, &driver->table_);
  *why = missing.empty() ? driver->start()
                         : "no CUDA driver: " + path + " has no " + missing;
  return why->empty() ? std::move(driver) : nullptr;
}

DeviceDriver* DeviceDriver::of_process(std::string* why) {
  struct Loaded {
    std::string why;
    std::unique_ptr<DeviceDriver> driver;
  };
  // Never destroyed: when a process ends, a driver may have gone before.
  static const Loaded* const loaded = [] {
    const char* const path = std::getenv("QKVET_CUDA_DRIVER");
    auto* made = new Loaded;
    made->driver =
        load(path == nullptr || path[0] == 0 ? kDefaultPath : path, &made->why);
    return made;
  }();
  *why = loaded->why;
  return loaded->driver.get();
}

DeviceDriver::~DeviceDriver() {
  if (context_ != nullptr) table_.release(device_);
  if (handle_ != nullptr) dlclose(handle_);
}

std::string DeviceDriver::start() {
  if (std::string bad = result("cuInit", table_.init(0)); !bad.empty())
    return "no CUDA device: " + bad;
  int devices = 0;
  std::string bad = result("cuDeviceGetCount", table_.device_count(&devices));
  if (bad.empty() && devices == 0) return "no CUDA device";
  if (bad.empty()) bad = result("cuDeviceGet", table_.device(&device_, 0));
  if (bad.empty())
    bad = result("cuDevicePrimaryCtxRetain", table_.retain(&context_, device_));
  if (bad.empty()) bad = enter();
  return bad.empty() ? bad : "no CUDA device: " + bad;
}

std::string DeviceDriver::result(const char* function, int error) const {
  if (error == 0) return "";
  const char* name = nullptr;
  const char* text = nullptr;
  table_.error_name(error, &name);
  table_.error_string(error, &text);
  std::string line = std::string(function) + ": ";
  line += name == nullptr ? "error " + std::to_string(error) : name;
  if (text != nullptr) line += std::string(" (") + text + ")";
  return one_line(line.c_str(), kMostMessage);
}

std::string DeviceDriver::end_of_work(const char* function, int error) {
  if (error != 0) lost_ = true;
  return result(function, error);
}

std::string DeviceDriver::enter() {
  return end_of_work("cuCtxSetCurrent", table_.set_current(context_));
}

std::string DeviceDriver::allocate(int64_t bytes, std::byte** memory) {
  uint64_t address = 0;
  std::string bad = enter();
  if (bad.empty())
    bad = result("cuMemAlloc",
                 table_.allocate(&address, static_cast<size_t>(bytes)));
  *memory = bad.empty() ? reinterpret_cast<std::byte*>(address) : nullptr;
  return bad;
}

std::string DeviceDriver::free(std::byte* memory) {
  std::string bad = enter();
  return bad.empty() ? result("cuMemFree", table_.free(number_of(memory)))
                     : bad;
}

std::string DeviceDriver::to_device(std::byte* to, const std::byte* from,
                                    int64_t bytes) {
  std::string bad = enter();
  if (!bad.empty() || bytes == 0) return bad;
  return end_of_work(
      "cuMemcpyHtoD",
      table_.to_device(number_of(to), from, static_cast<size_t>(bytes)));
}

std::string DeviceDriver::to_host(std::byte* to, const std::byte* from,
                                  int64_t bytes) {
  std::string bad = enter();
  if (!bad.empty() || bytes == 0) return bad;
  return end_of_work(
      "cuMemcpyDtoH",
      table_.to_host(to, number_of(from), static_cast<size_t>(bytes)));
}

std::string DeviceDriver::copy(void* to, const void* from, size_t bytes) {
  std::string bad = enter();
  if (!bad.empty() || bytes == 0) return bad;
  return result("cuMemcpy", table_.copy(number_of(to), number_of(from), bytes));
}

std::string DeviceDriver::fill(void* to, uint8_t value, size_t bytes) {
  std::string bad = enter();
  if (!bad.empty() || bytes == 0) return bad;
  return result("cuMemsetD8", table_.fill_bytes(number_of(to), value, bytes));
}

std::string DeviceDriver::fill_units(std::byte* to, uint16_t value,
                                     int64_t count) {
  std::string bad = enter();
  if (!bad.empty() || count == 0) return bad;
  return result("cuMemsetD16", table_.fill_units(number_of(to), value,
                                                 static_cast<size_t>(count)));
}

std::string DeviceDriver::synchronize() {
  std::string bad = enter();
  return bad.empty() ? end_of_work("cuCtxSynchronize", table_.synchronize())
                     : bad;
}

std::string DeviceDriver::create_stream(void** stream) {
  std::string bad = enter();
  return bad.empty() ? result("cuStreamCreate",
                              table_.create_stream(stream, kStreamNonBlocking))
                     : bad;
}

void DeviceDriver::destroy_stream(void* stream) {
  if (enter().empty()) table_.destroy_stream(stream);
}

}  // namespace qkvet
