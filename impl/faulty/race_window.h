// SPDX-License-Identifier: Apache-2.0
// How long threads that race wait for each other between their reads and their
// writes, at most: 10 ms, so that they collide on a busy machine, too, or what
// the library was opened with ("window_us=0": as chance will have it).
#ifndef QKVET_IMPL_FAULTY_RACE_WINDOW_H_
#define QKVET_IMPL_FAULTY_RACE_WINDOW_H_

#include <cstdint>

namespace qkvet::impl {

inline int64_t configured_window_us = 10000;  // written by open() alone

inline int64_t race_window_us() { return configured_window_us; }

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_FAULTY_RACE_WINDOW_H_
