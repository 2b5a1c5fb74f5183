// SPDX-License-Identifier: Apache-2.0
// The process of fork_server.h where what is judged is a library.
#ifndef QKVET_CORE_SANDBOX_FORK_WORKER_H_
#define QKVET_CORE_SANDBOX_FORK_WORKER_H_

#include <string>

namespace qkvet {

// Loads the library, calls nothing of it, and forks workers on request. Returns
// true in each of them, with a worker's descriptors at their numbers. Returns
// false at the end, or at once if forking is not possible: the library cannot
// be loaded, or starts threads while it is loaded.
bool forked_as_worker(const std::string& library);

}  // namespace qkvet

#endif  // QKVET_CORE_SANDBOX_FORK_WORKER_H_
