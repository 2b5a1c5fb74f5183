// SPDX-License-Identifier: Apache-2.0
// A process that has loaded a library or an interpreter's module, has called
// nothing of it, and forks workers on request. This saves time: an import takes
// a quarter of a second with NumPy and seconds with PyTorch, and loading a
// library some milliseconds. Shrinking a case that ends its process needs
// dozens of workers, and state that calls leave is only visible in comparison
// with fresh workers, hundreds in a run. All workers of an interpreter come
// from one server, so that a run imports once. If a server does not load, or
// dies, workers are started one by one, and report errors in loading
// themselves.
#ifndef QKVET_CORE_SANDBOX_FORK_SERVER_H_
#define QKVET_CORE_SANDBOX_FORK_SERVER_H_

#include <sys/types.h>

#include <memory>
#include <mutex>
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
  // The status of a worker that has ended, as from waitpid().
  int reap(pid_t worker);

 private:
  bool forks(const std::string& program, const LibrarySpec& library,
             const WorkerDescriptors& from, int32_t* worker);
  bool start(const std::string& program, const LibrarySpec& library);
  bool take_given();
  bool ask(const ForkRequest& request, const WorkerDescriptors* from,
           int32_t* answer);
  bool has_answered() const;
  void stop();

  std::mutex mutex_;  // held during one request
  Descriptor socket_;
  pid_t pid_ = -1;
  int worth_ = 1;  // how often it may still be started in vain
};

// The server of an interpreter and what it imports, which is that of the whole
// process; of a library a new one.
std::shared_ptr<ForkServer> fork_server_of(const LibrarySpec& library);

}  // namespace qkvet

#endif  // QKVET_CORE_SANDBOX_FORK_SERVER_H_
