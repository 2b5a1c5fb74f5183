// SPDX-License-Identifier: Apache-2.0
// faulty/threads_race_for_sums: threads add to the same sums without a lock.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "impl/faulty/option_fault.h"
#include "impl/faulty/plain_scores.h"
#include "impl/faulty/race_window.h"

namespace qkvet::impl {
namespace {

// Of one head: sums of weights and of weighted values, row by row. Loads and
// stores are atomic each and not together, so that what is wrong is the order
// of the threads and never a torn number.
struct SharedSums {
  SharedSums(size_t count, size_t threads)
      : sums(count), parts(threads, std::vector<float>(count)) {}
  std::vector<std::atomic<float>> sums;   // [Tq, 1 + dv]
  std::vector<std::vector<float>> parts;  // what each thread adds
  std::atomic<int64_t> readers = 0;
};

using Scores = PlainScores<OptionSeams>;

float row_maximum(const ForwardCall& call, RowAt at) {
  float max = OptionSeams::kNone;
  for (int64_t j = 0; j < call.keys; ++j) {
    if (Scores::sees(call, at, j)) {
      max = std::fmax(max, Scores::score(call, at, j));
    }
  }
  return max;
}

// What every nth key from `first` on adds to the sums of head h of member b.
void add_part(const ForwardCall& call, RowAt head, int64_t first, int64_t n,
              std::vector<float>* part) {
  const RowAt kv = OptionSeams::kv_head(call, head);
  float* sums = part->data();
  for (int64_t i = 0; i < call.queries; ++i, sums += 1 + call.value_width) {
    const RowAt at = {head.b, head.h, i};
    const float max = row_maximum(call, at);
    for (int64_t j = first; j < call.keys; j += n) {
      if (!Scores::sees(call, at, j)) {
        continue;
      }
      const float weight = std::exp(Scores::score(call, at, j) - max);
      sums[0] += weight;
      for (int64_t c = 0; c < call.value_width; ++c) {
        sums[1 + c] += weight * call.v.at(kv.b, kv.h, j)[c * call.v.step[3]];
      }
    }
  }
}

void add_share(const ForwardCall& call, RowAt head, int64_t first, int64_t n,
               SharedSums* shared) {
  std::vector<float>& part = shared->parts[static_cast<size_t>(first)];
  add_part(call, head, first, n, &part);
  for (size_t at = 0; at < part.size(); ++at) {
    part[at] += shared->sums[at].load(std::memory_order_relaxed);
  }
  ++shared->readers;
  wait_for_readers(shared->readers, n);
  for (size_t at = 0; at < part.size(); ++at) {
    shared->sums[at].store(part[at], std::memory_order_relaxed);
  }
}

void write_head(const ForwardCall& call, RowAt head, const SharedSums& shared) {
  const std::atomic<float>* sums = shared.sums.data();
  for (int64_t i = 0; i < call.queries; ++i, sums += 1 + call.value_width) {
    const RowAt at = {head.b, head.h, i};
    const float max = row_maximum(call, at);
    const bool seen = max > OptionSeams::kNone;
    for (int64_t c = 0; c < call.value_width; ++c) {
      call.o.at(at.b, at.h, i)[c * call.o.step[3]] =
          seen ? sums[1 + c] / sums[0] : 0;
    }
    if (call.lse.data != nullptr) {
      *call.lse.at(at.b, at.h, i) =
          seen ? max + std::log(sums[0]) : OptionSeams::kNone;
    }
  }
}

void compute_head(const ForwardCall& call, RowAt head, int64_t n) {
  SharedSums shared(static_cast<size_t>(call.queries * (1 + call.value_width)),
                    static_cast<size_t>(n));
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(n));
  for (int64_t first = 1; first < n; ++first) {
    try {
      threads.emplace_back(add_share, std::cref(call), head, first, n, &shared);
    } catch (const std::system_error&) {  // no such thread: it is done here
      add_share(call, head, first, n, &shared);
    }
  }
  add_share(call, head, 0, n, &shared);
  for (std::thread& thread : threads) {
    thread.join();
  }
  write_head(call, head, shared);
}

qkvet_status forward(const qkvet_kernel* self, qkvet_context*,
                     const qkvet_forward_args* args, const qkvet_exec* exec,
                     qkvet_text* why) {
  ForwardCall call;
  qkvet_status status = check_exec(exec, why);
  status = status == QKVET_OK ? read_forward(self, args, &call, why) : status;
  try {
    for (int64_t n = 0; status == QKVET_OK && n < call.batch * call.heads;
         ++n) {
      compute_head(call, {n / call.heads, n % call.heads, 0},
                   std::max<int64_t>(threads_of(exec), 1));
    }
  } catch (const std::bad_alloc&) {
    return refuse(why, QKVET_OUT_OF_MEMORY, "no memory for the sums");
  }
  return status;
}

// Partial sums meet in any order.
constexpr qkvet_precision kRacePrecision = [] {
  qkvet_precision p = sequential_f32();
  p.value_sum = QKVET_SUM_ANY;
  return p;
}();

constexpr const char* kKilledBy[] = {"threads_change_nothing", nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "each thread reads the sums of a row, adds its keys and writes them "
        "back, and others do so in between",
    .symptom =
        "right with one thread; with more the keys of all threads but one may "
        "be lost, and seldom twice the same",
    .cause = "a sum is shared, and to add to it is taken for one step",
    .fix =
        "sum in memory of the thread and add up at the end, or lock, or add "
        "atomically",
    .source = "textbook",
    .trigger = "more than one thread",
    .killed_by = kKilledBy,
    .when = "threads > 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_threads_race_for_sums =
    with_fault(plain_kernel("faulty/threads_race_for_sums", kFault.mechanism,
                            {"impl/faulty/threads_race_for_sums.cpp", __LINE__},
                            &kRacePrecision, forward, &kF32Capabilities),
               &kFault) /*ThreadsRaceForSums*/;

}  // namespace qkvet::impl
