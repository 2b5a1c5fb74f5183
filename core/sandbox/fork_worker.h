// SPDX-License-Identifier: Apache-2.0
// The process of fork_server.h where what is judged is a library.
#ifndef QKVET_CORE_SANDBOX_FORK_WORKER_H_
#define QKVET_CORE_SANDBOX_FORK_WORKER_H_

#include <string>

namespace qkvet {

// Loads the library, calls nothing of it, and forks workers as they are asked
// for: true in each of them, with a worker's descriptors in their places. False
// at last, or at once where there is nothing to be forked: a library that
// cannot be loaded, or that starts threads while it is.
bool forked_as_worker(const std::string& library);

}  // namespace qkvet

#endif  // QKVET_CORE_SANDBOX_FORK_WORKER_H_
