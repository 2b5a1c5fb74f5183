// SPDX-License-Identifier: Apache-2.0
// Executors, the only way to call a kernel. An executor opens a library once,
// lists its kernels, and runs batches of calls.
#ifndef QKVET_CORE_DOOR_EXECUTOR_H_
#define QKVET_CORE_DOOR_EXECUTOR_H_

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/call/call.h"
#include "core/capability/kernel_info.h"
#include "qkvet/kernel.h"

namespace qkvet {

struct LibrarySpec {
  std::string path;    // of the shared library; with an entry: its name
  std::string config;  // the text after "FILE:"
  // For a library that is linked into this program and so opened in it only.
  qkvet_open_function entry = nullptr;
  // For functions of an interpreter, path being what it calls them, the program
  // that is their worker, with the package qkvet ("python3"); "": there is
  // none.
  std::string interpreter = {};
  // Ends a waiting call of an interpreter within seconds, unless it waits for
  // processes of its own: for runs that end at the first failure.
  bool ends_waits = false;
};

struct SandboxOptions {
  std::string worker;             // path of the qkvet-worker program
  double hang_floor_seconds = 2;  // least CPU time of a hang
  double hang_factor = 1000;      // times the oracle's time
  double stall_seconds = 30;      // without any CPU progress
  double compile_seconds = 120;   // first call of a shape, for kernels
                                  // that declare COMPILES_PER_SHAPE
  int64_t resident_limit = int64_t{4} << 30;  // bytes
};

class Executor {
 public:
  virtual ~Executor() = default;

  // In the library's order; the index is the kernel's number in run().
  virtual const std::vector<KernelInfo>& kernels() const = 0;

  // Runs every call on one kernel, in order. Always returns one outcome per
  // call. A call that ends its process is reported, and the next one runs in a
  // fresh process. Only after a hang, which costs seconds, the remaining calls
  // are not run. The cache of a story (call.h) ends with its process: the rest
  // of the story is not run.
  virtual std::vector<CallOutcome> run(int kernel,
                                       std::span<const KernelCall> calls) = 0;

  // CPU time so far, loading included, of the processes that make the calls;
  // here, of this process. Waiting takes none.
  virtual double cpu_seconds() const;

  // From now on a call of this kernel counts as a hang if it takes far longer
  // than all calls that have ended, instead of some seconds: so a kernel that
  // is known to hang can be tested with many cases. False: hangs still cost
  // seconds each, for interpreters, devices and code that is compiled.
  virtual bool expect_hangs(int kernel);
};

// Either an executor or one line with the reason why there is none.
struct Opened {
  std::unique_ptr<Executor> executor;
  std::string error;
};

// Opens the library in a worker process of its own.
Opened open_sandbox(const LibrarySpec& library, const SandboxOptions& options);

// Opens the library in this process: for debuggers and sanitizers. Buffers are
// as hostile as in a sandbox, but what ends the kernel ends the program.
Opened open_in_process(const LibrarySpec& library);

}  // namespace qkvet

#endif  // QKVET_CORE_DOOR_EXECUTOR_H_
