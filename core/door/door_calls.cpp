// SPDX-License-Identifier: Apache-2.0
// The calls of the door: which functions of a kernel are called, in which
// order, and what the returned statuses mean.
#include <algorithm>
#include <utility>

#include "core/base/machine.h"
#include "core/call/cache_function.h"
#include "core/door/door.h"
#include "core/door/door_answers.h"
#include "core/door/door_timed.h"
#include "core/door/forward_outputs.h"
#include "core/door/guarded.h"
#include "core/door/kernel_reader.h"

namespace qkvet {
namespace {

// Also called after a refusal, like ask_lengths().
void ask_memory(const qkvet_kernel* self, const qkvet_cache_table& table,
                qkvet_cache* cache, CallReply* reply) {
  if (table.memory == nullptr) return;
  const FpEnvironment before = fp_environment();
  reply->enter(Phase::kMemory);
  int64_t bytes = -1;  // no cache takes so little
  Reason reason(reply);
  const qkvet_status status = table.memory(self, cache, &bytes, reason.text());
  reply->enter(Phase::kOutside);
  restore_fp_environment(before);
  if (status != QKVET_OK)
    return refuse(reply, CallStatus::kRefused, "memory", status, reason);
  if (bytes < 0)
    return reply->answer(
        CallStatus::kRefused,
        "memory() returns " + std::to_string(bytes) + " bytes are allocated");
  reply->cache_bytes = bytes;
}

}  // namespace

bool Door::open_context(Kernel& kernel, CallReply* reply) {
  if (!kernel.opened && kernel.device != QKVET_DEVICE_CPU) {
    reply->enter(Phase::kOpen);
    kernel.open_text = open_device();
    if (!kernel.open_text.empty()) kernel.open_status = QKVET_UNAVAILABLE;
    reply->enter(Phase::kOutside);
  }
  if (!kernel.opened && kernel.open_status == QKVET_OK &&
      kernel.table.open != nullptr) {
    const FpEnvironment before = fp_environment();
    reply->enter(Phase::kOpen);
    Reason reason(reply);
    const qkvet_exec exec = kernel.exec(/*threads=*/1);
    kernel.open_status =
        kernel.table.open(kernel.self, &exec, &kernel.context, reason.text());
    kernel.open_text = reason.line();
    if (kernel.open_text.empty() && kernel.open_status != QKVET_OK)
      kernel.open_text = status_line("open", kernel.open_status, "");
    reply->enter(Phase::kOutside);
    restore_fp_environment(before);
  }
  kernel.opened = true;
  if (kernel.open_status == QKVET_OK) return true;
  reply->answer(CallStatus::kUnavailable, kernel.open_text);
  return false;
}

bool Door::supported(const Kernel& kernel, const qkvet_forward_args& args,
                     CallReply* reply) {
  if (kernel.table.supports == nullptr) return true;
  reply->enter(Phase::kSupports);
  Reason reason(reply);
  const qkvet_status status =
      kernel.table.supports(kernel.self, &args, reason.text());
  if (status == QKVET_OK) return true;
  answer_unsupported(reply, "supports", status, reason);
  return false;
}

std::byte* Door::workspace_memory(const Kernel& kernel, size_t bytes,
                                  std::string* why) {
  constexpr size_t kSmall = size_t{32} << 20;  // not worth asking the system
  constexpr size_t kMost = size_t{1} << 60;
  if (kernel.device != QKVET_DEVICE_CPU) {
    const auto size = static_cast<int64_t>(std::min(bytes, kMost));
    return device_workspace_.prepare(*driver_, size, why);
  }
  const auto most =
      kSmall >= bytes ? bytes : static_cast<size_t>(available_memory());
  Workspace& own = kernel.workspace != nullptr ? *kernel.workspace : workspace_;
  return bytes <= most ? own.prepare(static_cast<int64_t>(bytes)) : nullptr;
}

template <class Args>
bool Door::give_workspace(const Kernel& kernel, AskWorkspace<Args> workspace,
                          const Args& args, qkvet_exec* exec,
                          CallReply* reply) {
  if (workspace == nullptr) return true;
  reply->enter(Phase::kWorkspace);
  size_t bytes = 0;
  const qkvet_status status =
      workspace(kernel.self, kernel.context, &args, &bytes);
  reply->enter(Phase::kOutside);
  if (status != QKVET_OK)
    reply->answer(CallStatus::kRefused, status_line("workspace", status, ""));
  if (status != QKVET_OK || bytes == 0) return status == QKVET_OK;
  std::string why;
  std::byte* const memory = workspace_memory(kernel, bytes, &why);
  if (memory == nullptr) {
    reply->answer(CallStatus::kOutOfMemory,
                  "workspace() asks for " + std::to_string(bytes) + " bytes" +
                      (why.empty() ? "" : ": " + why));
    return false;
  }
  exec->workspace = memory;
  exec->workspace_size = bytes;
  reply->workspace = reinterpret_cast<uint64_t>(memory);
  reply->workspace_bytes = static_cast<int64_t>(bytes);
  return true;
}

bool Door::is_ready(const Kernel& kernel, const qkvet_forward_args& args,
                    qkvet_exec* exec, CallReply* reply) {
  const FpEnvironment before = fp_environment();
  const bool ready =
      supported(kernel, args, reply) &&
      give_workspace(kernel, kernel.table.workspace, args, exec, reply);
  // The call is not charged for changes that supports() made.
  restore_fp_environment(before);
  return ready;
}

void Door::forward(const Kernel& kernel, const qkvet_forward_args& args,
                   qkvet_exec* exec, CallReply* reply) {
  if (!is_ready(kernel, args, exec, reply)) return;
  Reason reason(reply);
  const qkvet_status status = timed(Phase::kForward, reply, [&] {
    return awaited(kernel, kernel.table.forward(kernel.self, kernel.context,
                                                &args, exec, reason.text()));
  });
  if (status == QKVET_UNSUPPORTED && kernel.refuses_in_call) {
    answer_unsupported(reply, "forward", status, reason);
    return;
  }
  conclude(reply, refusal_of(status), "forward", status, reason);
  if (exec->workspace != nullptr) check_workspace(kernel, reply);
}

qkvet_status Door::awaited(const Kernel& kernel, qkvet_status answer) {
  if (kernel.device != QKVET_DEVICE_CPU) device_error_ = driver_->synchronize();
  return answer;
}

// Provides the memory for the kernel's o and lse. Null: there is no room.
const qkvet_forward_args* Door::room_for_outputs(const Kernel& kernel,
                                                 ForwardOutputs& given) {
  if (kernel.device == QKVET_DEVICE_CPU) return &given.own_outputs();
  if (!device_outputs_.reserve(*driver_, given.bytes()).empty()) return nullptr;
  return &given.outputs_in(device_outputs_.begin());
}

// supports() is only about forward(): backward() itself refuses what it does
// not do.
void Door::backward(const Kernel& kernel, const AbiCall& call, qkvet_exec* exec,
                    CallReply* reply) {
  qkvet_backward_args args = call.backward();
  const FpEnvironment before = fp_environment();
  ForwardOutputs given(*args.forward, kernel.alignment);
  if (args.forward->dropout_p > 0) {
    const qkvet_forward_args* const first = room_for_outputs(kernel, given);
    if (first == nullptr)
      return reply->answer(CallStatus::kOutOfMemory,
                           "the device has no room for o and lse");
    forward(kernel, *first, exec, reply);
    const bool done = reply->status == static_cast<uint32_t>(CallStatus::kDone);
    if (!done || reply->workspace_damaged != 0) return;
    args.forward = &given.as_given();
    exec->workspace = nullptr;
    exec->workspace_size = 0;
  }
  const bool ready =
      give_workspace(kernel, kernel.backward.workspace, args, exec, reply);
  restore_fp_environment(before);
  if (!ready) return;
  Reason reason(reply);
  const qkvet_status status = timed(Phase::kBackward, reply, [&] {
    return awaited(kernel,
                   kernel.backward.backward(kernel.self, kernel.context, &args,
                                            exec, reason.text()));
  });
  conclude(reply, meaning_of(status), "backward", status, reason);
  if (exec->workspace != nullptr) check_workspace(kernel, reply);
}

void Door::check_workspace(const Kernel& kernel, CallReply* reply) {
  std::optional<int64_t> damage;
  if (kernel.device == QKVET_DEVICE_CPU)
    damage =
        (kernel.workspace != nullptr ? *kernel.workspace : workspace_).damage();
  else if (device_error_.empty())
    damage = device_workspace_.damage(*driver_, &device_error_);
  reply->workspace_damaged = damage.has_value() ? 1 : 0;
  reply->workspace_damage = damage.value_or(0);
}

void Door::layer(const Kernel& kernel, const AbiCall& call,
                 const qkvet_exec& exec, CallReply* reply) {
  Reason reason(reply);
  const qkvet_status status = timed(Phase::kLayer, reply, [&] {
    return kernel.layer.forward(kernel.self, kernel.context, &call.layer(),
                                &exec, reason.text());
  });
  conclude(reply, meaning_of(status), "the layer's forward", status, reason);
}

void Door::layer_backward(const Kernel& kernel, const AbiCall& call,
                          const qkvet_exec& exec, CallReply* reply) {
  Reason reason(reply);
  const qkvet_status status = timed(Phase::kLayerBackward, reply, [&] {
    return kernel.backward.layer_backward(kernel.self, kernel.context,
                                          &call.layer_backward(), &exec,
                                          reason.text());
  });
  conclude(reply, meaning_of(status), "layer_backward", status, reason);
}

void Door::merge(const Kernel& kernel, const AbiCall& call,
                 const qkvet_exec& exec, CallReply* reply) {
  Reason reason(reply);
  const qkvet_status status = timed(Phase::kMerge, reply, [&] {
    return kernel.merge.merge(kernel.self, kernel.context, &call.merge(), &exec,
                              reason.text());
  });
  conclude(reply, meaning_of(status), "merge", status, reason);
}

void Door::destroy_cache(Held& held, CallReply* reply) {
  if (held.cache == nullptr) return;
  // Forgotten first: what dies of it is not tried again.
  qkvet_cache* const cache = std::exchange(held.cache, nullptr);
  const FpEnvironment before = fp_environment();
  reply->enter(Phase::kDestroy);
  held.keeper->cache.destroy(held.keeper->self, cache);
  reply->enter(Phase::kOutside);
  restore_fp_environment(before);
}

void Door::create(const Kernel& kernel, const AbiCall& call,
                  const qkvet_exec& exec, Held& held, CallReply* reply) {
  const qkvet_cache_config& config = call.create();
  Reason reason(reply);
  const qkvet_status status = timed(Phase::kCreate, reply, [&] {
    return kernel.cache.create(kernel.self, kernel.context, &config, &exec,
                               &held.cache, reason.text());
  });
  if (status != QKVET_OK) {
    held.cache = nullptr;
    return refuse(reply, meaning_of(status), "create", status, reason);
  }
  if (held.cache == nullptr)
    return reply->answer(CallStatus::kRefused,
                         "create() returned OK and no cache");
  held.keeper = &kernel;
  held.sequences = std::min(config.sequences, kMostCacheSequences);
  reply->answer(CallStatus::kDone, "");
  ask_lengths(held, reply);
}

qkvet_status Door::obey(const CallPlan& plan, const AbiCall& call,
                        const qkvet_exec& exec, const Held& held,
                        qkvet_text* why, CallReply* reply) {
  const Kernel& kernel = *held.keeper;
  switch (plan.operation) {
    case Operation::kCacheReset:
      return timed(Phase::kReset, reply, [&] {
        return kernel.cache.reset(kernel.self, held.cache, plan.sequence, why);
      });
    case Operation::kCacheTruncate:
      return timed(Phase::kTruncate, reply, [&] {
        return kernel.cache.truncate(kernel.self, held.cache, plan.sequence,
                                     plan.tokens, why);
      });
    case Operation::kCacheEvict:
      return timed(Phase::kEvict, reply, [&] {
        return kernel.cache.evict(kernel.self, held.cache, plan.sequence,
                                  plan.first, plan.tokens, why);
      });
    case Operation::kCacheFork:
      return timed(Phase::kFork, reply, [&] {
        return kernel.cache.fork(kernel.self, held.cache, plan.sequence,
                                 plan.other, why);
      });
    case Operation::kCacheReorder:
      return timed(Phase::kReorder, reply, [&] {
        return kernel.cache.reorder(kernel.self, held.cache,
                                    plan.parents.data(), why);
      });
    case Operation::kCacheReadBack:
      return timed(Phase::kReadBack, reply, [&] {
        return kernel.cache.read_back(kernel.self, held.cache, plan.sequence,
                                      &call.read_k(), &call.read_v(), why);
      });
    default:
      return timed(Phase::kStep, reply, [&] {
        return kernel.cache.step(kernel.self, held.cache, &call.step(), &exec,
                                 why);
      });
  }
}

void Door::command(const Kernel& kernel, const CallPlan& plan,
                   const AbiCall& call, const qkvet_exec& exec, Held& held,
                   CallReply* reply) {
  if (held.cache == nullptr || held.keeper != &kernel)
    return reply->answer(CallStatus::kNotRun, "there is no cache to act on");
  const CacheFunction function = function_of(kernel.cache, plan.operation);
  if (!function.offered)
    return reply->answer(CallStatus::kUnsupported,
                         std::string(function.name) + " is not offered");
  Reason reason(reply);
  const qkvet_status status =
      obey(plan, call, exec, held, reason.text(), reply);
  // Too many tokens are OUT_OF_MEMORY: a refusal like any other.
  conclude(reply, CallStatus::kRefused, function.name, status, reason);
  ask_lengths(held, reply);
}

// Also after a refusal, which must leave the cache as it was.
void Door::ask_lengths(const Held& held, CallReply* reply) {
  const FpEnvironment before = fp_environment();
  reply->enter(Phase::kLength);
  Reason reason(reply);  // of the one that fails, which is the last
  for (int64_t s = 0; s < held.sequences; ++s) {
    int64_t tokens = -1;  // no cache is this short
    const qkvet_status status = held.keeper->cache.length(
        held.keeper->self, held.cache, s, &tokens, reason.text());
    reply->lengths[static_cast<size_t>(s)] = tokens;
    if (status == QKVET_OK) continue;
    refuse(reply, CallStatus::kRefused, "length", status, reason);
    restore_fp_environment(before);
    return;
  }
  reply->enter(Phase::kOutside);
  restore_fp_environment(before);
  reply->lengths_known = 1;
  ask_memory(held.keeper->self, held.keeper->cache, held.cache, reply);
}

qkvet_exec Door::Kernel::exec(int32_t threads) const {
  qkvet_exec exec = plain_exec(threads, device);
  exec.deterministic =
      (self->capabilities->flags & QKVET_FLAG_NONDETERMINISTIC) == 0 ? 1 : 0;
  return exec;
}

void Door::make(const Kernel& kernel, const CallPlan& plan,
                const TensorAddresses& addresses, Held& held,
                CallReply* reply) {
  const AbiCall call(plan, addresses);
  qkvet_exec exec = kernel.exec(plan.threads);
  switch (plan.operation) {
    case Operation::kForward:
      if (is_planned(kernel, plan))
        planned(kernel, plan, call.forward(), &exec, held, reply);
      else
        forward(kernel, call.forward(), &exec, reply);
      break;
    case Operation::kBackward:
      backward(kernel, call, &exec, reply);
      break;
    case Operation::kLayer:
      layer(kernel, call, exec, reply);
      break;
    case Operation::kLayerBackward:
      layer_backward(kernel, call, exec, reply);
      break;
    case Operation::kMerge:
      merge(kernel, call, exec, reply);
      break;
    case Operation::kCacheCreate:
      create(kernel, call, exec, held, reply);
      break;
    default:
      command(kernel, plan, call, exec, held, reply);
  }
  reply->enter(Phase::kOutside);
}

void Door::call(int number, const CallPlan& plan,
                const TensorAddresses& addresses, CallReply* reply) noexcept {
  Kernel& kernel = kernels_[static_cast<size_t>(number)];
  reply->clear();
  host_.allow_threads(plan.threads);
  if (plan.operation == Operation::kCacheCreate) destroy_cache(held_, reply);
  if (!open_context(kernel, reply)) return;
  if (kernel.device != QKVET_DEVICE_CPU)
    return call_on_device(kernel, plan, addresses, reply);
  if (emulator_ != nullptr) emulator_(plan.threads);
  if (!plan.second_context) return make(kernel, plan, addresses, held_, reply);
  Kernel second = kernel;
  if (find_context(kernel, 1, &second.context, reply))
    make(second, plan, addresses, held_, reply);
}

}  // namespace qkvet
