// SPDX-License-Identifier: Apache-2.0
// The maximum time that racing threads wait for each other between their reads
// and their writes: 10 ms, so that they also collide on a busy machine, or as
// configured when the library was opened ("window_us=0": collisions by chance).
#ifndef QKVET_IMPL_SKELETONS_RACE_WINDOW_H_
#define QKVET_IMPL_SKELETONS_RACE_WINDOW_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace qkvet::impl {

inline int64_t configured_window_us = 10000;  // written by open() alone

inline int64_t race_window_us() { return configured_window_us; }

// Waits until all `n` have read the number before the write, or time is up.
inline void wait_for_readers(const std::atomic<int64_t>& readers, int64_t n) {
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::microseconds(race_window_us());
  while (readers < n && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
}

// A number that belongs to the library and not to a call, shared by the calls
// of one fault. pass() returns its argument, or the one that a call of another
// thread has passed since. A thread waits for that within a total limit.
template <class Fault>
class SharedNumber {
 public:
  static float pass(float own) {
    const auto me = std::this_thread::get_id();
    const bool alone = caller().exchange(me) == me;
    number() = own;
    while (!alone && number() == own && left_us() > 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(kStep));
      left_us() -= kStep;
    }
    return number();
  }

 private:
  static constexpr int64_t kStep = 50;
  static std::atomic<float>& number() {
    static std::atomic<float> of_all_calls = 0;
    return of_all_calls;
  }
  static std::atomic<std::thread::id>& caller() {
    static std::atomic<std::thread::id> last = std::this_thread::get_id();
    return last;
  }
  static int64_t& left_us() {
    thread_local int64_t left = 4 * race_window_us();
    return left;
  }
};

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_SKELETONS_RACE_WINDOW_H_
