// SPDX-License-Identifier: Apache-2.0
// The heap of a worker while a kernel is at work in it. What the kernel asks
// malloc() for, and with it operator new and containers, ends at a page that
// nobody may touch and is full of one byte when the kernel gets it. So an index
// one too far and scratch that was not cleared do the same in every call,
// whatever the heap was used for before; on a heap as it comes they do no harm
// most of the time.
//
// A program that is linked with guarded_heap.cpp has it instead of malloc(). It
// is there where the C library is glibc and no sanitizer has a malloc() of its
// own; elsewhere nothing is guarded, and kernel_heap() says so.
#ifndef QKVET_CORE_SANDBOX_GUARDED_HEAP_H_
#define QKVET_CORE_SANDBOX_GUARDED_HEAP_H_

#include <cstdint>

#include "core/door/worker_protocol.h"

namespace qkvet {

// What a worker has of such a heap; a program without one has none.
struct KernelHeap {
  // A kernel is at work from now on: what is asked for is guarded, and full of
  // this byte.
  void (*begin_call)(uint8_t fresh_byte);
  // Ends the process where a block's surroundings have been written to.
  void (*end_call)();
  // Of the write that end_call() or free() ended the process for.
  HeapFault (*found_write)();
  // Of a touch that the guard pages saw at this address. May be asked by a
  // signal handler.
  HeapFault (*fault_at)(uint64_t address);
  // Bytes that are allocated and not freed, in the whole process.
  int64_t (*live_bytes)();
};

// Null where malloc() is as it comes.
const KernelHeap* kernel_heap();

}  // namespace qkvet

#endif  // QKVET_CORE_SANDBOX_GUARDED_HEAP_H_
