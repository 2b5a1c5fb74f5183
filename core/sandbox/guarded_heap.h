// SPDX-License-Identifier: Apache-2.0
// The heap of a worker while a kernel runs in it. Each block that the kernel
// allocates with malloc(), and so with operator new and containers, ends at an
// inaccessible page and is filled with one byte. So an index one too far and
// scratch that was not cleared have the same effect in every call, whatever the
// heap was used for before; on an ordinary heap they are mostly harmless.
//
// A program that is linked with guarded_heap.cpp uses it as malloc(). It works
// where the C library is glibc and no sanitizer has a malloc() of its own;
// elsewhere nothing is guarded, and kernel_heap() returns null.
#ifndef QKVET_CORE_SANDBOX_GUARDED_HEAP_H_
#define QKVET_CORE_SANDBOX_GUARDED_HEAP_H_

#include <cstdint>

#include "core/door/worker_protocol.h"

namespace qkvet {

// The functions of such a heap for a worker; a program without one has none.
struct KernelHeap {
  // A kernel runs from now on: new blocks are guarded, and full of this byte.
  void (*begin_call)(uint8_t fresh_byte);
  // Ends the process if memory around a block has been written.
  void (*end_call)();
  // The write because of which end_call() or free() ended the process.
  HeapFault (*found_write)();
  // The fault of an access to a guard page at this address. Safe in a signal
  // handler.
  HeapFault (*fault_at)(uint64_t address);
  // Bytes that are allocated and not freed, in the whole process.
  int64_t (*live_bytes)();
};

// Null without such a heap.
const KernelHeap* kernel_heap();

}  // namespace qkvet

#endif  // QKVET_CORE_SANDBOX_GUARDED_HEAP_H_
