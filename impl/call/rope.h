// SPDX-License-Identifier: Apache-2.0
// Rotary positions (kernel.h): channels a and b of a pair at position p become
// a cos - b sin and a sin + b cos, in f32, before anything else is computed.
// in_f32.h does it for every arithmetic that it calls; caches and layers do it
// for the rows that they attend over.
#ifndef QKVET_IMPL_CALL_ROPE_H_
#define QKVET_IMPL_CALL_ROPE_H_

#include <cstdint>
#include <initializer_list>

#include "impl/call/tensor_view.h"
#include "qkvet/kernel.h"

namespace qkvet::impl {

struct Rope {
  int32_t style = QKVET_ROPE_NONE;
  int64_t rows = 0;            // of the tables
  int64_t channels = 0;        // the first ones are turned
  View<const float> cos, sin;  // [rows, channels/2]
  View<const int64_t> q, k;    // positions, [B, Tq] and [B, Tk]

  bool present() const { return style != QKVET_ROPE_NONE; }
  bool has(int64_t position) const { return 0 <= position && position < rows; }
  // For a call that begins at member b, row i and key j of this one.
  Rope from(int64_t b, int64_t i, int64_t j) const;
};

// Whether a call has an unknown style, or some of the tensors of a rotation
// although it has no rotation, or not all of them although it has one.
bool wrong_rope(int32_t style,
                std::initializer_list<const qkvet_tensor*> tensors);
inline constexpr const char* kWrongRope =
    "rope: halves or interleaved pairs come with both tables and all "
    "positions, and no rotation comes without them";
// Whether the tables have fewer columns than q or x has pairs of channels.
bool turns_a_part(const qkvet_tensor& cos, const qkvet_tensor& q);
inline constexpr const char* kWideRope =
    "rope: the tables have more columns than there are pairs of channels";
// The style and the checked tables of a call; positions are the caller's.
void fill_rope(int32_t style, const qkvet_tensor& cos, const qkvet_tensor& sin,
               Rope* rope);
// Whether the tables have all positions of [members, rows].
bool has_positions(const Rope& rope, const View<const int64_t>& positions,
                   int64_t members, int64_t rows);

// The usual rotation of one row; a fault replaces a part of it.
struct PlainTurn {
  // The number of pairs that are turned.
  static int64_t pairs(int64_t channels) { return channels / 2; }
  static int64_t apart(const Rope& rope, int64_t /*width*/) {
    return rope.channels / 2;
  }
  // The first of them.
  static int64_t first(const Rope& /*rope*/, int64_t /*width*/) { return 0; }
  static int32_t style(int32_t style) { return style; }
  static float sine(float sin) { return sin; }
  // The column of the tables for pair n.
  static int64_t column(int64_t n, int64_t /*pairs*/) { return n; }
  // The position of row t of member b.
  static int64_t position(const View<const int64_t>& positions, int64_t b,
                          int64_t t) {
    return *positions.at(b, t, 0);
  }
};

// Rotates a row [d], in place, by the angles of `position`.
template <class Turn = PlainTurn>
void turn_row(const Rope& rope, int64_t position, int64_t width, float* row) {
  const bool half = Turn::style(rope.style) == QKVET_ROPE_HALF;
  const int64_t apart = half ? Turn::apart(rope, width) : 1;
  row += Turn::first(rope, width);
  const float* const cos = rope.cos.at(position, 0, 0);
  const float* const sin = rope.sin.at(position, 0, 0);
  for (int64_t n = 0; n < Turn::pairs(rope.channels); ++n) {
    float* const a = row + (half ? n : 2 * n);
    const int64_t column = Turn::column(n, rope.channels / 2);
    const float c = cos[column * rope.cos.step[1]];
    const float s = Turn::sine(sin[column * rope.sin.step[1]]);
    const float first = a[0] * c - a[apart] * s;
    a[apart] = a[0] * s + a[apart] * c;
    a[0] = first;
  }
}

// Rotates `rows` contiguous rows of one head of member b; their positions are
// `positions` from row `first` on.
template <class Turn = PlainTurn>
void turn_rows(const Rope& rope, const View<const int64_t>& positions,
               int64_t b, int64_t first, int64_t rows, int64_t width,
               float* row) {
  for (int64_t t = first; t < first + rows; ++t, row += width) {
    turn_row<Turn>(rope, Turn::position(positions, b, t), width, row);
  }
}

// [B, heads, rows, d] of any strides into contiguous `to`, rotated.
template <class Turn = PlainTurn>
View<const float> turned_copy(const Rope& rope, const View<const float>& from,
                              const View<const int64_t>& positions, int64_t B,
                              int64_t heads, int64_t rows, int64_t width,
                              float* to) {
  const View<const float> view = {
      to, {heads * rows * width, rows * width, width, 1}};
  for (int64_t b = 0; b < B; ++b) {
    for (int64_t h = 0; h < heads; ++h, to += rows * width) {
      for (int64_t n = 0; n < rows * width; ++n) {
        to[n] = from.at(b, h, n / width)[n % width * from.step[3]];
      }
      turn_rows<Turn>(rope, positions, b, 0, rows, width, to);
    }
  }
  return view;
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CALL_ROPE_H_
