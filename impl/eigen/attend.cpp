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

#include "impl/abi/forward_view.h"

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

struct Block {
  int64_t first;   // row
  int64_t rows;    // count
  int64_t common;  // keys that every row of the block sees
  int64_t keys;    // keys that its last row sees
};

struct Head {
  Input q;     // [Tq, d]
  Input k;     // [Tk, d]
  Input v;     // [Tk, dv]
  Output o;    // [Tq, dv]
  float* lse;  // NULL if not asked for
};

using RowVector = Eigen::Matrix<float, 1, Eigen::Dynamic>;

// Memory for a row of a call with options.
struct Gathered {
  RowVector row;              // [Tk], of which as many as it sees
  RowVector acc;              // [dv]
  std::vector<int64_t> keys;  // [Tk]
};

struct RowIndex {
  int64_t b, h, i;
  int64_t in_block;
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

// Row r of the block in a call without options: scores to weights, not yet
// normalised. Returns the sum.
float weigh_row(const ForwardCall& call, const Head& head, const Block& block,
                int64_t r, Matrix* scores) {
  const int64_t i = block.first + r;
  const int64_t keys = call.visible(i);
  float lse = -std::numeric_limits<float>::infinity();
  float sum = 1;  // for a row without keys: o is 0 / 1
  if (keys > 0) {
    auto row = scores->row(r).head(keys).array();
    const float max = row.maxCoeff<Eigen::PropagateNumbers>();
    row = (row - max).exp();
    sum = row.sum();
    lse = max + std::log(sum);
  }
  if (head.lse != nullptr) {
    head.lse[i * call.lse.step[2]] = lse;
  }
  return sum;
}

// One row in a call with options: its scores are gathered into `row`, and
// the weighted values added run by run, so that hidden keys are never
// multiplied.
void compute_gathered_row(const ForwardCall& call, Head* head, RowIndex at,
                          const Matrix& scores, Gathered* to) {
  const int64_t n = call.list_keys(at.b, at.h, at.i, to->keys.data());
  const float sink = call.options.sink_of(at.h);
  float lse = -std::numeric_limits<float>::infinity();
  float sum = 1;  // for a row without keys: o is 0 / 1
  to->acc.setZero();
  if (n > 0) {
    for (int64_t m = 0; m < n; ++m) {
      const int64_t j = to->keys[static_cast<size_t>(m)];
      to->row[m] =
          with_options(call, at.b, at.h, at.i, j, scores(at.in_block, j));
    }
    auto row = to->row.head(n).array();
    const float max = std::fmax(row.maxCoeff<Eigen::PropagateNumbers>(), sink);
    row = (row - max).exp();
    sum = std::exp(sink - max) + row.sum();
    lse = max + std::log(sum);
    const Dropout& dropout = call.options.dropout;
    for (int64_t m = 0; dropout.present() && m < n; ++m) {
      to->row[m] *=
          dropout.factor(at.b, at.h, at.i, to->keys[static_cast<size_t>(m)]);
    }
    for (int64_t m = 0; m < n;) {
      const int64_t count = run_length(to->keys, m, n);
      to->acc.noalias() +=
          to->row.segment(m, count) *
          head->v.middleRows(to->keys[static_cast<size_t>(m)], count);
      m += count;
    }
  }
  head->o.row(at.i) = to->acc / sum;
  if (head->lse != nullptr) {
    head->lse[at.i * call.lse.step[2]] = lse;
  }
}

void compute_gathered_heads(const ForwardCall& call) {
  const int64_t rows = std::min(kRowBlock, call.queries);
  Matrix scores(rows, call.keys);
  Gathered to = {RowVector(call.keys), RowVector(call.value_width),
                 std::vector<int64_t>(static_cast<size_t>(call.keys))};
  for (int64_t b = 0; b < call.batch; ++b) {
    for (int64_t h = 0; h < call.heads; ++h) {
      Head head = head_of(call, b, h);
      for (int64_t first = 0; first < call.queries; first += rows) {
        const int64_t count = std::min(rows, call.queries - first);
        // The window moves to the right: no later row begins further left.
        const int64_t begin = call.in_reach(first).begin;
        const int64_t end = call.in_reach(first + count - 1).end;
        if (end > begin) {
          auto block = scores.block(0, begin, count, end - begin);
          block.noalias() = head.q.middleRows(first, count) *
                            head.k.middleRows(begin, end - begin).transpose();
          block *= call.scale;
        }
        for (int64_t r = 0; r < count; ++r) {
          compute_gathered_row(call, &head, {b, h, first + r, r}, scores, &to);
        }
      }
    }
  }
}

void compute_block(const ForwardCall& call, Head* head, const Block& block,
                   Matrix* scores, Matrix* acc) {
  if (block.keys > 0) {
    scores->topLeftCorner(block.rows, block.keys).noalias() =
        head->q.middleRows(block.first, block.rows) *
        head->k.topRows(block.keys).transpose();
    scores->topLeftCorner(block.rows, block.keys) *= call.scale;
  }
  Eigen::Matrix<float, kRowBlock, 1> sums;
  for (int64_t r = 0; r < block.rows; ++r) {
    sums[r] = weigh_row(call, *head, block, r, scores);
  }
  acc->topRows(block.rows).setZero();
  if (block.common > 0) {
    acc->topRows(block.rows).noalias() +=
        scores->topLeftCorner(block.rows, block.common) *
        head->v.topRows(block.common);
  }
  for (int64_t r = 0; r < block.rows; ++r) {
    const int64_t i = block.first + r;
    const int64_t rest = call.visible(i) - block.common;
    if (rest > 0) {
      acc->row(r).noalias() += scores->row(r).segment(block.common, rest) *
                               head->v.middleRows(block.common, rest);
    }
    head->o.row(i) = acc->row(r) / sums[r];
  }
}

void compute_heads(const ForwardCall& call) {
  const int64_t rows = std::min(kRowBlock, call.queries);
  Matrix scores(rows, call.keys);
  Matrix acc(rows, call.value_width);
  for (int64_t b = 0; b < call.batch; ++b) {
    for (int64_t h = 0; h < call.heads; ++h) {
      Head head = head_of(call, b, h);
      for (int64_t first = 0; first < call.queries; first += rows) {
        const int64_t count = std::min(rows, call.queries - first);
        const Block block = {first, count, call.visible(first),
                             call.visible(first + count - 1)};
        compute_block(call, &head, block, &scores, &acc);
      }
    }
  }
}

}  // namespace

qkvet_status attend_with_eigen(const ForwardCall& call, qkvet_text* why) {
  try {
    if (call.options.any()) {
      compute_gathered_heads(call);
    } else {
      compute_heads(call);
    }
  } catch (const std::bad_alloc&) {
    return refuse(why, QKVET_OUT_OF_MEMORY, "no memory for the scores");
  }
  return QKVET_OK;
}

}  // namespace qkvet::impl
