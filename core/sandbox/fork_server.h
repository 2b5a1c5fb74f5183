// SPDX-License-Identifier: Apache-2.0
// An interpreter that has imported what is judged and forks a worker whenever
// one is wanted. An import takes a quarter of a second with NumPy and seconds
// with PyTorch, and shrinking a case that ends its process wants dozens of
// workers. The first worker of a run is started on its own: what goes wrong
// while it loads is seen there. A server that does not do is no failure either:
// workers are then started as the first one was.
#ifndef QKVET_CORE_SANDBOX_FORK_SERVER_H_
#define QKVET_CORE_SANDBOX_FORK_SERVER_H_

#include <sys/types.h>

#include "core/capability/descriptor.h"
#include "core/door/executor.h"
#include "core/sandbox/worker_spawn.h"

namespace qkvet {

class ForkServer {
 public:
  ForkServer() = default;
  ~ForkServer();
  ForkServer(const ForkServer&) = delete;
  ForkServer& operator=(const ForkServer&) = delete;

  // The id of a new worker, or -1 where none is to be had this way.
  pid_t fork_worker(const LibrarySpec& library, const WorkerDescriptors& from);
  // The status of a worker that has ended, as waitpid() says it.
  int reap(pid_t worker);

 private:
  bool start(const LibrarySpec& library);
  bool ask(int32_t what, int32_t worker, const WorkerDescriptors* from,
           int32_t* answer);
  void stop();

  Descriptor socket_;
  pid_t pid_ = -1;
  bool useless_ = false;
};

}  // namespace qkvet

#endif  // QKVET_CORE_SANDBOX_FORK_SERVER_H_
