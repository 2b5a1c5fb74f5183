// SPDX-License-Identifier: Apache-2.0
// How long threads that race wait for each other between their reads and their
// writes, at most: 10 ms, so that they collide on a busy machine, too, or what
// the library was opened with ("window_us=0": as chance will have it).
#ifndef QKVET_IMPL_FAULTY_RACE_WINDOW_H_
#define QKVET_IMPL_FAULTY_RACE_WINDOW_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace qkvet::impl {

inline int64_t configured_window_us = 10000;  // written by open() alone

inline int64_t race_window_us() { return configured_window_us; }

// Until all `n` have read what nobody has written yet, or the window is over.
inline void wait_for_readers(const std::atomic<int64_t>& readers, int64_t n) {
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::microseconds(race_window_us());
  while (readers < n && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_FAULTY_RACE_WINDOW_H_
