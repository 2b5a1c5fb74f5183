// SPDX-License-Identifier: Apache-2.0
// Opens a library of kernels and speaks the plug-in ABI to it. Everything that
// calls into foreign code goes through here; what happens to the process when
// that code misbehaves is the business of the caller.
#ifndef QKVET_CORE_DOOR_H_
#define QKVET_CORE_DOOR_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "core/arena.h"
#include "core/call_plan.h"
#include "core/executor.h"
#include "core/kernel_info.h"
#include "core/workspace.h"
#include "qkvet/kernel.h"

namespace qkvet {

// What foreign code is at work: a crash happened in it.
enum class Phase : uint32_t {
  kOutside,
  kOpen,
  kSupports,
  kWorkspace,
  kForward
};

// What came of a call, in plain data: it lies in memory that two processes
// share, and whoever reads it there trusts no field.
struct CallReply {
  static constexpr size_t kTextBytes = 512;

  std::atomic<uint32_t> phase{0};  // Phase
  uint32_t status = 0;             // CallStatus
  uint32_t dirty_environment = 0;
  uint32_t workspace_damaged = 0;
  double seconds = 0;
  uint64_t workspace = 0;        // address; 0: none
  int64_t workspace_bytes = 0;   // asked for
  int64_t workspace_damage = 0;  // Workspace::damage()
  char text[kTextBytes] = {};
};

class Door {
 public:
  // Null with one line in *error that names the file and what is wrong.
  static std::unique_ptr<Door> open(const LibrarySpec& library,
                                    std::string* error);
  ~Door();
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  const std::vector<KernelInfo>& kernels() const { return infos_; }

  // One call: open() if this is the first, supports(), workspace(), forward().
  // A C++ exception that leaves the kernel ends the process.
  void call(int kernel, const CallPlan& plan, const TensorAddresses& addresses,
            CallReply* reply) noexcept;

 private:
  struct Kernel {
    const qkvet_kernel* self = nullptr;
    qkvet_kernel table{};  // as far as both sides know it
    bool opened = false;
    qkvet_status open_status = QKVET_OK;
    std::string open_text;
    qkvet_context* context = nullptr;
  };

  explicit Door(LibrarySpec library);
  std::string load();
  std::string enter(void* entry);
  std::string read_kernels();
  bool open_context(Kernel& kernel, CallReply* reply);
  bool supported(const Kernel& kernel, const qkvet_forward_args& args,
                 CallReply* reply);
  bool give_workspace(const Kernel& kernel, const qkvet_forward_args& args,
                      qkvet_exec* exec, CallReply* reply);
  void forward(const Kernel& kernel, const qkvet_forward_args& args,
               const qkvet_exec& exec, CallReply* reply);

  LibrarySpec library_;
  void* handle_ = nullptr;
  bool entered_ = false;
  qkvet_library table_{};
  std::vector<Kernel> kernels_;
  std::vector<KernelInfo> infos_;
  Workspace workspace_;
};

// What a reply says, with every field checked.
CallOutcome outcome_of(const CallReply& reply);

}  // namespace qkvet

#endif  // QKVET_CORE_DOOR_H_
