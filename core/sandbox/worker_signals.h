// SPDX-License-Identifier: Apache-2.0
// The worker's last words: deadly signals are written into shared memory.
#ifndef QKVET_CORE_SANDBOX_WORKER_SIGNALS_H_
#define QKVET_CORE_SANDBOX_WORKER_SIGNALS_H_

#include "core/door/worker_protocol.h"
#include "core/sandbox/guarded_heap.h"

namespace qkvet {

// On the main thread, once. Handlers run on a stack of their own. `heap` may be
// null.
void install_last_words(CrashRecord* record, const KernelHeap* heap);

// A library may have set its own handlers; seven system calls.
void rearm_last_words();

}  // namespace qkvet

#endif  // QKVET_CORE_SANDBOX_WORKER_SIGNALS_H_
