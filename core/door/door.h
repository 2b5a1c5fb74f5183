// SPDX-License-Identifier: Apache-2.0
// Opens a library of kernels and speaks the plug-in ABI to it. Everything that
// calls into foreign code goes through here; what happens to the process when
// that code misbehaves is the business of the caller.
#ifndef QKVET_CORE_DOOR_DOOR_H_
#define QKVET_CORE_DOOR_DOOR_H_

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/capability/kernel_info.h"
#include "core/door/abi_call.h"
#include "core/door/arena.h"
#include "core/door/call_plan.h"
#include "core/door/call_reply.h"
#include "core/door/device_tensors.h"
#include "core/door/executor.h"
#include "core/door/host.h"
#include "core/door/workspace.h"
#include "qkvet/kernel.h"
#include "qkvet/plan.h"

namespace qkvet {

class ForwardOutputs;  // forward_outputs.h

// One of several calls that are made at once.
struct CallAtOnce {
  const CallPlan* plan = nullptr;
  const TensorAddresses* addresses = nullptr;
  CallReply* reply = nullptr;
};

// Calls that belong together: one, or a create and the commands after it.
using CallGroup = std::span<const CallAtOnce>;
// Whether all were answered, and left their caller as he was.
bool went_well(CallGroup group);
// The bytes that the calls wrote, output by output, gaps included, and the
// lengths that a cache returned.
std::vector<std::byte> written_by(CallGroup group);
// NaN in all outputs without gaps, which have to stay as they are: so that what
// a call leaves unwritten is not what an earlier one wrote.
void clear_outputs(CallGroup group);

class Door {
 public:
  // Null with one line in *error that names the file and what is wrong.
  static std::unique_ptr<Door> open(const LibrarySpec& library,
                                    std::string* error);
  // Loads a library for processes that are forked later; calls nothing of it.
  static bool load_ahead(const std::string& library);
  ~Door();
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  const std::vector<KernelInfo>& kernels() const { return infos_; }

  // One call, after open() if it is the kernel's first; for forward() with
  // supports() and workspace(). A cache lives until the next create of any
  // kernel. A C++ exception that leaves the kernel ends the process.
  void call(int kernel, const CallPlan& plan, const TensorAddresses& addresses,
            CallReply* reply) noexcept;

  // How often call_at_once() makes a call that takes long: twice alone, and
  // this often at once with the others.
  static constexpr int kLeastRounds = 3;
  static constexpr int kLeastMakings = 2 + kLeastRounds;

  // Calls, each from a thread and with a context of its own; a create and the
  // commands after it are in one thread. Each call is made alone first. Then
  // all are made again at once, several times and each time on new caches,
  // until one of them gives other bits; these stay where it wrote them. On a
  // device each call is only made alone.
  void call_at_once(int kernel, std::span<const CallAtOnce> calls) noexcept;

 private:
  struct Kernel {
    const qkvet_kernel* self = nullptr;
    qkvet_kernel table{};  // as far as both sides know it, like all tables
    qkvet_cache_table cache{};
    qkvet_layer_table layer{};
    qkvet_backward_table backward{};
    qkvet_merge_table merge{};
    qkvet_plan_table plans{};
    int32_t device = QKVET_DEVICE_CPU;
    int64_t alignment = 0;
    bool refuses_in_call = false;
    bool opened = false;
    qkvet_status open_status = QKVET_OK;
    std::string open_text;
    qkvet_context* context = nullptr;
    // For further threads, opened when they are first needed.
    std::vector<qkvet_context*> more_contexts;
    Workspace* workspace = nullptr;  // of such a thread; null: the door's

    // `exec` of a call. A kernel that does not declare itself nondeterministic
    // must reproduce its bits, so exec requests determinism.
    qkvet_exec exec(int32_t threads) const;
  };

  // A plan, until it is destroyed.
  struct HeldPlan {
    const qkvet_kernel* self = nullptr;
    qkvet_plan_table table{};
    qkvet_plan* plan = nullptr;  // null: there is none
    // Copies of its lengths and tables; their content is cleared.
    std::vector<std::vector<std::byte>> given;
  };

  // The cache of a create, until it is destroyed.
  struct Held {
    const Kernel* keeper = nullptr;
    qkvet_cache* cache = nullptr;  // null: there is none
    int64_t sequences = 0;
    std::array<HeldPlan, kMostPlans> plans;
  };

