// SPDX-License-Identifier: Apache-2.0
// simt.h and the machine behind it, for a program that links no library:
// include it in ONE source of the program, and simt.h in all others. Under nvcc
// it is simt.h and nothing more.
#ifndef QKVET_IMPL_CUDA_SIMT_RUNTIME_H_
#define QKVET_IMPL_CUDA_SIMT_RUNTIME_H_

#include "simt.h"

#if !defined(__CUDACC__)
#include "fiber.cpp"
#include "machine.cpp"
#include "waiting.cpp"

// The host says this before a call that may use so many threads. Here all are
// there, whatever it says, and what they may do is come in another order: one
// forward, two in reverse, more at random. So laws about threads are asked of
// an emulated kernel as they are of any other.
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
