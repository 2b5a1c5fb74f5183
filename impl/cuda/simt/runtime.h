// SPDX-License-Identifier: Apache-2.0
// simt.h with its machine, for a program that links no library: include it in
// ONE source of the program, and simt.h in all others. Under nvcc it is just
// simt.h.
#ifndef QKVET_IMPL_CUDA_SIMT_RUNTIME_H_
#define QKVET_IMPL_CUDA_SIMT_RUNTIME_H_

#include "simt.h"

#if !defined(__CUDACC__)
#include "fiber.cpp"
#include "machine.cpp"
#include "waiting.cpp"

// The host calls this before a call that may use so many threads. Here the
// number of threads is fixed, and the function changes their order instead: one
// is forward, two is reverse, more is random. So laws about threads apply to an
// emulated kernel as to any other.
extern "C" __attribute__((visibility("default"))) void qkvet_simt_threads(
    int32_t threads) {
  simt::Schedule schedule;
  if (threads == 2) schedule.order = simt::Order::kReverse;
  if (threads > 2)
    schedule = {simt::Order::kRandom, static_cast<uint64_t>(threads)};
  simt::set_schedule(schedule);
}
#endif

#endif  // QKVET_IMPL_CUDA_SIMT_RUNTIME_H_
