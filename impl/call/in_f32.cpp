// SPDX-License-Identifier: Apache-2.0
#include "impl/call/in_f32.h"

#include <bit>
#include <cstddef>
#include <memory>

#include "impl/call/half.h"
#include "impl/call/members.h"
#include "impl/call/scratch.h"

namespace qkvet::impl {
namespace {

// f32 stand-ins for the tensors of a piece, contiguous.
struct Stage {
  float* q;        // [rows, d]
  float* k;        // [Tk, d]
  float* v;        // [Tk, dv]
  float* o;        // [rows, dv]
  float* weights;  // [rows, Tk], NULL if not requested
};

int64_t rows_of(const ForwardCall& call) {
  return call.queries < kWidenedRows ? call.queries : kWidenedRows;
}

int64_t floats_of(const ForwardCall& call) {
  const int64_t widths = call.width + call.value_width;
  const int64_t weights = call.half.weights.data != nullptr ? call.keys : 0;
  return call.keys * widths + rows_of(call) * (widths + weights);
}

Stage cut(const ForwardCall& call, float* memory) {
  const int64_t rows = rows_of(call);
  Stage stage = {};
  stage.k = memory;
  stage.v = stage.k + call.keys * call.width;
  stage.q = stage.v + call.keys * call.value_width;
  stage.o = stage.q + rows * call.width;
  if (call.half.weights.data != nullptr) {
    stage.weights = stage.o + rows * call.value_width;
  }
  return stage;
}

// An arithmetic with or without a context.
struct Arithmetic {
  ComputeF32 alone;  // NULL: the other
  ComputeIn in;

