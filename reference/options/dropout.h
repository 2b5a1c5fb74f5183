// SPDX-License-Identifier: Apache-2.0
// Attention with dropout of its weights (Srivastava et al., "Dropout: A Simple
// Way to Prevent Neural Networks from Overfitting", 2014, inverted: kept ones
// grow in the forward pass), for a given mask m:
//
//   o_i = sum_j f_ij p_ij v_j,   f_ij = m_ij / (1 - p_drop)
//
// and how far from it a correct kernel may be. Weights, lse and the softmax are
// those without dropout. Derivation: bounds.md, "Dropout".
#ifndef QKVET_REFERENCE_OPTIONS_DROPOUT_H_
#define QKVET_REFERENCE_OPTIONS_DROPOUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "reference/gradient/gradient.h"

namespace qkvet::reference {

struct DropoutProblem {
  Problem forward;
  double p = 0;                   // that a weight is dropped, below 1
  const uint8_t* kept = nullptr;  // [B,H,Tq,Tk], nonzero: kept
};

// Why dropout in this call has no derivation, in one line; "" if it has. None
// of the functions below may be called where it has not.
std::string dropout_not_derived(const Problem& forward);

// The definition, in double; and another algorithm, in double-double: the twin
// of a separate call for every row, with the values f v.
OracleOutput plain_dropout(const DropoutProblem& problem);
OracleOutput twin_dropout(const DropoutProblem& problem);

// [B,H,Tq,dv], as Bound::o. `forward` is the output of either function above.
struct DropoutBound {
  std::vector<double> o;
  std::vector<double> reach;  // as BoundFacts::reach()
};
DropoutBound dropout_bound(const DropoutProblem& problem,
                           const OracleOutput& forward,
                           const PrecisionModel& model);

// As in GradientProblem; o is what forward() returned for this mask.
struct DropoutGiven {
  const double* d_o = nullptr;  // [B,H,Tq,dv]
  const double* o = nullptr;    // [B,H,Tq,dv]
  const double* lse = nullptr;  // [B,H,Tq], natural
  bool lse_in_base2 = false;
};

// dv = (f p)^T do, dP = f (do v^T), and the rest as without dropout; and the
// sum of the twin's gradients of all rows.
GradientOutput plain_dropout_backward(const DropoutProblem& problem,
                                      const double* d_o);
GradientOutput twin_dropout_backward(const DropoutProblem& problem,
                                     const double* d_o);

// `forward` and `truth` are the outputs of either reference.
GradientBound dropout_backward_bound(const DropoutProblem& problem,
                                     const DropoutGiven& given,
                                     const OracleOutput& forward,
                                     const GradientOutput& truth,
                                     const PrecisionModel& model);

}  // namespace qkvet::reference

#endif  // QKVET_REFERENCE_OPTIONS_DROPOUT_H_
