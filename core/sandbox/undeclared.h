// SPDX-License-Identifier: Apache-2.0
// A sandbox for probing a kernel with unknown declarations.
#ifndef QKVET_CORE_SANDBOX_UNDECLARED_H_
#define QKVET_CORE_SANDBOX_UNDECLARED_H_

#include "core/door/executor.h"

namespace qkvet {

// Flags about how a call is made, not about the call itself.
inline constexpr uint64_t kFlagsOfHowToCall =
    QKVET_FLAG_COMPILES_PER_SHAPE | QKVET_FLAG_GPU_THREADS |
    QKVET_FLAG_REFUSES_IN_CALL | QKVET_FLAG_ALLOCATES;

// Allows everything that can be declared of forward(), and claims nothing.
// Declarations of how to call the kernel stay: devices, alignment, and the
// flags about compilation, threads, and which function refuses.
void undeclare(KernelInfo& info);

// As open_sandbox(), but calls are made independently of the declarations: only
// kernels themselves refuse. kernels() are undeclared.
Opened open_undeclared(const LibrarySpec& library,
                       const SandboxOptions& options);

}  // namespace qkvet

#endif  // QKVET_CORE_SANDBOX_UNDECLARED_H_
