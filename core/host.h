// SPDX-License-Identifier: Apache-2.0
// What this program offers to a library that it opens.
#ifndef QKVET_CORE_HOST_H_
#define QKVET_CORE_HOST_H_

#include <atomic>
#include <cstdint>

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
  static void parallel_for(void* self, int64_t count,
                           void (*body)(void* data, int64_t i), void* data);

  qkvet_host table_{};
  std::atomic<int32_t> threads_{1};
};

}  // namespace qkvet

#endif  // QKVET_CORE_HOST_H_
