// SPDX-License-Identifier: Apache-2.0
// The executor without a separate process: for debuggers, sanitizers and
// profilers. The kernel sees the same hostile buffers, but nothing contains its
// effects on the process.
#include <ctime>

#include "core/capability/capability.h"
#include "core/door/arena.h"
#include "core/door/door.h"
#include "core/door/executor.h"
#include "core/sandbox/repeated_calls.h"
#include "core/story/running_story.h"

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
    for (size_t i = 0; i < calls.size();) {
      size_t end = i;
      const bool repeats = calls[i].repeats > 0;
      while (end < calls.size() &&
             (repeats ? calls[end].repeats > 0 : calls[end].at_once) &&
             end - i < size_t{kSlotCount})
        ++end;
      if (repeats || end - i > 1) {
        run_together(kernel, calls.subspan(i, end - i), &outcomes);
      } else {
        outcomes.push_back(run_one(kernel, calls[i]));
        end = i + 1;
      }
      i = end;
    }
    return outcomes;
  }

 private:
  static constexpr int kSlot = 0;

  CallOutcome run_one(int kernel, const KernelCall& call);
  void run_together(int kernel, std::span<const KernelCall> calls,
                    std::vector<CallOutcome>* outcomes);
  bool exists(int number, CallOutcome* outcome) const;
  bool admit(int number, int slot, const KernelCall& call, CallPlan* plan,
             TensorAddresses* addresses, CallOutcome* outcome);
  CallOutcome collect(int number, int slot, const CallPlan& plan,
                      const CallReply& reply);

  std::unique_ptr<Arena> arena_;
  std::unique_ptr<Door> door_;
  WindowTable windows_;
  std::vector<KernelInfo> kernels_;
  RunningStory story_;
};

bool InProcess::exists(int number, CallOutcome* outcome) const {
  if (number >= 0 && static_cast<size_t>(number) < kernels_.size()) return true;
  outcome->status = CallStatus::kUnavailable;
  outcome->text = "no kernel has number " + std::to_string(number);
  return false;
}

bool InProcess::admit(int number, int slot, const KernelCall& call,
                      CallPlan* plan, TensorAddresses* addresses,
                      CallOutcome* outcome) {
  const KernelInfo& info = kernels_[static_cast<size_t>(number)];
  outcome->status = CallStatus::kUnsupported;
  outcome->undeclared = !capability_allows(info, call, &outcome->text);
  if (outcome->undeclared) return false;
  if (!plan_call(call, info, plan, &outcome->text) ||
      !arena_->prepare(slot, *plan, call, &outcome->text))
    return false;
  return windows_.locate(slot, *plan, addresses, &outcome->text);
}

CallOutcome InProcess::run_one(int number, const KernelCall& call) {
  CallOutcome outcome;
  if (!exists(number, &outcome)) return outcome;
  if (!story_.goes_on(number, call, &outcome)) return outcome;
  windows_.forget_far();
  CallPlan plan;
  TensorAddresses addresses{};
  if (!admit(number, kSlot, call, &plan, &addresses, &outcome)) {
    story_.left_out(call, outcome);
    return outcome;
  }
  story_.made(number, call, &plan);
  CallReply reply;
  door_->call(number, plan, addresses, &reply);
  outcome = collect(number, kSlot, plan, reply);
  arena_->trim();
  return outcome;
}

CallOutcome InProcess::collect(int number, int slot, const CallPlan& plan,
                               const CallReply& reply) {
  KernelInfo& kernel = kernels_[static_cast<size_t>(number)];
  CallOutcome outcome = outcome_of(reply, plan);
  outcome.on_device = kernel.device() != QKVET_DEVICE_CPU;
  arena_->collect(slot, plan, &outcome);
  if (outcome.status == CallStatus::kUnavailable)
    kernel.unavailable = outcome.text;
  return outcome;
}

void InProcess::run_together(int number, std::span<const KernelCall> calls,
                             std::vector<CallOutcome>* outcomes) {
  struct OneOfThem {
    CallPlan plan;
    TensorAddresses addresses{};
    CallReply reply;
    CallOutcome outcome;
    bool admitted = false;
  };
  std::vector<OneOfThem> seats(calls.size());
  std::vector<CallAtOnce> together;
  windows_.forget_far();
  for (size_t n = 0; n < calls.size(); ++n) {
    OneOfThem& seat = seats[n];
    if (!exists(number, &seat.outcome) ||
        !story_.goes_on(number, calls[n], &seat.outcome))
      continue;
    seat.admitted = admit(number, static_cast<int>(n), calls[n], &seat.plan,
                          &seat.addresses, &seat.outcome);
    if (seat.admitted) {
      story_.made(number, calls[n], &seat.plan);
      together.push_back({&seat.plan, &seat.addresses, &seat.reply});
    } else {
      story_.left_out(calls[n], seat.outcome);
    }
  }
  if (!together.empty() && calls[0].repeats > 0)
    repeat_calls(
        kernels_[static_cast<size_t>(number)], together,
        [&](size_t n) {
          door_->call(number, *together[n].plan, *together[n].addresses,
                      together[n].reply);
        },
        /*live_bytes=*/nullptr);
  else if (!together.empty())
    door_->call_at_once(number, together);
  for (size_t n = 0; n < calls.size(); ++n) {
    OneOfThem& seat = seats[n];
    outcomes->push_back(seat.admitted ? collect(number, static_cast<int>(n),
                                                seat.plan, seat.reply)
                                      : std::move(seat.outcome));
  }
  arena_->trim();
}

}  // namespace

bool Executor::expect_hangs(int /*kernel*/) { return false; }

double Executor::cpu_seconds() const {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) +
         1e-9 * static_cast<double>(time.tv_nsec);
}

Opened open_in_process(const LibrarySpec& library) {
  std::string error;
  std::unique_ptr<Arena> arena = Arena::create(&error);
  if (arena == nullptr) return {nullptr, error};
  std::unique_ptr<Door> door = Door::open(library, &error);
  if (door == nullptr) return {nullptr, error};
  return {std::make_unique<InProcess>(std::move(arena), std::move(door)), ""};
}

}  // namespace qkvet
