// SPDX-License-Identifier: Apache-2.0
// The executor without a process of its own: for debuggers, sanitizers and
// profilers. The kernel sees the same hostile buffers; nobody catches what it
// does to the process.
#include "core/arena.h"
#include "core/capability.h"
#include "core/door.h"
#include "core/executor.h"
#include "core/running_story.h"

namespace qkvet {
namespace {

class InProcess : public Executor {
 public:
  InProcess(std::unique_ptr<Arena> arena, std::unique_ptr<Door> door)
      : arena_(std::move(arena)),
        door_(std::move(door)),
        windows_(arena_->fd(), WindowTable::Side::kKernel),
        kernels_(door_->kernels()) {}

  const std::vector<KernelInfo>& kernels() const override { return kernels_; }

  std::vector<CallOutcome> run(int kernel,
                               std::span<const KernelCall> calls) override {
    std::vector<CallOutcome> outcomes;
    outcomes.reserve(calls.size());
    for (const KernelCall& call : calls)
      outcomes.push_back(run_one(kernel, call));
    return outcomes;
  }

 private:
  static constexpr int kSlot = 0;

  CallOutcome run_one(int kernel, const KernelCall& call);
  bool admit(int number, const KernelCall& call, CallPlan* plan,
             TensorAddresses* addresses, CallOutcome* outcome);

  std::unique_ptr<Arena> arena_;
  std::unique_ptr<Door> door_;
  WindowTable windows_;
  std::vector<KernelInfo> kernels_;
  RunningStory story_;
};

bool InProcess::admit(int number, const KernelCall& call, CallPlan* plan,
                      TensorAddresses* addresses, CallOutcome* outcome) {
  const KernelInfo& info = kernels_[static_cast<size_t>(number)];
  outcome->status = CallStatus::kUnsupported;
  if (!capability_allows(info, call, &outcome->text)) return false;
  outcome->status = CallStatus::kOutOfMemory;
  if (!plan_call(call, info, plan, &outcome->text) ||
      !arena_->prepare(kSlot, *plan, call, &outcome->text))
    return false;
  if (windows_.locate(kSlot, *plan, addresses)) return true;
  outcome->text = "no address space for this call's tensors";
  return false;
}

CallOutcome InProcess::run_one(int number, const KernelCall& call) {
  CallOutcome outcome;
  outcome.status = CallStatus::kUnavailable;
  if (number < 0 || static_cast<size_t>(number) >= kernels_.size()) {
    outcome.text = "no kernel has number " + std::to_string(number);
    return outcome;
  }
  if (!story_.goes_on(number, call, &outcome)) return outcome;
  CallPlan plan;
  TensorAddresses addresses{};
  if (!admit(number, call, &plan, &addresses, &outcome)) {
    story_.left_out(call, outcome);
    return outcome;
  }
  story_.made(number, call, &plan);
  CallReply reply;
  door_->call(number, plan, addresses, &reply);
  outcome = outcome_of(reply, plan);
  outcome.on_device =
      kernels_[static_cast<size_t>(number)].device() != QKVET_DEVICE_CPU;
  arena_->collect(kSlot, plan, &outcome);
  arena_->trim();
  if (outcome.status == CallStatus::kUnavailable)
    kernels_[static_cast<size_t>(number)].unavailable = outcome.text;
  return outcome;
}

}  // namespace

Opened open_in_process(const LibrarySpec& library) {
  std::string error;
  std::unique_ptr<Arena> arena = Arena::create(&error);
  if (arena == nullptr) return {nullptr, error};
  std::unique_ptr<Door> door = Door::open(library, &error);
  if (door == nullptr) return {nullptr, error};
  return {std::make_unique<InProcess>(std::move(arena), std::move(door)), ""};
}

}  // namespace qkvet
