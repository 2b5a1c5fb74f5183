// SPDX-License-Identifier: Apache-2.0
// faulty/backward_threads_race_for_dq: threads add to the same dq without a
// lock.
#include <algorithm>
#include <atomic>
#include <functional>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "impl/faulty/backward_fault.h"
#include "impl/faulty/race_window.h"

namespace qkvet::impl {
namespace {

// Loads and stores are atomic each and not together, so that what is wrong is
// the order of the threads and never a torn number.
struct SharedRows {
  SharedRows(size_t count, size_t threads)
      : d_q(count), parts(threads, std::vector<float>(count)) {}
  std::vector<std::atomic<float>> d_q;    // [rows, d]
  std::vector<std::vector<float>> parts;  // what each thread adds
  std::atomic<int64_t> readers = 0;
};

// Every nth key from `first` on; dk and dv of a key belong to one thread.
void add_share(const BackwardPiece& piece, int64_t first, int64_t n,
               SharedRows* shared) {
  using Rows = BackwardRows<PlainBackward>;
  std::vector<float>& part = shared->parts[static_cast<size_t>(first)];
  BackwardPiece own = piece;
  own.d_q = part.data();
  for (int64_t r = 0; r < piece.rows; ++r) {
    for (int64_t j = first; j < piece.call->keys; j += n) {
      if (PlainBackward::sees(*piece.call, piece.b, piece.h, piece.first + r,
                              j)) {
        Rows::pair(own, r, j);
      }
    }
  }
  for (size_t at = 0; at < part.size(); ++at) {
    part[at] += shared->d_q[at].load(std::memory_order_relaxed);
  }
  ++shared->readers;
  wait_for_readers(shared->readers, n);
  for (size_t at = 0; at < part.size(); ++at) {
    shared->d_q[at].store(part[at], std::memory_order_relaxed);
  }
}

void add_piece(const BackwardPiece& piece, int64_t n) {
  const auto count = static_cast<size_t>(piece.rows * piece.call->width);
  SharedRows shared(count, static_cast<size_t>(n));
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(n));
  for (int64_t first = 1; first < n; ++first) {
    try {
      threads.emplace_back(add_share, std::cref(piece), first, n, &shared);
    } catch (const std::system_error&) {  // no such thread: it is done here
      add_share(piece, first, n, &shared);
    }
  }
  add_share(piece, 0, n, &shared);
  for (std::thread& thread : threads) {
    thread.join();
  }
  std::copy(shared.d_q.begin(), shared.d_q.end(), piece.d_q);
}

qkvet_status race(const BackwardPiece& piece, qkvet_context*, qkvet_text* why) {
  try {
    add_piece(piece, std::max<int64_t>(piece.threads, 1));
  } catch (const std::bad_alloc&) {
    return refuse(why, QKVET_OUT_OF_MEMORY, "no memory for the sums");
  }
  return QKVET_OK;
}

constexpr const char* kKilledBy[] = {"backward_threads_change_nothing",
                                     nullptr};

constexpr qkvet_fault kFault = {
    .struct_size = sizeof(qkvet_fault),
    .mechanism =
        "each thread reads dq of a row, adds its keys and writes it back, and "
        "others do so in between",
    .symptom =
        "right with one thread; with more dq may lack the keys of all threads "
        "but one, and seldom twice the same; dk and dv are right",
    .cause = "keys are divided among threads, which suits dk and dv alone",
    .fix =
        "sum dq in memory of the thread and add up at the end, or add "
        "atomically, or walk once more by rows",
    .source = "textbook, cf. Dao-AILab/flash-attention#359",
    .trigger = "more than one thread",
    .killed_by = kKilledBy,
    .when = "threads > 1",
};

}  // namespace

extern constinit const qkvet_kernel faulty_backward_threads_race_for_dq =
    backward_fault<PlainBackward, 0, race>(
        "faulty/backward_threads_race_for_dq", &kFault,
        {"impl/faulty/backward_threads_race_for_dq.cpp", __LINE__});

}  // namespace qkvet::impl
