// SPDX-License-Identifier: Apache-2.0
// A process that has loaded what is judged, has called nothing of it, and forks
// a worker whenever one is wanted. An import takes a quarter of a second with
// NumPy and seconds with PyTorch, loading a library some milliseconds;
// shrinking a case that ends its process wants dozens of workers, and what
// calls leave behind is only seen beside fresh ones, hundreds in a run. The
// first worker of a run is started on its own: what goes wrong while it loads
// is seen there. A server that does not do is no failure either: workers are
// then started as the first one was.
#ifndef QKVET_CORE_SANDBOX_FORK_SERVER_H_
#define QKVET_CORE_SANDBOX_FORK_SERVER_H_

#include <sys/types.h>

#include <string>

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

  // The id of a new worker, or -1 where none is to be had this way. `program`
  // is that of workers.
  pid_t fork_worker(const std::string& program, const LibrarySpec& library,
                    const WorkerDescriptors& from);
  // The status of a worker that has ended, as waitpid() says it.
  int reap(pid_t worker);

 private:
  bool start(const std::string& program, const LibrarySpec& library);
  bool ask(const ForkRequest& request, const WorkerDescriptors* from,
           int32_t* answer);
  void stop();

  Descriptor socket_;
  pid_t pid_ = -1;
  bool useless_ = false;
};

}  // namespace qkvet

#endif  // QKVET_CORE_SANDBOX_FORK_SERVER_H_
