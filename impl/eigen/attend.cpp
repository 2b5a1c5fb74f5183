// SPDX-License-Identifier: Apache-2.0
#include "impl/eigen/attend.h"

#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <new>
#include <vector>

#include "impl/call/forward_view.h"

namespace qkvet::impl {
namespace {

using Matrix =
    Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using AnyStride = Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>;
using Input = Eigen::Map<const Matrix, Eigen::Unaligned, AnyStride>;
using Output = Eigen::Map<Matrix, Eigen::Unaligned, AnyStride>;

// Rows that share one product with K: enough to amortise Eigen's packing, and
// few enough that a causal block computes little past its diagonal.
constexpr int64_t kRowBlock = 64;

struct Head {
  Input q;     // [Tq, d]
  Input k;     // [Tk, d]
  Input v;     // [Tk, dv]
  Output o;    // [Tq, dv]
  float* lse;  // NULL if not asked for
};

using RowVector = Eigen::Matrix<float, 1, Eigen::Dynamic>;

// Memory of a call.
struct Room {
  Matrix scores;              // [kRowBlock, Tk]
  Matrix acc;                 // [kRowBlock, dv], without options
  RowVector row;              // [Tk], of which as many as it sees; with options
  RowVector row_acc;          // [dv], the same
  std::vector<int64_t> keys;  // [Tk], the same
};

// Neighbours in keys[m, n) from m on.
int64_t run_length(const std::vector<int64_t>& keys, int64_t m, int64_t n) {
  int64_t count = 1;
  while (m + count < n && keys[static_cast<size_t>(m + count)] ==
                              keys[static_cast<size_t>(m)] + count) {
    ++count;
  }
  return count;
}

Head head_of(const ForwardCall& call, int64_t b, int64_t h) {
  const int64_t kv = h / call.group();
  return {Input(call.q.at(b, h, 0), call.queries, call.width,
                AnyStride(call.q.step[2], call.q.step[3])),
          Input(call.k.at(b, kv, 0), call.keys, call.width,
                AnyStride(call.k.step[2], call.k.step[3])),
          Input(call.v.at(b, kv, 0), call.keys, call.value_width,
                AnyStride(call.v.step[2], call.v.step[3])),
          Output(call.o.at(b, h, 0), call.queries, call.value_width,
                 AnyStride(call.o.step[2], call.o.step[3])),
          call.lse.data != nullptr ? call.lse.at(b, h, 0) : nullptr};
}

struct Softmax {
  float sum = 1;  // for a row without keys: o is 0 / 1
  float lse = -std::numeric_limits<float>::infinity();
};

// Scores of at least one key become weights that are not normalised yet. A sink
// of -infinity adds 0 to their sum.
template <class Scores>
Softmax softmax(Scores row, float sink) {
  const float max =
      std::fmax(row.template maxCoeff<Eigen::PropagateNumbers>(), sink);
  row = (row - max).exp();
  const float sum = std::exp(sink - max) + row.sum();
  return {sum, max + std::log(sum)};
}

void write_lse(const ForwardCall& call, const Head& head, int64_t i,
               float lse) {
  if (head.lse != nullptr) {
    head.lse[i * call.lse.step[2]] = lse;
  }
}

// The functions below are not inlined: in one function Eigen's products of rows
// take 5 % longer.

// One row with options: its scores are gathered, and the weighted values added
// run by run, so that hidden keys are never multiplied.
[[gnu::noinline]] void compute_gathered_row(const ForwardCall& call, int64_t b,
                                            int64_t h, int64_t i,
                                            int64_t in_block, Head* head,
                                            Room* room) {
  const std::vector<int64_t>& keys = room->keys;
  const auto key = [&](int64_t m) { return keys[static_cast<size_t>(m)]; };
  const int64_t n = call.list_keys(b, h, i, room->keys.data());
  Softmax weights;
  room->row_acc.setZero();
  if (n > 0) {
    for (int64_t m = 0; m < n; ++m) {
      room->row[m] =
          with_options(call, b, h, i, key(m), room->scores(in_block, key(m)));
    }
    weights = softmax(room->row.head(n).array(), call.options.sink_of(h));
    const Dropout& dropout = call.options.dropout;
    for (int64_t m = 0; dropout.present() && m < n; ++m) {
      room->row[m] *= dropout.factor(b, h, i, key(m));
    }
    for (int64_t m = 0; m < n;) {
      const int64_t count = run_length(keys, m, n);
      room->row_acc.noalias() +=
          room->row.segment(m, count) * head->v.middleRows(key(m), count);
      m += count;
    }
  }
  head->o.row(i) = room->row_acc / weights.sum;
  write_lse(call, *head, i, weights.lse);
}

// Rows [first, first + rows) without options: one product with the values of
// the keys that all of them see, and one a row with those of its others.
[[gnu::noinline]] void compute_prefix_rows(const ForwardCall& call,
                                           int64_t first, int64_t rows,
                                           Head* head, Room* room) {
  constexpr float kNoSink = -std::numeric_limits<float>::infinity();
  const int64_t common = call.visible(first);
  Eigen::Matrix<float, kRowBlock, 1> sums;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t keys = call.visible(first + r);
    const Softmax weights =
        keys > 0 ? softmax(room->scores.row(r).head(keys).array(), kNoSink)
                 : Softmax{};
    sums[r] = weights.sum;
    write_lse(call, *head, first + r, weights.lse);
  }
  Matrix& acc = room->acc;
  acc.topRows(rows).setZero();
  if (common > 0) {
    acc.topRows(rows).noalias() +=
        room->scores.topLeftCorner(rows, common) * head->v.topRows(common);
  }
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t rest = call.visible(first + r) - common;
    if (rest > 0) {
      acc.row(r).noalias() += room->scores.row(r).segment(common, rest) *
                              head->v.middleRows(common, rest);
    }
    head->o.row(first + r) = acc.row(r) / sums[r];
  }
}

