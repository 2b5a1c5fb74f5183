// SPDX-License-Identifier: Apache-2.0
// Dual numbers, x + x' epsilon with epsilon^2 = 0 (Clifford, "Preliminary
// sketch of biquaternions", 1873), in double-double, and attention on them.
#ifndef QKVET_REFERENCE_GRADIENT_DUAL_FORWARD_H_
#define QKVET_REFERENCE_GRADIENT_DUAL_FORWARD_H_

#include <vector>

#include "reference/arithmetic/double_double.h"
#include "reference/arithmetic/oracle.h"

namespace qkvet::reference {

struct Dual {
  DoubleDouble value;
  DoubleDouble slope;
};

inline Dual operator+(Dual a, Dual b) {
  return {a.value + b.value, a.slope + b.slope};
}
inline Dual operator-(Dual a, Dual b) {
  return {a.value - b.value, a.slope - b.slope};
}
inline Dual operator*(Dual a, Dual b) {
  return {a.value * b.value, a.slope * b.value + a.value * b.slope};
}
inline Dual operator/(Dual a, Dual b) {
  const DoubleDouble quotient = a.value / b.value;
  return {quotient, (a.slope - quotient * b.slope) / b.value};
}

inline Dual dual_constant(double x) { return {x, 0.0}; }

// An input and its direction, which may be null; empty if x is null.
std::vector<Dual> dual_input(const double* x, const double* direction,
                             int64_t count);

// The variables of a call of attention; its other options are constant.
struct DualCall {
  std::vector<Dual> q;     // [B,H,Tq,d]
  std::vector<Dual> k;     // [B,Hkv,Tk,d]
  std::vector<Dual> v;     // [B,Hkv,Tk,dv]
  std::vector<Dual> bias;  // [B,H,Tq,Tk], or empty
  std::vector<Dual> sink;  // [H], or empty
};

// x [B,heads,rows,width] turned by a rotation at positions [B,rows], pairs as
// complex numbers times cos + i sin.
void dual_rotate(const Rotation& turn, const int64_t* positions, int64_t heads,
                 int64_t rows, int64_t width, std::vector<Dual>& x);

// [B,H,Tq,dv]; 0 in rows that see no key or are not counted. The numbers of q,
// k, v, bias and sink in `call` are not read, nor is its rotation.
std::vector<Dual> dual_forward(const Problem& call, const DualCall& moving);

}  // namespace qkvet::reference

#endif  // QKVET_REFERENCE_GRADIENT_DUAL_FORWARD_H_
