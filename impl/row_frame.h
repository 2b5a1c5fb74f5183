// SPDX-License-Identifier: Apache-2.0
// The plumbing of every kernel that works row by row: checks the call, walks
// over members, heads and rows, gives rows without a visible key their answer,
// and hands each other row, with its visible keys only, to
//
//   static void Arithmetic::row(const Row& row);
//
// which writes o and lse of that row. All arithmetic is in there; nothing here
// touches a value but to copy q into the scratch memory, and to convert half
// storage to f32 and back (in_f32.h).
//
// Contract: any strides, addresses aligned to elements; outputs do not overlap
// inputs; reads and writes elements of the tensors only; NaN in a visible key
// or value makes the row NaN. Memory: Tk + d + 2 dv floats a call.
#ifndef QKVET_IMPL_ROW_FRAME_H_
#define QKVET_IMPL_ROW_FRAME_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <new>

#include "impl/forward_view.h"
#include "impl/in_f32.h"
#include "qkvet/kernel.h"

namespace qkvet::impl {

// A row of a head, or a column's worth of rows: element (j, c) is at
// data + j * row_step + c * step.
struct Rows {
  const float* data;
  int64_t row_step;
  int64_t step;

  const float* row(int64_t j) const { return data + j * row_step; }
};

struct Row {
  const float* q;  // [d], contiguous
  Rows k;          // [keys, d]
  Rows v;          // [keys, dv]
  float* o;        // [dv]
  int64_t o_step;
  float* lse;           // NULL if not asked for
  int64_t keys;         // that this row sees, at least 1
  int64_t width;        // d
  int64_t value_width;  // dv
  float scale;
  float* scores;  // scratch [keys]
  float* acc;     // scratch [dv]
  float* part;    // scratch [dv]
  // What the tensors of the caller hold; everything above is f32.
  Storage storage;

  void write_lse(float value) const {
    if (lse != nullptr) {
      *lse = value;
    }
  }
};

inline void write_empty_row(const Row& row) {
  for (int64_t c = 0; c < row.value_width; ++c) {
    row.o[c * row.o_step] = 0;
  }
  row.write_lse(-std::numeric_limits<float>::infinity());
}

template <class Arithmetic>
void compute_head(const ForwardCall& call, int64_t b, int64_t h, float* q,
                  Row row) {
  const int64_t kv = h / call.group();
  row.k = {call.k.at(b, kv, 0), call.k.step[2], call.k.step[3]};
  row.v = {call.v.at(b, kv, 0), call.v.step[2], call.v.step[3]};
  for (int64_t i = 0; i < call.queries; ++i) {
    row.o = call.o.at(b, h, i);
    row.lse = call.lse.data != nullptr ? call.lse.at(b, h, i) : nullptr;
    row.keys = call.visible(i);
    if (row.keys == 0) {
      write_empty_row(row);
      continue;
    }
    const float* from = call.q.at(b, h, i);
    for (int64_t c = 0; c < row.width; ++c) {
      q[c] = from[c * call.q.step[3]];
    }
    Arithmetic::row(row);
  }
}

template <class Arithmetic>
qkvet_status compute_rows(const ForwardCall& call, qkvet_text* why) {
  const int64_t floats = call.keys + call.width + 2 * call.value_width;
  const std::unique_ptr<float[]> scratch(
      new (std::nothrow) float[static_cast<size_t>(floats)]);
  if (scratch == nullptr) {
    return refuse(why, QKVET_OUT_OF_MEMORY, "no memory for the scores");
  }
  float* const q = scratch.get();
  Row row = {};
  row.q = q;
  row.acc = q + call.width;
  row.part = row.acc + call.value_width;
  row.scores = row.part + call.value_width;
  row.o_step = call.o.step[3];
  row.width = call.width;
  row.value_width = call.value_width;
  row.scale = call.scale;
  row.storage = call.storage;
  for (int64_t b = 0; b < call.batch; ++b) {
    for (int64_t h = 0; h < call.heads; ++h) {
      compute_head<Arithmetic>(call, b, h, q, row);
    }
  }
  return QKVET_OK;
}

// The forward() of a kernel that computes its rows one by one.
template <class Arithmetic>
inline constexpr auto kRowForward = forward_in_f32<compute_rows<Arithmetic>>;

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_ROW_FRAME_H_
