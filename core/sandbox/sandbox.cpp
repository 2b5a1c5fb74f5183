// SPDX-License-Identifier: Apache-2.0
// The executor that runs kernels in a process of their own. It never loads the
// library: all its information comes from the worker.
#include <sys/resource.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <set>
#include <vector>

#include "core/call/option_numbers.h"
#include "core/capability/capability.h"
#include "core/capability/option_table.h"
#include "core/door/arena.h"
#include "core/door/crash_report.h"
#include "core/door/door.h"
#include "core/door/executor.h"
#include "core/door/kernel_reader.h"
#include "core/sandbox/repeated_calls.h"
#include "core/sandbox/undeclared.h"
#include "core/sandbox/wire.h"
#include "core/sandbox/worker_process.h"
#include "core/story/running_story.h"

namespace qkvet {
namespace {

// Loading a library and opening a context are slow and happen once: they get
// this many times the CPU time of a call that is not slow.
constexpr double kLoadFactor = 10;

// Seconds without progress after which a waiting call is ended, if waits are
// ended: far longer than the pauses of a busy machine.
constexpr double kShortStall = 3;

// For kernels that are known to hang: the least CPU time of a hang, which a
// check of the clock every 10 ms can still measure, and its ratio to the
// longest call that ended, and to the oracle, which is no fast kernel.
constexpr double kExpectedHangFloor = 0.03;
constexpr double kTimesLongestCall = 5;
constexpr double kTimesOracle = 100;

// A call may take so many times what it takes at the measured pace of its
// kernel, and no more than so many times what one that is not slow may take.
constexpr double kTimesPace = 10;
constexpr double kMostTimesFloor = 30;

// A batch ends when its windows are this large, so that memory does not grow
// with the number of slots.
constexpr int64_t kBatchBytes = int64_t{16} << 20;

// All properties of a call except its data: a kernel may compile for them.
using Signature = std::vector<int64_t>;

Signature signature_of(int kernel, const KernelCall& call,
                       const CallPlan& plan) {
  Signature all = {kernel,
                   static_cast<int64_t>(call.operation),
                   static_cast<int64_t>(call.placement),
                   static_cast<int64_t>(options_in(call)),
                   static_cast<int64_t>(plan.fused),
                   static_cast<int64_t>(plan.rope),
                   plan.threads,
                   plan.page_size,
                   plan.channel_group,
                   plan.key_block_size,
                   plan.chunk,
                   plan.window ? plan.window->left : 0,
                   plan.window ? plan.window->right : 0};
  for (const OptionNumber& number : kOptionNumbers)
    all.push_back(std::bit_cast<int32_t>(plan.*number.in_call));
  for (const TensorSpec& tensor : plan.tensors) {
    all.push_back(tensor.ndim);
    all.push_back(static_cast<int64_t>(tensor.dtype));
    const auto rank = static_cast<size_t>(tensor.ndim);
    for (const Extents* extents : {&tensor.shape, &tensor.strides})
      all.insert(all.end(), extents->begin(), extents->begin() + rank);
  }
  for (const TensorPart& part : plan.parts) all.push_back(part.spec.ndim);
  return all;
}

// Also of the workers, which may lower the limit.
bool addresses_are_limited() {
  rlimit addresses{};
  getrlimit(RLIMIT_AS, &addresses);
  return addresses.rlim_cur != RLIM_INFINITY;
}

std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g s", seconds);
  return text;
}

class Sandbox : public Executor {
 public:
  Sandbox(const LibrarySpec& library, const SandboxOptions& options)
      : path_(library.path),
        interpreter_(library.interpreter),
        ends_waits_(library.ends_waits),
        program_(library.interpreter.empty()
                     ? options.worker
                     : "the package qkvet of " + library.interpreter),
        options_(options),
        worker_(library, options) {}

  std::string open();
  void undeclare_all() {
    for (KernelInfo& kernel : kernels_) undeclare(kernel);
  }

  const std::vector<KernelInfo>& kernels() const override { return kernels_; }
  std::vector<CallOutcome> run(int kernel,
                               std::span<const KernelCall> calls) override;
  double cpu_seconds() const override { return worker_.cpu_seconds_in_all(); }
  bool expect_hangs(int kernel) override;

