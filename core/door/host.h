// SPDX-License-Identifier: Apache-2.0
// The functions of this program for a library that it opens.
#ifndef QKVET_CORE_DOOR_HOST_H_
#define QKVET_CORE_DOOR_HOST_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>

#include "qkvet/kernel.h"

namespace qkvet {

// The table points to this object, so it stays where it is.
class Host {
 public:
  Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  const qkvet_host& table() const { return table_; }

  // How many threads parallel_for may use from now on.
  void allow_threads(int32_t threads) { threads_ = threads; }

 private:
  // For CUDA devices only, through the driver of this process. Failures are
  // reported with log().
  static void* device_alloc(void* self, int32_t device_type, int32_t device_id,
                            size_t bytes);
  static void device_free(void* self, int32_t device_type, int32_t device_id,
                          void* memory);
  static qkvet_status device_copy(void* self, void* to, const void* from,
                                  size_t bytes);
  static qkvet_status device_fill(void* self, void* to, uint8_t value,
                                  size_t bytes);
  static qkvet_status device_sync(void* self, int32_t device_type,
                                  int32_t device_id);
  static void parallel_for(void* self, int64_t count,
                           void (*body)(void* data, int64_t i), void* data);

  qkvet_host table_{};
  std::mutex mutex_;
  std::map<void*, size_t> held_;  // of device_alloc()
  size_t held_bytes_ = 0;
  std::atomic<int32_t> threads_{1};
};

}  // namespace qkvet

#endif  // QKVET_CORE_DOOR_HOST_H_
