// SPDX-License-Identifier: Apache-2.0
// Calls that are made at once.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>

#include "core/base/machine.h"
#include "core/door/door.h"
#include "core/door/door_answers.h"

namespace qkvet {
namespace {

// How often all calls are made at once, at most; Door::kLeastRounds where they
// take long. They begin together, and how they meet is left to chance.
constexpr int kRounds = 8;
constexpr std::chrono::milliseconds kEnough{100};

bool is_done(const CallReply& reply) {
  return reply.status == static_cast<uint32_t>(CallStatus::kDone);
}

// Outputs that the call appends to are also read.
bool is_input_too(TensorName tensor) {
  return tensor == TensorName::kKCache || tensor == TensorName::kVCache;
}

// The calls of one thread.
using Seat = CallGroup;

bool is_command(const CallAtOnce& call) {
  const Operation operation = call.plan->operation;
  return operation > Operation::kCacheCreate && !is_layer(operation);
}

std::vector<Seat> seats_of(std::span<const CallAtOnce> calls) {
  std::vector<Seat> seats;
  for (size_t first = 0; first < calls.size();) {
    size_t end = first + 1;
    while (end < calls.size() && is_command(calls[end])) ++end;
    seats.push_back(calls.subspan(first, end - first));
    first = end;
  }
  // Commands of an earlier create have no cache here.
  std::erase_if(seats, [](Seat seat) { return is_command(seat.front()); });
  return seats;
}

// Ends the workspaces of the calls.
void leave(std::span<const Seat> seats) {
  for (const Seat seat : seats) {
    for (const CallAtOnce& one : seat) {
      one.reply->enter(Phase::kOutside);
      one.reply->workspace = 0;
    }
  }
}

// A barrier before every round, which stops if a thread has stopped.
class Rounds {
 public:
  explicit Rounds(size_t threads) : threads_(static_cast<int>(threads)) {}

  bool begin(int round) {
    const int all = (round + 1) * threads_;
    if (++arrived_ >= all)
      arrived_.notify_all();
    else
      wait_for(all);
    return !stopped_;
  }
  void stop() {
    stopped_ = true;
    arrived_ += kEveryone;
    arrived_.notify_all();
  }

 private:
  // Short calls begin together, and no thread keeps a core busy beside a long
  // one.
  void wait_for(int all) const {
    constexpr std::chrono::microseconds kAwake(50);
    const auto end = std::chrono::steady_clock::now() + kAwake;
    while (arrived_ < all && std::chrono::steady_clock::now() < end)
      std::this_thread::yield();
    for (int arrived = arrived_; arrived < all; arrived = arrived_)
      arrived_.wait(arrived);
  }

  // More than all threads in all rounds; each of them may add it once.
  static constexpr int kEveryone = 1 << 24;

  int threads_;
  std::atomic<int> arrived_{0};
  std::atomic<bool> stopped_{false};
};

}  // namespace

bool went_well(CallGroup group) {
  return std::all_of(group.begin(), group.end(), [](const CallAtOnce& one) {
    return is_done(*one.reply) && one.reply->workspace_damaged == 0 &&
           one.reply->dirty_environment == 0;
  });
}

std::vector<std::byte> written_by(CallGroup group) {
  std::vector<std::byte> all;
  for (const CallAtOnce& call : group) {
    for (auto t = static_cast<size_t>(TensorName::kO); t < kTensorCount; ++t) {
      if (!call.plan->tensors[t].present()) continue;
      for (int64_t part = 0; part < call.plan->parts_of(t); ++part) {
        const std::byte* const from =
            (*call.addresses)[t] + call.plan->part_offset(t, part);
        all.insert(all.end(), from, from + call.plan->part_bytes(t));
      }
    }
    const auto lengths = std::as_bytes(std::span(call.reply->lengths));
    if (call.reply->lengths_known != 0)
      all.insert(all.end(), lengths.begin(), lengths.end());
  }
  return all;
}

void clear_outputs(CallGroup group) {
  for (const CallAtOnce& call : group) {
    for (auto t = static_cast<size_t>(TensorName::kO); t < kTensorCount; ++t) {
      const TensorSpec& spec = call.plan->tensors[t];
      if (spec.present() && spec.packed() && !call.plan->is_far(t) &&
          !is_input_too(static_cast<TensorName>(t)))
        std::memset((*call.addresses)[t], 0xff,
                    static_cast<size_t>(spec.span_bytes()));
    }
  }
}

bool Door::find_context(Kernel& kernel, size_t n, qkvet_context** context,
                        CallReply* reply) {
  *context = kernel.context;
  if (n == 0 || kernel.table.open == nullptr) return true;
  while (kernel.more_contexts.size() < n) {
    qkvet_context* next = nullptr;
    Reason reason(reply);
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

void Door::make_seat(const Kernel& kernel, std::span<const CallAtOnce> calls) {
  Held held;
  for (const CallAtOnce& one : calls)
    make(kernel, *one.plan, *one.addresses, held, one.reply);
  destroy_cache(held, calls.front().reply);
}

void Door::call_at_once(int number,
                        std::span<const CallAtOnce> calls) noexcept {
  Kernel& kernel = kernels_[static_cast<size_t>(number)];
  for (const CallAtOnce& one : calls)
    call(number, *one.plan, *one.addresses, one.reply);
  std::vector<Seat> done = seats_of(calls);
  std::erase_if(done, [](Seat seat) { return !went_well(seat); });
  if (kernel.device != QKVET_DEVICE_CPU || done.size() < 2) return;

  std::vector<Kernel> own(done.size(), kernel);
  std::vector<Workspace> workspaces(done.size());
  for (size_t n = 0; n < done.size(); ++n) {
    if (!find_context(kernel, n, &own[n].context, done[n].front().reply))
      return;
    own[n].workspace = &workspaces[n];
  }
  host_.allow_threads(1);
  // Once more alone: elements that no call writes are also cleared here.
  for (size_t n = 0; n < done.size(); ++n) {
    clear_outputs(done[n]);
    make_seat(own[n], done[n]);
    if (!went_well(done[n])) return leave(done);
  }
  Rounds rounds(done.size());
  const auto begin = std::chrono::steady_clock::now();
  const auto work = [&](size_t n) {
    const std::vector<std::byte> alone = written_by(done[n]);
    for (int round = 0; round < kRounds && rounds.begin(round); ++round) {
      clear_outputs(done[n]);
      make_seat(own[n], done[n]);
      const bool enough = round + 1 >= Door::kLeastRounds &&
                          std::chrono::steady_clock::now() - begin > kEnough;
      if (enough || !went_well(done[n]) || written_by(done[n]) != alone)
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
  leave(done);
}

}  // namespace qkvet