 private:
  struct Entry {
    size_t call;  // its number in run()
    CallPlan plan;
    RunningStory story;  // as of this call
  };

  std::string start_worker();
  // Both return the number of the next call.
  size_t fill_batch(size_t next);
  size_t run_batch(size_t after);
  size_t blame(WaitEnd end, int32_t reached);
  void collect_until(int32_t slot);
  void send_batch();
  bool admit(const KernelCall& call, int slot, CallPlan* plan,
             CallOutcome* outcome);
  void collect(int slot);
  bool may_be_true(const Entry& entry, const CallOutcome& outcome) const;
  void report_end(WaitEnd end, int slot, CallOutcome* outcome);
  bool compiles(int32_t slot) const;
  // CPU time that one call may take.
  double cpu_limit_of(const Entry& entry) const;
  WaitLimits limits_of(int32_t slot) const;
  std::string limit_text(WaitEnd end, const WaitLimits& limits) const;
  const KernelInfo& info() const {
    return kernels_[static_cast<size_t>(kernel_)];
  }
  // A device and code that is compiled take their time, and so does an
  // interpreter that cannot be forked.
  bool restarts_quickly() const {
    return (interpreter_.empty() || worker_.forked()) && !on_device() &&
           !info().has_flag(QKVET_FLAG_COMPILES_PER_SHAPE);
  }
  bool on_device() const { return info().device() != QKVET_DEVICE_CPU; }

  std::string path_;
  std::string interpreter_;
  bool ends_waits_;
  std::string program_;  // that the worker runs
  SandboxOptions options_;
  std::unique_ptr<Arena> arena_;
  WorkerProcess worker_;
  std::vector<KernelInfo> kernels_;
  std::set<Signature> compiled_;  // by this worker
  std::set<int> hanging_;         // kernels that are known to hang
  std::set<int> opened_;          // kernels that have made a call
  double longest_call_ = 0;       // seconds, of calls that ended
  RunningStory story_;