  qkvet_status operator()(const ForwardCall& call, qkvet_text* why) const {
    return alone != nullptr ? alone(call, why)
                            : in.compute(call, in.context, why);
  }
};

// A NaN with a payload that no arithmetic produces. An element that still has
// it at the end was not written, and its half-storage element is not written
// either, as with arithmetic that writes to its output directly.
constexpr uint32_t kUnwritten = 0xffc5a3b7;

void fill_unwritten(float* memory, int64_t count) {
  for (int64_t n = 0; n < count; ++n) {
    memory[n] = std::bit_cast<float>(kUnwritten);
  }
}

struct FirstRow {
  int64_t b, h, t;
};

void widen(Storage type, const View<const uint16_t>& from, FirstRow from_row,
           int64_t rows, int64_t columns, float* to) {
  for (int64_t t = 0; t < rows; ++t, to += columns) {
    const uint16_t* const row = from.at(from_row.b, from_row.h, from_row.t + t);
    for (int64_t c = 0; c < columns; ++c) {
      to[c] = from_half(type, row[c * from.step[3]]);
    }
  }
}

void narrow(Storage type, const float* from, int64_t rows, int64_t columns,
            const View<uint16_t>& to, FirstRow from_row) {
  for (int64_t t = 0; t < rows; ++t, from += columns) {
    uint16_t* const row = to.at(from_row.b, from_row.h, from_row.t + t);
    for (int64_t c = 0; c < columns; ++c) {
      if (std::bit_cast<uint32_t>(from[c]) != kUnwritten) {
        row[c * to.step[3]] = to_half(type, from[c]);
      }
    }
  }
}

// Rows [from_row.t, from_row.t + rows) of one head as a separate call.
ForwardCall piece_of(const ForwardCall& call, const Stage& stage,
                     FirstRow from_row, int64_t rows) {
  ForwardCall piece = call;
  piece.half = {};
  piece.batch = piece.heads = piece.kv_heads = 1;
  piece.queries = rows;
  piece.diagonal = call.diagonal + from_row.t;
  piece.options = call.options.from(from_row.b, from_row.h, from_row.t, 0);
  piece.q = {stage.q, {0, 0, call.width, 1}};
  piece.k = {stage.k, {0, 0, call.width, 1}};
  piece.v = {stage.v, {0, 0, call.value_width, 1}};
  piece.o = {stage.o, {0, 0, call.value_width, 1}};
  if (stage.weights != nullptr) {
    piece.weights = {stage.weights, {0, 0, call.keys, 1}};
  }
  if (call.lse.data != nullptr) {
    piece.lse.data = call.lse.at(from_row.b, from_row.h, from_row.t);
  }
  return piece;
}

// One query head; K and V are in the stage.
qkvet_status compute_head(const ForwardCall& call, const Stage& stage,
                          int64_t b, int64_t h, const Arithmetic& compute,
                          qkvet_text* why) {
  const HalfViews& half = call.half;
  const Rope& rope = call.options.rope;
  for (int64_t first = 0; first < call.queries; first += kWidenedRows) {
    const int64_t left = call.queries - first;
    const int64_t rows = left < kWidenedRows ? left : kWidenedRows;
    const FirstRow from_row = {b, h, first};
    widen(call.storage, half.q, from_row, rows, call.width, stage.q);
    if (rope.present()) {
      turn_rows(rope, rope.q, b, first, rows, call.width, stage.q);
    }
    fill_unwritten(stage.o, rows * call.value_width);
    if (stage.weights != nullptr) {
      fill_unwritten(stage.weights, rows * call.keys);
    }
    QKVET_TRY(compute(piece_of(call, stage, from_row, rows), why));
    narrow(call.storage, stage.o, rows, call.value_width, half.o, from_row);
    if (stage.weights != nullptr) {
      narrow(call.storage, stage.weights, rows, call.keys, half.weights,
             from_row);
    }
  }
  return QKVET_OK;
}

qkvet_status compute_converted(const ForwardCall& call,
                               const Arithmetic& compute, qkvet_text* why) {
  std::unique_ptr<float[]> memory;
  QKVET_TRY(allocate(floats_of(call), &memory, why,
                     "no memory to convert the inputs"));
  const Stage stage = cut(call, memory.get());
  for (int64_t b = 0; b < call.batch; ++b) {
    for (int64_t h = 0; h < call.heads; ++h) {
      if (h % call.group() == 0) {
        const FirstRow from_row = {b, h / call.group(), 0};
        widen(call.storage, call.half.k, from_row, call.keys, call.width,
              stage.k);
        if (const Rope& rope = call.options.rope; rope.present()) {
          turn_rows(rope, rope.k, b, 0, call.keys, call.width, stage.k);
        }
        widen(call.storage, call.half.v, from_row, call.keys, call.value_width,
              stage.v);
      }
      QKVET_TRY(compute_head(call, stage, b, h, compute, why));
    }
  }
  return QKVET_OK;
}

qkvet_status compute_any(const ForwardCall& call, const Arithmetic& compute,
                         qkvet_text* why) {
  QKVET_TRY(check_positions(call, why));
  write_dropout_mask(call);
  return compute_members(call, why, [&](const ForwardCall& member) {
    if (member.storage != Storage::kF32) {
      return compute_converted(member, compute, why);
    }
    return compute_turned(member, why, [&](const ForwardCall& turned) {
      return compute(turned, why);
    });
  });
}

}  // namespace

qkvet_status check_positions(const ForwardCall& call, qkvet_text* why) {
  const Rope& rope = call.options.rope;
  return !rope.present() ||
                 (has_positions(rope, rope.q, call.batch, call.queries) &&
                  has_positions(rope, rope.k, call.batch, call.keys))
             ? QKVET_OK
             : refuse(why, QKVET_INVALID_ARGUMENT,
                      "a position is no row of the tables");
}

qkvet_status compute_in_f32(const ForwardCall& call, ComputeF32 compute,
                            qkvet_text* why) {
  return compute_any(call, {compute, {}}, why);
}

qkvet_status compute_in_f32(const ForwardCall& call, ComputeIn compute,
                            qkvet_text* why) {
  return compute_any(call, {nullptr, compute}, why);
}

}  // namespace qkvet::impl
