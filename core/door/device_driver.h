// SPDX-License-Identifier: Apache-2.0
// The driver of CUDA devices, reached by the names of its own library, which is
// opened when it is first needed and never linked: programs start on machines
// without one. Only the process that runs kernels opens it. Memory is that of
// the first device's primary context, the one that CUDA's runtime uses inside
// plug-ins.
#ifndef QKVET_CORE_DOOR_DEVICE_DRIVER_H_
#define QKVET_CORE_DOOR_DEVICE_DRIVER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace qkvet {

// The driver's functions under their real names; results are CUresult, 0 is
// success. Addresses of a device are numbers (CUdeviceptr).
struct DriverTable {
  int (*init)(unsigned flags);
  int (*device_count)(int* count);
  int (*device)(int* device, int ordinal);
  int (*retain)(void** context, int device);
  int (*release)(int device);
  int (*set_current)(void* context);
  int (*synchronize)();
  int (*allocate)(uint64_t* memory, size_t bytes);
  int (*free)(uint64_t memory);
  int (*to_device)(uint64_t to, const void* from, size_t bytes);
  int (*to_host)(void* to, uint64_t from, size_t bytes);
  int (*copy)(uint64_t to, uint64_t from, size_t bytes);
  int (*fill_bytes)(uint64_t to, unsigned char value, size_t count);
  int (*fill_units)(uint64_t to, unsigned short value, size_t count);
  int (*create_stream)(void** stream, unsigned flags);
  int (*destroy_stream)(void* stream);
  int (*error_name)(int error, const char** text);
  int (*error_string)(int error, const char** text);
};

class DeviceDriver {
 public:
  // Null with one line in *why. `path` is as for dlopen().
  static std::unique_ptr<DeviceDriver> load(const std::string& path,
                                            std::string* why);
  // This process's, opened by the first call: $QKVET_CUDA_DRIVER or else
  // libcuda.so.1. Null with one line in *why, the same with every call.
  static DeviceDriver* of_process(std::string* why);
  ~DeviceDriver();
  DeviceDriver(const DeviceDriver&) = delete;
  DeviceDriver& operator=(const DeviceDriver&) = delete;

  // All return "" or what failed, and how, in one line. Each makes the context
  // the calling thread's current one: kernels may have chosen another.
  std::string enter();
  std::string allocate(int64_t bytes, std::byte** memory);
  std::string free(std::byte* memory);
  std::string to_device(std::byte* to, const std::byte* from, int64_t bytes);
  std::string to_host(std::byte* to, const std::byte* from, int64_t bytes);
  // Between any two memories; the driver distinguishes them by their addresses.
  std::string copy(void* to, const void* from, size_t bytes);
  std::string fill(void* to, uint8_t value, size_t bytes);
  // `count` units of 16 bits.
  std::string fill_units(std::byte* to, uint16_t value, int64_t count);
  // Until all work of this process on the device is done. An error is that of
  // some of this work, and the context is lost with it.
  std::string synchronize();
  // One that does not wait for the default stream.
  std::string create_stream(void** stream);
  void destroy_stream(void* stream);

  // After a failure of work on the device, all further work fails.
  bool lost() const { return lost_; }

 private:
  DeviceDriver() = default;
  // "" or why there is no device.
  std::string start();
  std::string result(const char* function, int error) const;
  // The same of a function that waits for work on the device.
  std::string end_of_work(const char* function, int error);

  void* handle_ = nullptr;
  DriverTable table_{};
  int device_ = 0;
  void* context_ = nullptr;
  std::atomic<bool> lost_{false};
};

}  // namespace qkvet

#endif  // QKVET_CORE_DOOR_DEVICE_DRIVER_H_