  // The run in progress.
  int kernel_ = 0;
  std::span<const KernelCall> calls_;
  std::vector<CallOutcome> outcomes_;
  std::vector<Entry> batch_;
  bool died_outside_ = false;  // already once before its first call
  bool slow_end_ = false;      // a hang: the rest of the run is not made
};

std::string Sandbox::limit_text(WaitEnd end, const WaitLimits& limits) const {
  if (end == WaitEnd::kHang)
    return "no end after " + seconds_text(limits.cpu_seconds) + " of CPU time";
  if (end == WaitEnd::kStopped) return "stopped by a signal (SIGSTOP)";
  if (end == WaitEnd::kStalled)
    return "no progress for " + seconds_text(limits.stall_seconds);
  return "more than " + bytes_text(options_.resident_limit) +
         " of resident memory";
}

// "" or why there is no worker that holds the library.
std::string Sandbox::start_worker() {
  std::string error;
  compiled_.clear();
  if (!worker_.start(arena_->fd(), &error)) return error;
  const WaitLimits limits = {kLoadFactor * options_.hang_floor_seconds,
                             options_.stall_seconds, options_.stall_seconds};
  const WaitEnd end = worker_.wait([&] { return limits; });
  const auto state =
      static_cast<LoadState>(worker_.control().load_state.load());
  if (state == LoadState::kLoaded && end == WaitEnd::kDone) return "";
  if (state == LoadState::kMismatch)
    return program_ + " belongs to another build of this program";
  if (state == LoadState::kRefused) {
    worker_.stop();
    return worker_.info();
  }
  if (end == WaitEnd::kDied) {
    const std::string said = worker_.output();
    return path_ + ": " +
           death_text(worker_.control().crash, worker_.wait_status()) +
           " while it was loaded" + (said.empty() ? "" : "; it said: " + said);
  }
  worker_.stop();
  return path_ + ": " + limit_text(end, limits) + " while it was loaded";
}

std::string Sandbox::open() {
  std::string error;
  arena_ = Arena::create(&error);
  if (arena_ == nullptr || !worker_.prepare(&error)) return error;
  error = start_worker();
  if (!error.empty()) return one_line(error.c_str(), error.size());
  if (unpack_kernels(worker_.info(), &kernels_)) return "";
  return path_ + ": the worker's list of kernels cannot be read";
}

std::vector<CallOutcome> Sandbox::run(int kernel,
                                      std::span<const KernelCall> calls) {
  outcomes_.assign(calls.size(), {});
  calls_ = calls;
  kernel_ = kernel;
  died_outside_ = false;
  if (kernel < 0 || static_cast<size_t>(kernel) >= kernels_.size()) {
    for (CallOutcome& outcome : outcomes_) {
      outcome.status = CallStatus::kUnavailable;
      outcome.text = "no kernel has number " + std::to_string(kernel);
    }
    return std::move(outcomes_);
  }
  for (size_t next = 0; next < calls_.size();) {
    next = fill_batch(next);
    if (!batch_.empty()) next = run_batch(next);
    batch_.clear();
    arena_->trim();
    if (!std::exchange(slow_end_, false)) continue;
    for (; next < calls_.size(); ++next) {
      outcomes_[next] = {};
      outcomes_[next].status = CallStatus::kNotRun;
    }
  }
  return std::move(outcomes_);
}

bool Sandbox::admit(const KernelCall& call, int slot, CallPlan* plan,
                    CallOutcome* outcome) {
  if (!story_.goes_on(kernel_, call, outcome)) return false;
  outcome->status = CallStatus::kUnsupported;
  outcome->undeclared = !capability_allows(info(), call, &outcome->text);
  const bool good = !outcome->undeclared &&
                    plan_call(call, info(), plan, &outcome->text) &&
                    arena_->prepare(slot, *plan, call, &outcome->text);
  if (good)
    story_.made(kernel_, call, plan);
  else
    story_.left_out(call, *outcome);
  return good;
}

size_t Sandbox::fill_batch(size_t next) {
  int64_t bytes = 0;
  for (; next < calls_.size() && batch_.size() < kSlotCount; ++next) {
    if (bytes > kBatchBytes) break;
    // A call with same_place uses the first slot of a batch. A call in a new
    // process begins a batch, so that the old one has no calls left. A repeated
    // group is in one batch.
    const bool repeats = calls_[next].repeats > 0;
    const bool is_first =
        calls_[next].same_place || calls_[next].new_process ||
        (!batch_.empty() && repeats && batch_.back().plan.repeats == 0);
    if (is_first && !batch_.empty()) break;
    if (calls_[next].new_process && restarts_quickly()) worker_.stop();
    Entry entry{next, {}, {}};
    outcomes_[next] = {};
    const int slot = static_cast<int>(batch_.size());
    if (!admit(calls_[next], slot, &entry.plan, &outcomes_[next])) continue;
    bytes += entry.plan.window_total();
    entry.story = story_;
    batch_.push_back(std::move(entry));
    if (calls_[next].same_place) return next + 1;
  }
  return next;
}

void Sandbox::send_batch() {
  Control& control = worker_.control();
  for (size_t i = 0; i < batch_.size(); ++i) {
    Slot& slot = control.slots[i];
    slot.plan = batch_[i].plan;
    slot.address = {};
    slot.reply.clear();
    slot.reply.repeated = {};
  }
  control.kernel = kernel_;
  control.count = static_cast<int32_t>(batch_.size());
  control.current = -1;
  control.crash.signal = 0;
  control.crash.heap = {};
  worker_.forget_output();
  worker_.go();
}

// `after` is the first call that fill_batch() has not seen.
size_t Sandbox::run_batch(size_t after) {
  const std::string error = worker_.running() ? "" : start_worker();
  if (!error.empty()) {
    for (const Entry& entry : batch_) {
      outcomes_[entry.call].status = CallStatus::kUnavailable;
      outcomes_[entry.call].text = one_line(error.c_str(), error.size());
    }
    story_.lost();
    return after;
  }
  send_batch();
  const auto count = static_cast<int32_t>(batch_.size());
  const WaitEnd end = worker_.wait(
      [this] { return limits_of(worker_.control().current.load()); });
  const int32_t reached = worker_.control().current.load();
  if (end == WaitEnd::kDone || reached >= count) {
    collect_until(count);
    if (end != WaitEnd::kDone) story_.lost();
    return after;
  }
  return blame(end, reached);
}

// The process has ended in the middle of the batch. Calls after the culprit
// that were left out are considered again.
size_t Sandbox::blame(WaitEnd end, int32_t reached) {
  arena_->distrust_outputs();
  const int slot = std::max(reached, 0);
  story_ = batch_[static_cast<size_t>(slot)].story;
  story_.lost();
  if (reached < 0) {
    // It died while it was idle, or before its first call: the first time no
    // call is blamed.
    if (!std::exchange(died_outside_, true)) return batch_.front().call;
  } else {
    died_outside_ = false;
  }
  collect_until(slot);
  const size_t culprit = batch_[static_cast<size_t>(slot)].call;
  report_end(end, slot, &outcomes_[culprit]);
  return culprit + 1;
}

void Sandbox::collect_until(int32_t slot) {
  for (int i = 0; i < slot; ++i) collect(i);
}

// False: the kernel has written over a reply, to be excused from the call. Only
// its own refusals count against it, so all other excuses must be true.
bool Sandbox::may_be_true(const Entry& entry,
                          const CallOutcome& outcome) const {
  if (on_device()) return true;
  const CallPlan& plan = entry.plan;
  switch (outcome.status) {
    case CallStatus::kUnavailable:
      return !opened_.contains(kernel_) || plan.at_once;
    case CallStatus::kUnsupported:
      return outcome.asked_kernel || plan.has_far() || addresses_are_limited();
    case CallStatus::kNotRun:  // the call before it has left nothing to act on
      return plan.plan_use != PlanUse::kNone ||
             (plan.operation > Operation::kCacheCreate &&
              plan.operation <= Operation::kCacheReadBack && entry.call > 0 &&
              outcomes_[entry.call - 1].status != CallStatus::kDone);
    case CallStatus::kHang:
      return false;
    default:
      return true;
  }
}

void Sandbox::collect(int number) {
  const Entry& entry = batch_[static_cast<size_t>(number)];
  CallOutcome& outcome = outcomes_[entry.call];
  outcome = outcome_of(
      worker_.control().slots[static_cast<size_t>(number)].reply, entry.plan);
  outcome.on_device = on_device();
  longest_call_ = std::max(longest_call_, outcome.seconds);
  arena_->collect(number, entry.plan, &outcome);
  if (outcome.status == CallStatus::kDone) opened_.insert(kernel_);
  if (!may_be_true(entry, outcome)) {
    outcome.status = CallStatus::kCrash;
    outcome.text = kOverwritten;
  }
  if (outcome.status == CallStatus::kUnavailable)
    kernels_[static_cast<size_t>(kernel_)].unavailable = outcome.text;
  if (outcome.status == CallStatus::kDone &&
      info().has_flag(QKVET_FLAG_COMPILES_PER_SHAPE))
    compiled_.insert(signature_of(kernel_, calls_[entry.call], entry.plan));
}

void Sandbox::report_end(WaitEnd end, int slot, CallOutcome* outcome) {
  const Entry& entry = batch_[static_cast<size_t>(slot)];
  const Control& control = worker_.control();
  *outcome = {};
  outcome->on_device = on_device();
  outcome->output = worker_.output();
  int first = slot;  // of its group, which counts
  while (first > 0 && entry.plan.repeats > 0 &&
         batch_[static_cast<size_t>(first - 1)].plan.repeats > 0)
    --first;
  outcome->repeated.made =
      control.slots[static_cast<size_t>(first)].reply.repeated.made;
  if (end == WaitEnd::kDied) {
    report_death(entry.plan, control.slots[static_cast<size_t>(slot)],
                 control.crash, worker_.wait_status(), outcome);
    return;
  }
  slow_end_ = true;
  outcome->status =
      end == WaitEnd::kTooLarge ? CallStatus::kOutOfMemory : CallStatus::kHang;
  outcome->text = limit_text(end, limits_of(slot));
}

// Whether the slot's call is the first of its shape for a kernel that compiles.
bool Sandbox::compiles(int32_t slot) const {
  if (!info().has_flag(QKVET_FLAG_COMPILES_PER_SHAPE)) return false;
  const auto of_slot = [this](int32_t n) {
    const Entry& entry = batch_[static_cast<size_t>(n)];
    return signature_of(kernel_, calls_[entry.call], entry.plan);
  };
  const Signature signature = of_slot(slot);
  if (compiled_.contains(signature)) return false;
  for (int32_t i = 0; i < slot; ++i)
    if (of_slot(i) == signature) return false;
  return true;
}

bool Sandbox::expect_hangs(int kernel) {
  if (kernel < 0 || static_cast<size_t>(kernel) >= kernels_.size())
    return false;
  kernel_ = kernel;
  if (restarts_quickly()) hanging_.insert(kernel);
  return hanging_.contains(kernel);
}

double Sandbox::cpu_limit_of(const Entry& entry) const {
  const double oracle = calls_[entry.call].oracle_seconds;
  const double at_its_pace = kTimesPace * calls_[entry.call].expected_seconds;
  const double repeats = entry.plan.repeats > 0 ? kMostSecondsOfRepeats : 0;
  const double patient =
      std::max({options_.hang_floor_seconds, options_.hang_factor * oracle,
                std::min(at_its_pace,
                         kMostTimesFloor * options_.hang_floor_seconds)}) +
      repeats;
  if (!hanging_.contains(kernel_)) return patient;
  return std::min(patient,
                  std::max({kExpectedHangFloor, kTimesOracle * oracle,
                            kTimesLongestCall * longest_call_, at_its_pace}) +
                      repeats);
}

WaitLimits Sandbox::limits_of(int32_t slot) const {
  WaitLimits limits = {options_.hang_floor_seconds, options_.stall_seconds,
                       options_.stall_seconds};
  if (ends_waits_ && !interpreter_.empty() && !on_device())
    limits.stall_seconds = std::min(limits.stall_seconds, kShortStall);
  if (slot < 0 || static_cast<size_t>(slot) >= batch_.size()) return limits;
  const auto& entry = batch_[static_cast<size_t>(slot)];
  limits.cpu_seconds = cpu_limit_of(entry);
  // The time of all calls made at once is counted for the first of them.
  double group = 0;
  auto end = static_cast<size_t>(slot);
  for (; end < batch_.size() && batch_[end].plan.at_once; ++end)
    group += Door::kLeastMakings * cpu_limit_of(batch_[end]);
  if (end > static_cast<size_t>(slot) + 1) limits.cpu_seconds = group;
  const Slot& shared = worker_.control().slots[static_cast<size_t>(slot)];
  if (shared.reply.phase.load() == static_cast<uint32_t>(Phase::kOpen))
    limits.cpu_seconds =
        std::max(limits.cpu_seconds, kLoadFactor * options_.hang_floor_seconds);
  if (compiles(slot)) {
    limits.cpu_seconds = std::max(limits.cpu_seconds, options_.compile_seconds);
    limits.stall_seconds = limits.stall_with_children =
        std::max(limits.stall_with_children, options_.compile_seconds);
  }
  return limits;
}

std::unique_ptr<Sandbox> opened_sandbox(const LibrarySpec& library,
                                        const SandboxOptions& options,
                                        std::string* error) {
  *error = library.entry == nullptr
               ? ""
               : library.path +
                     ": is linked into this program: a worker cannot open it";
  if (!error->empty()) return nullptr;
  auto sandbox = std::make_unique<Sandbox>(library, options);
  *error = sandbox->open();
  return error->empty() ? std::move(sandbox) : nullptr;
}

}  // namespace

Opened open_sandbox(const LibrarySpec& library, const SandboxOptions& options) {
  std::string error;
  std::unique_ptr<Executor> sandbox = opened_sandbox(library, options, &error);
  return {std::move(sandbox), std::move(error)};
}

Opened open_undeclared(const LibrarySpec& library,
                       const SandboxOptions& options) {
  std::string error;
  auto sandbox = opened_sandbox(library, options, &error);
  if (sandbox != nullptr) sandbox->undeclare_all();
  return {std::move(sandbox), std::move(error)};
}

}  // namespace qkvet