[[gnu::noinline]] void compute_head(const ForwardCall& call, int64_t b,
                                    int64_t h, Room* room) {
  Head head = head_of(call, b, h);
  for (int64_t first = 0; first < call.queries; first += kRowBlock) {
    const int64_t rows = std::min(kRowBlock, call.queries - first);
    // The window moves to the right: no later row begins further left.
    const int64_t begin = call.in_reach(first).begin;
    const int64_t end = call.in_reach(first + rows - 1).end;
    if (end > begin) {
      auto block = room->scores.block(0, begin, rows, end - begin);
      block.noalias() = head.q.middleRows(first, rows) *
                        head.k.middleRows(begin, end - begin).transpose();
      block *= call.scale;
    }
    if (!call.options.any()) {
      compute_prefix_rows(call, first, rows, &head, room);
      continue;
    }
    for (int64_t r = 0; r < rows; ++r) {
      compute_gathered_row(call, b, h, first + r, r, &head, room);
    }
  }
}

}  // namespace

qkvet_status attend_with_eigen(const ForwardCall& call, qkvet_text* why) {
  try {
    const int64_t rows = std::min(kRowBlock, call.queries);
    const bool any = call.options.any();
    const int64_t gathered = any ? call.keys : 0;
    Room room = {Matrix(rows, call.keys),
                 Matrix(any ? 0 : rows, call.value_width), RowVector(gathered),
                 RowVector(call.value_width),
                 std::vector<int64_t>(static_cast<size_t>(gathered))};
    for (int64_t b = 0; b < call.batch; ++b) {
      for (int64_t h = 0; h < call.heads; ++h) {
        compute_head(call, b, h, &room);
      }
    }
  } catch (const std::bad_alloc&) {
    return refuse(why, QKVET_OUT_OF_MEMORY, "no memory for the scores");
  }
  return QKVET_OK;
}

}  // namespace qkvet::impl
