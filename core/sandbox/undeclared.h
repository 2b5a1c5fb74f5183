// SPDX-License-Identifier: Apache-2.0
// A sandbox for whoever finds out what a kernel does.
#ifndef QKVET_CORE_SANDBOX_UNDECLARED_H_
#define QKVET_CORE_SANDBOX_UNDECLARED_H_

#include "core/door/executor.h"

namespace qkvet {

// What can be declared of forward() in one place: all of it is allowed, and
// nothing is claimed. How the kernel is reached stays: devices, alignment, and
// the flags about its being compiled, its threads and where it refuses.
void undeclare(KernelInfo& info);

// As open_sandbox(), but calls are made whatever the kernels declare: only they
// themselves refuse. kernels() are undeclared.
Opened open_undeclared(const LibrarySpec& library,
                       const SandboxOptions& options);

}  // namespace qkvet

#endif  // QKVET_CORE_SANDBOX_UNDECLARED_H_
