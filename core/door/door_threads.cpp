// SPDX-License-Identifier: Apache-2.0
// Calls that are made at once.
#include <atomic>
#include <cstring>
#include <system_error>
#include <thread>

#include "core/base/machine.h"
#include "core/door/door.h"
#include "core/door/door_answers.h"

namespace qkvet {
namespace {

// How often all calls are made at once: they begin together, and how they meet
// is left to chance.
constexpr int kRounds = 8;

bool is_done(const CallReply& reply) {
  return reply.status == static_cast<uint32_t>(CallStatus::kDone);
}

// What the call wrote, output by output, gaps included.
std::vector<std::byte> written_by(const CallAtOnce& call) {
  std::vector<std::byte> all;
  for (auto t = static_cast<size_t>(TensorName::kO); t < kTensorCount; ++t) {
    const TensorSpec& spec = call.plan->tensors[t];
    if (!spec.present()) continue;
    const std::byte* const from = (*call.addresses)[t];
    all.insert(all.end(), from, from + spec.span_bytes());
  }
  return all;
}

// Where threads meet in front of every round, unless one of them has stopped.
class Rounds {
 public:
  explicit Rounds(size_t threads) : threads_(static_cast<int64_t>(threads)) {}

  bool begin(int round) {
    ++arrived_;
    while (arrived_ < (round + 1) * threads_ && !stopped_)
      std::this_thread::yield();
    return !stopped_;
  }
  void stop() { stopped_ = true; }

 private:
  int64_t threads_;
  std::atomic<int64_t> arrived_{0};
  std::atomic<bool> stopped_{false};
};

}  // namespace

bool Door::find_context(Kernel& kernel, size_t n, qkvet_context** context,
                        CallReply* reply) {
  *context = kernel.context;
  if (n == 0 || kernel.table.open == nullptr) return true;
  while (kernel.more_contexts.size() < n) {
    qkvet_context* next = nullptr;
    Reason reason;
    const FpEnvironment before = fp_environment();
    reply->enter(Phase::kOpen);
    const qkvet_exec exec = kernel.exec(/*threads=*/1);
    const qkvet_status status =
        kernel.table.open(kernel.self, &exec, &next, reason.text());
    reply->enter(Phase::kOutside);
    restore_fp_environment(before);
    if (status != QKVET_OK) {
      refuse(reply, CallStatus::kRefused, "a second open", status, reason);
      return false;
    }
    kernel.more_contexts.push_back(next);
  }
  *context = kernel.more_contexts[n - 1];
  return true;
}

void Door::call_at_once(int number,
                        std::span<const CallAtOnce> calls) noexcept {
  Kernel& kernel = kernels_[static_cast<size_t>(number)];
  std::vector<CallAtOnce> done;
  for (const CallAtOnce& one : calls) {
    call(number, *one.plan, *one.addresses, one.reply);
    if (is_done(*one.reply) && one.reply->workspace_damaged == 0)
      done.push_back(one);
  }
  if (kernel.device != QKVET_DEVICE_CPU || done.size() < 2) return;

  std::vector<Kernel> seats(done.size(), kernel);
  std::vector<Workspace> workspaces(done.size());
  for (size_t n = 0; n < done.size(); ++n) {
    if (!find_context(kernel, n, &seats[n].context, done[n].reply)) return;
    seats[n].workspace = &workspaces[n];
  }
  host_.allow_threads(1);
  Rounds rounds(done.size());
  const auto work = [&](size_t n) {
    const CallAtOnce& one = done[n];
    const std::vector<std::byte> alone = written_by(one);
    for (int round = 0; round < kRounds && rounds.begin(round); ++round) {
      const AbiCall call(*one.plan, *one.addresses);
      qkvet_exec exec = seats[n].exec(/*threads=*/1);
      forward(seats[n], call.forward(), &exec, one.reply);
      if (!is_done(*one.reply) || one.reply->workspace_damaged != 0 ||
          one.reply->dirty_environment != 0 || written_by(one) != alone)
        rounds.stop();
    }
  };
  std::vector<std::thread> threads;
  try {
    for (size_t n = 1; n < done.size(); ++n) threads.emplace_back(work, n);
    work(0);
  } catch (const std::system_error&) {  // no such thread: they were made alone
    rounds.stop();
  }
  for (std::thread& thread : threads) thread.join();
  for (const CallAtOnce& one : done) {
    one.reply->enter(Phase::kOutside);
    // The workspaces end here.
    one.reply->workspace = 0;
  }
}

}  // namespace qkvet