  explicit Door(LibrarySpec library);
  std::string load();
  // Null with what is wrong in *bad.
  qkvet_open_function find_entry(std::string* bad);
  std::string enter(qkvet_open_function entry);
  std::string read_kernels();
  bool open_context(Kernel& kernel, CallReply* reply);
  // The context of the call's number `n` among those at once, 0 being the
  // kernel's own.
  bool find_context(Kernel& kernel, size_t n, qkvet_context** context,
                    CallReply* reply);
  // The call, on the CPU, with a context that is open.
  void make(const Kernel& kernel, const CallPlan& plan,
            const TensorAddresses& addresses, Held& held, CallReply* reply);
  // All calls of a thread.
  void make_seat(const Kernel& kernel, std::span<const CallAtOnce> calls);
  // The reason why the kernel cannot be called on a device; "" if there is
  // none.
  std::string open_device();
  // forward() or backward() with the tensors on the device.
  void call_on_device(const Kernel& kernel, const CallPlan& plan,
                      const TensorAddresses& addresses, CallReply* reply);
  // Waits for the result, and brings the tensors back.
  void return_from_device(const CallPlan& plan,
                          const TensorAddresses& addresses, CallReply* reply);
  void lose_device(const std::string& why, CallReply* reply);

  // The calls, each after open_context(). `function` is called in its phase and
  // leaves the environment as it finds it, or is reported.
  template <class Function>
  qkvet_status timed(Phase phase, CallReply* reply, Function function);
  void forward(const Kernel& kernel, const qkvet_forward_args& args,
               qkvet_exec* exec, CallReply* reply);
  // Whether supports() accepts the call and the workspace is allocated.
  bool is_ready(const Kernel& kernel, const qkvet_forward_args& args,
                qkvet_exec* exec, CallReply* reply);
  bool supported(const Kernel& kernel, const qkvet_forward_args& args,
                 CallReply* reply);
  // A call of forward() by way of a plan (door_plans.cpp).
  static bool is_planned(const Kernel& kernel, const CallPlan& plan);
  void planned(const Kernel& kernel, const CallPlan& plan,
               const qkvet_forward_args& args, qkvet_exec* exec, Held& held,
               CallReply* reply);
  // Whether there is a plan to run; if not, the reply has the reason.
  bool find_plan(const Kernel& kernel, const CallPlan& plan,
                 const qkvet_forward_args& args, const qkvet_exec& exec,
                 HeldPlan& held, CallReply* reply);
  static void destroy_plan(HeldPlan& held, CallReply* reply);
  void backward(const Kernel& kernel, const AbiCall& call, qkvet_exec* exec,
                CallReply* reply);
  const qkvet_forward_args* room_for_outputs(const Kernel& kernel,
                                             ForwardOutputs& given);
  // `workspace` is the kernel's function of this name, or null.
  template <class Args>
  using AskWorkspace = qkvet_status (*)(const qkvet_kernel*, qkvet_context*,
                                        const Args*, size_t*);
  template <class Args>
  bool give_workspace(const Kernel& kernel, AskWorkspace<Args> workspace,
                      const Args& args, qkvet_exec* exec, CallReply* reply);
  // The last thing of a call to a device is that all of its work is done.
  qkvet_status awaited(const Kernel& kernel, qkvet_status answer);
  // Null with the reason in *why.
  std::byte* workspace_memory(const Kernel& kernel, size_t bytes,
                              std::string* why);
  void check_workspace(const Kernel& kernel, CallReply* reply);
  void layer(const Kernel& kernel, const AbiCall& call, const qkvet_exec& exec,
             CallReply* reply);
  void layer_backward(const Kernel& kernel, const AbiCall& call,
                      const qkvet_exec& exec, CallReply* reply);
  void merge(const Kernel& kernel, const AbiCall& call, const qkvet_exec& exec,
             CallReply* reply);
  void create(const Kernel& kernel, const AbiCall& call, const qkvet_exec& exec,
              Held& held, CallReply* reply);
  static void destroy_cache(Held& held, CallReply* reply);
  void command(const Kernel& kernel, const CallPlan& plan, const AbiCall& call,
               const qkvet_exec& exec, Held& held, CallReply* reply);
  qkvet_status obey(const CallPlan& plan, const AbiCall& call,
                    const qkvet_exec& exec, const Held& held, qkvet_text* why,
                    CallReply* reply);
  static void ask_lengths(const Held& held, CallReply* reply);

  LibrarySpec library_;
  void* handle_ = nullptr;
  // In a library with the emulator of a GPU (simt/runtime.h): takes the
  // threads of the call to come.
  void (*emulator_)(int32_t threads) = nullptr;
  bool entered_ = false;
  qkvet_library table_{};
  std::vector<Kernel> kernels_;
  std::vector<KernelInfo> infos_;
  Workspace workspace_;
  Host host_;

  // Null until a kernel is called on it.
  DeviceDriver* driver_ = nullptr;
  DeviceTensors device_tensors_;
  DeviceWorkspace device_workspace_;
  DeviceBlock device_outputs_;  // o and lse of the call before a gradient
  void* stream_ = nullptr;
  std::string device_error_;  // of the call in progress

  Held held_;  // of the last create
};

}  // namespace qkvet

#endif  // QKVET_CORE_DOOR_DOOR_H_
