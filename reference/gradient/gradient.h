// SPDX-License-Identifier: Apache-2.0
// The gradient of a call of attention (Dao, "FlashAttention-2", 3.1.2; the
// formulas are in qkvet/backward.h), and the bound for a correct kernel.
// Derivation: bounds.md, "Gradients".
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
  // Results of the forward pass that a kernel is given, as stored: rounded
  // truths, lse natural. Only backward_bound reads them; rows that are not
  // counted or see no key may hold anything.
  const double* o = nullptr;    // [B,H,Tq,dv]
  const double* lse = nullptr;  // [B,H,Tq]
  // The kernel is given lse in base 2 and may have to convert it; `lse` above
  // is ln 2 times what was stored.
  bool lse_in_base2 = false;
};

// The reason, in one line, why gradients of this arithmetic, with or without
// dropout of weights, have no derived bound; "" if they have one. The bound may
// not be computed without one.
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

// A direction to move the inputs in, in the shapes of Problem; null: not moved.
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
// accepted iff RN(truth - bound) <= y <= RN(truth + bound). 0 if the gradient
// is exactly 0 for every kernel. +infinity for elements that are not judged: an
// overflow is legitimate on the way; rows of q and pairs of bias beyond q_len;
// rows of k and v, and pairs, beyond kv_len; elements outside every packed
// member.
//
// `reach` is what lost terms could change: the sum of the absolute terms that
// the element adds up. It is vacuous if the bound is at least half of the
// reach, and uninformative if the reach is 0.
struct GradientBound {
  std::vector<double> q, k, v, bias, sink;
  GradientOutput reach;
};

// `forward` and `truth` are the outputs of either reference: of the twin for
// f64 storage. `model` is that of the case: for_storage(model, storage of k and
// v, storage of the gradients). Its orders of sums do not apply to gradients
// and are not used; if it rounds P to a half format, P and dS may be rounded to
// it as well, once each.
//
// The problem has no rotation: options/rope.h has the bound with one.
//
// A kernel may use o and lse as given, or compute its own softmax, or rowsum(P
// dP) instead of rowsum(d_o o).
GradientBound backward_bound(const GradientProblem& problem,
                             const OracleOutput& forward,
                             const GradientOutput& truth,
                             const PrecisionModel& model);

// The largest difference of a kernel's inputs from the problem's, for each
// element; null: none. For kernels that compute these inputs themselves.
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
