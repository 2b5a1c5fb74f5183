// SPDX-License-Identifier: Apache-2.0
// One worker process from the outside: started, waited for, watched, ended.
#ifndef QKVET_CORE_SANDBOX_WORKER_PROCESS_H_
#define QKVET_CORE_SANDBOX_WORKER_PROCESS_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>

#include "core/capability/descriptor.h"
#include "core/door/executor.h"
#include "core/door/output_tail.h"
#include "core/door/worker_protocol.h"
#include "core/sandbox/fork_server.h"

namespace qkvet {

enum class WaitEnd : uint8_t {
  kDone,     // the worker signalled
  kDied,     // by its own doing
  kHang,     // ended by us: too much CPU time
  kStalled,  // ended by us: no CPU progress
  kStopped,  // ended by us: SIGSTOP, which is no progress either
  kTooLarge  // ended by us: too much memory
};

// The limits of the step in progress.
struct WaitLimits {
  double cpu_seconds = 0;
  double stall_seconds = 0;
  // The same while it has processes of its own: compilers, say.
  double stall_with_children = 0;
};

class WorkerProcess {
 public:
  WorkerProcess(const LibrarySpec& library, const SandboxOptions& options);
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  // Once: makes the shared block.
  bool prepare(std::string* error);
  Control& control() { return *control_; }
  const Control& control() const { return *control_; }

  // Starts the process; the library is loaded when wait() returns kDone.
  bool start(int tensors_fd, std::string* error);
  bool running() const { return pid_ > 0; }
  // Whether it came from a server, which gives the next one as quickly.
  bool forked() const { return forked_; }
  void go();
  // Waits until the worker signals or has ended; after kDone it still runs.
  // `limits` is called from time to time.
  WaitEnd wait(const std::function<WaitLimits()>& limits);
  void stop();

  std::string info() const;  // what it wrote on loading
  std::string output() const { return tail_.text(); }
  void forget_output() { tail_.clear(); }
  int wait_status() const { return wait_status_; }  // after its end
  // CPU time of this process and of all that were here before it.
  double cpu_seconds_in_all() const {
    return ended_cpu_ + (running() ? cpu_seconds() : 0);
  }

 private:
  struct Watch;
  bool make_channels(int tensors_fd, std::string* error);
  bool over_limit(Watch* watch, const WaitLimits& limits, WaitEnd* end);
  double cpu_seconds() const;
  int64_t private_memory() const;
  bool stopped() const;
  bool has_children() const;
  void reap();
  void kill_now();

  LibrarySpec library_;
  SandboxOptions options_;
  Control* control_ = nullptr;
  Descriptor control_fd_;
  Descriptor tensors_;  // a duplicate of the arena's
  // Ours.
  Descriptor info_, go_, done_, lifeline_, output_, pidfd_;
  // The worker's ends; closed here as soon as it runs.
  Descriptor lifeline_end_, output_end_;
  pid_t pid_ = -1;
  bool forked_ = false;  // it is the fork server's child, and not ours
  int starts_ = 0;
  double ended_cpu_ = 0;  // seconds, of processes that have ended
  std::shared_ptr<ForkServer> forks_;
  int wait_status_ = 0;
  OutputTail tail_;
};

}  // namespace qkvet

#endif  // QKVET_CORE_SANDBOX_WORKER_PROCESS_H_
