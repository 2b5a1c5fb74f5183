// SPDX-License-Identifier: Apache-2.0
// Starts the worker program with the descriptors it expects.
#ifndef QKVET_CORE_SANDBOX_WORKER_SPAWN_H_
#define QKVET_CORE_SANDBOX_WORKER_SPAWN_H_

#include <sys/types.h>

#include <string>

#include "core/capability/descriptor.h"
#include "core/door/executor.h"
#include "core/door/worker_protocol.h"

namespace qkvet {

// Takes a descriptor (or -1) and moves it out of the range of numbers that the
// worker uses, so that no dup2 in the child overwrites the source of another.
Descriptor high_descriptor(int fd);

// The process's id, or -1 with one line in *error. Safe while other threads
// start processes: every descriptor is close-on-exec until the child takes it.
pid_t spawn_worker(const std::string& worker, const LibrarySpec& library,
                   const WorkerDescriptors& from, std::string* error);

// The worker's program, or an interpreter, that forks workers (fork_server.h),
// with its end of the socket; its id, or -1.
pid_t spawn_fork_server(const std::string& worker, const LibrarySpec& library,
                        int socket);

}  // namespace qkvet

#endif  // QKVET_CORE_SANDBOX_WORKER_SPAWN_H_
