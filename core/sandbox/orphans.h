// SPDX-License-Identifier: Apache-2.0
// Processes that kernels start and do not end: daemons, which have left the
// group of their worker. When a worker ends, this process becomes their parent,
// and ends them.
#ifndef QKVET_CORE_SANDBOX_ORPHANS_H_
#define QKVET_CORE_SANDBOX_ORPHANS_H_

#include <sys/types.h>

#include <functional>

namespace qkvet {

// Set in the environment of workers, and so of all that they start.
inline constexpr char kWorkerVariable[] = "QKVET_WORKER=1";

// From now on orphans below this process become its children.
void adopt_orphans();

// Starts a worker or a server of workers by `spawn`, which returns its process
// or -1. It is no orphan until forget_child().
pid_t start_child(const std::function<pid_t()>& spawn);

// After a child was waited for that led a group, which was killed: waits for
// what else was in it, and ends the orphans that are there.
void forget_child(pid_t group);
// The same after a worker that was another process's child.
void end_orphans(pid_t group);

}  // namespace qkvet

#endif  // QKVET_CORE_SANDBOX_ORPHANS_H_
