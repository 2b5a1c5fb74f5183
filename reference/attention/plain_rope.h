// SPDX-License-Identifier: Apache-2.0
// The definition of a rotation, in double (Su et al., "RoFormer", 2021, 3.2.2):
// channels a and b of pair n, at position p, become
//
//   a cos - b sin,  a sin + b cos       cos, sin: row p, column n of the tables
//
// Each decision is one member of PlainRopeHooks, for seeded faults to replace.
#ifndef QKVET_REFERENCE_ATTENTION_PLAIN_ROPE_H_
#define QKVET_REFERENCE_ATTENTION_PLAIN_ROPE_H_

#include <cmath>
#include <cstdint>
#include <vector>

#include "reference/arithmetic/oracle.h"

namespace qkvet::reference {

struct PlainRopeHooks {
  static int64_t first_channel(RopeStyle style, int64_t n) {
    return style == RopeStyle::kHalf ? n : 2 * n;
  }
  static int64_t second_channel(RopeStyle style, int64_t n, int64_t turned) {
    return style == RopeStyle::kHalf ? n + turned / 2 : 2 * n + 1;
  }
  // The number of turned channels, at most d.
  static int64_t turned(const Rotation& rotation, int64_t /*d*/) {
    return rotation.channels;
  }
  static double first(double a, double b, double cos, double sin) {
    return a * cos - b * sin;
  }
  static double second(double a, double b, double cos, double sin) {
    return a * sin + b * cos;
  }
};

// The largest distance of the parts of a rotated channel: sizes add up.
struct TurnedSizes : PlainRopeHooks {
  static double first(double a, double b, double cos, double sin) {
    return a * std::fabs(cos) + b * std::fabs(sin);
  }
  static double second(double a, double b, double cos, double sin) {
    return a * std::fabs(sin) + b * std::fabs(cos);
  }
};

// A gradient of rotated rows becomes one of the rows before the rotation by its
// transpose, which is that with negative sines.
enum class TurnWay : int8_t { kForth = 1, kBack = -1 };

// [B,heads,rows,d], all of one q or k.
struct RopeRows {
  int64_t B = 0;
  int64_t heads = 0;
  int64_t rows = 0;
  int64_t d = 0;
  const double* data = nullptr;
  const int64_t* positions = nullptr;  // [B,rows]
};

inline RopeRows query_rows(const Problem& p) {
  const Shape& s = p.shape;
  return {s.B, s.H, s.Tq, s.d, p.q, p.rotation.q_positions};
}
inline RopeRows key_rows(const Problem& p) {
  const Shape& s = p.shape;
  return {s.B, s.Hkv, s.Tk, s.d, p.k, p.rotation.k_positions};
}

inline RopeRows with_data(RopeRows rows, const std::vector<double>& data) {
  rows.data = data.data();
  return rows;
}

// Calls visit(first, second, table) with the elements of each pair of each row,
// and its element of the tables.
template <class Hooks, class Visit>
void for_each_pair(const Rotation& rotation, const RopeRows& rows,
                   Visit visit) {
  const RopeStyle style = rotation.style;
  const int64_t turned = Hooks::turned(rotation, rows.d);
  const int64_t pairs = turned / 2;
  for (int64_t row = 0; row < rows.B * rows.heads * rows.rows; ++row) {
    const int64_t b = row / (rows.heads * rows.rows);
    const int64_t position =
        rows.positions[b * rows.rows + row % rows.rows] * pairs;
    const int64_t start = row * rows.d;
    for (int64_t n = 0; n < pairs; ++n) {
      visit(start + Hooks::first_channel(style, n),
            start + Hooks::second_channel(style, n, turned), position + n);
    }
  }
}

template <class Hooks>
std::vector<double> plain_rotate(const Rotation& rotation, const RopeRows& rows,
                                 TurnWay way = TurnWay::kForth) {
  const auto sign = static_cast<double>(way);
  const int64_t elements = rows.B * rows.heads * rows.rows * rows.d;
  std::vector<double> turned(rows.data, rows.data + elements);
  for_each_pair<Hooks>(rotation, rows,
                       [&](int64_t first, int64_t second, int64_t table) {
                         const double a = rows.data[first];
                         const double b = rows.data[second];
                         const double cos = rotation.cos[table];
                         const double sin = sign * rotation.sin[table];
                         turned[first] = Hooks::first(a, b, cos, sin);
                         turned[second] = Hooks::second(a, b, cos, sin);
                       });
  return turned;
}

}  // namespace qkvet::reference

#endif  // QKVET_REFERENCE_ATTENTION_PLAIN_ROPE_H_
