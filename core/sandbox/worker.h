// SPDX-License-Identifier: Apache-2.0
// The worker's side of worker_protocol.h: opens one library, runs calls from
// shared memory, and may die of them. The program qkvet-worker is only this; an
// interpreter with functions as kernels is also a worker.
#ifndef QKVET_CORE_SANDBOX_WORKER_H_
#define QKVET_CORE_SANDBOX_WORKER_H_

#include <sys/types.h>

#include "core/door/executor.h"
#include "core/sandbox/guarded_heap.h"

namespace qkvet {

// Whether a program started this process as a worker: the descriptors of the
// protocol are there.
bool has_worker_descriptors();

// Ends a process, or a group by its negative number, when the last writer of
// the pipe closes it, which the end of the writing process does.
void end_with_writer(int pipe, pid_t whom);

// Prepares a worker before it loads anything: closes foreign descriptors,
// limits resources, and makes it end when the program does.
void begin_worker();

// Opens the library and serves until the program signals the end, which ends
// the process without the destructors of static objects. Returns only where
// there is nothing to serve, with the status to exit with. `heap`: that of the
// kernels, if this program guards one.
int serve_library(const LibrarySpec& library, const KernelHeap* heap = nullptr);

}  // namespace qkvet

#endif  // QKVET_CORE_SANDBOX_WORKER_H_
