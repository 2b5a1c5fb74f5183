// SPDX-License-Identifier: Apache-2.0
// What the gradient of a call of attention is (Dao, "FlashAttention-2", 3.1.2;
// the formulas stand in qkvet/backward.h), and how far from it a correct kernel
// may be. Derivation: bounds.md, "Gradients".
//
// plain_backward is the definition, in double; twin_backward is another
// algorithm, in double-double, that shares no function with it;
// directional_derivative differentiates the forward pass itself, without any
// formula for a gradient.
#ifndef QKVET_REFERENCE_GRADIENT_GRADIENT_H_
#define QKVET_REFERENCE_GRADIENT_GRADIENT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "reference/arithmetic/oracle.h"
#include "reference/arithmetic/precision.h"
#include "reference/bound/bound.h"

namespace qkvet::reference {

// Every input exact in double, contiguous, row-major.
struct GradientProblem {
  Problem forward;
  // [B,H,Tq,dv]; rows that are not counted may hold anything.
  const double* d_o = nullptr;
  // What a kernel is given of the forward pass, as stored: truths that were
  // rounded, lse natural. Only backward_bound reads them; rows that are not
  // counted or see no key may hold anything.
  const double* o = nullptr;    // [B,H,Tq,dv]
  const double* lse = nullptr;  // [B,H,Tq]
  // The kernel is given lse in base 2 and may have to convert it; `lse` above
  // is ln 2 times what was stored.
  bool lse_in_base2 = false;
};

// Why the gradients of a kernel of this arithmetic have no derivation, beside
// dropout of weights or without, in one line; "" if they have. The bound may
// not be asked for where they have not.
std::string gradient_not_derived(const PrecisionModel& model,
                                 bool drops = false);

// Exactly 0: pairs that are masked, keys that no row sees, rows without a key.
struct GradientOutput {
  std::vector<double> q;     // [B,H,Tq,d]
  std::vector<double> k;     // [B,Hkv,Tk,d], summed over the heads of a group
  std::vector<double> v;     // [B,Hkv,Tk,dv], likewise
  std::vector<double> bias;  // [B,H,Tq,Tk], whether or not there is a bias
  std::vector<double> sink;  // [H], or empty if there is no sink
};

GradientOutput plain_backward(const GradientProblem& problem);
GradientOutput twin_backward(const GradientProblem& problem);

// Where to move the inputs, in the shapes of Problem; null: nowhere.
struct GradientDirection {
  const double* q = nullptr;
  const double* k = nullptr;
  const double* v = nullptr;
  const double* bias = nullptr;  // zero where the bias is -infinity
  const double* sink = nullptr;
};

// The derivative of sum d_o o, over the rows that are counted, in the given
// direction: dual numbers of double-double carried through a forward pass. By
// the adjoint identity it equals the sum of gradient times direction over all
// inputs.
double directional_derivative(const GradientProblem& problem,
                              const GradientDirection& direction);

// Each in the shapes of GradientOutput.
//
// The distance that is allowed before the rounding to the output format: y is
// accepted iff RN(truth - bound) <= y <= RN(truth + bound). 0 where the
// gradient is exactly 0 for every kernel. +infinity where nothing is judged: an
// overflow is legitimate on the way; rows of q and pairs of bias beyond q_len;
// rows of k and v, and pairs, beyond kv_len; what no packed member holds.
//
// `reach` is what lost terms could change: the sum of the absolute terms that
// the element adds up. It is vacuous where the bound is at least half of the
// reach, and uninformative where the reach is 0.
struct GradientBound {
  std::vector<double> q, k, v, bias, sink;
  GradientOutput reach;
};

// `forward` and `truth` are the outputs of either reference: of the twin where
// the storage is f64. `model` is that of the case: for_storage(model, storage
// of k and v, storage of the gradients). Orders of sums that it declares say
// nothing about a gradient and are not used; where it rounds P to a half
// format, P and dS may be rounded to it as well, once each.
//
// The problem has no rotation: options/rope.h has the bound of one that has.
//
// A kernel may use o and lse as given, or take a softmax of its own, or
// rowsum(P dP) in place of rowsum(d_o o).
GradientBound backward_bound(const GradientProblem& problem,
                             const OracleOutput& forward,
                             const GradientOutput& truth,
                             const PrecisionModel& model);

// How far what a kernel reads may be from the problem's, element by element;
// null: not at all. For kernels that compute it on their own.
struct GradientErrors {
  InputErrors inputs;           // of q, k and v
  const double* d_o = nullptr;  // [B,H,Tq,dv]
  const double* o = nullptr;    // [B,H,Tq,dv], of the given o
};

// The same with the facts of the forward pass, BoundFacts(problem.forward,
// forward, errors.inputs), which do not depend on the model.
GradientBound backward_bound(const GradientProblem& problem,
                             const BoundFacts& facts,
                             const GradientOutput& truth,
                             const PrecisionModel& model,
                             const GradientErrors& errors = {});

}  // namespace qkvet::reference

#endif  // QKVET_REFERENCE_GRADIENT_GRADIENT_H_
