// SPDX-License-Identifier: Apache-2.0
// Correct gradients of many arithmetics, as controls of their bound: they share
// no arithmetic with the references and nothing with the kernels of impl/;
// which keys a row sees is the definition's. f32 arithmetic for f32 and half
// storage, f64 for f64.
#ifndef QKVET_REFERENCE_TESTING_TEST_BACKWARD_H_
#define QKVET_REFERENCE_TESTING_TEST_BACKWARD_H_

#include <string>
#include <vector>

#include "core/base/dtype.h"
#include "reference/arithmetic/precision.h"
#include "reference/gradient/gradient.h"
#include "reference/options/dropout.h"
#include "reference/testing/test_sums.h"

namespace qkvet::reference {

// Where P comes from.
enum class TestShare : uint8_t {
  kGiven,    // exp(s - lse)
  kOwnLse,   // the same, with an lse of its own
  kSoftmax,  // exp(s - m) / sum
  kExp2,     // exp2((s - lse) log2 e)
  kFolded    // exp2 of one fused multiply-add, unless there is a cap
};
// Where D comes from.
enum class TestDelta : uint8_t {
  kGiven,  // rowsum(d_o o)
  kPairs,  // rowsum(P dP)
  kStart   // as kGiven; the sums of dP start from -D
};
// The numbers that the scale is applied to.
enum class TestScale : uint8_t { kSum, kPair, kOperand };

enum class TestBackwardFault : uint8_t {
  kNone,
  kDeltaMissing,  // dS = P dP
  kScale,         // too large by 2^-8
  kSlightScale,   // by 2^-14
  kLostKey,       // the last key of each row, unless it is the only one
  kLostMember,    // the last head of each group, for dk and dv
  // With dropout:
  kScaledByP,
  kOtherMask,
  kDroppedWeights,  // the softmax's own gradient is taken of f p
  kPullNotMasked    // dP = do v^T
};

struct BackwardKernel {
  std::string name = "unnamed";
  TestOrder order = TestOrder::kAscending;
  bool fma = false;  // kAscending alone
  TestShare share = TestShare::kGiven;
  TestDelta delta = TestDelta::kGiven;
  TestScale scale = TestScale::kSum;
  bool product_apart = false;  // P dP - P D
  bool heads_apart = false;    // each head of a group on its own first
  bool ftz = false;
  bool base2 = false;           // is given lse in base 2
  Dtype storage = Dtype::kF32;  // of inputs and outputs
  Dtype rounded = Dtype::kF32;  // of P and dS before the last products
  bool rounded_first = false;   // P at once, for everything
  bool operands = false;        // q, k, v and d_o as well, when they are read
  // The type in which operators store results: scores, dP, dS, and dS times the
  // scale. f32: not rounded.
  Dtype stored = Dtype::kF32;
  // The same of each result of the softmax; kGiven and kSoftmax, kGiven and
  // kPairs.
  Dtype softmax = Dtype::kF32;
  // The error of exp, either way; kGiven, kOwnLse and kSoftmax. 0: as the
  // library is.
  double exp_error = 0;
  // kGiven and kPairs; not of the scale.
  const DropoutProblem* dropout = nullptr;
  TestBackwardFault fault = TestBackwardFault::kNone;

  // Looser than an undeclared kernel may be.
  bool stores() const {
    return stored != Dtype::kF32 || softmax != Dtype::kF32;
  }
  bool coarse() const { return operands || exp_error > 0 || stores(); }
};

// Before the rounding to the storage.
GradientOutput run_backward_kernel(const BackwardKernel& kernel,
                                   const GradientProblem& problem);

// The declaration that the author would make, for the case.
PrecisionModel declared_precision(const BackwardKernel& kernel);

// Every correct configuration, of f32, half and f64 storage.
std::vector<BackwardKernel> backward_kernels();

}  // namespace qkvet::reference

#endif  // QKVET_REFERENCE_TESTING_TEST_BACKWARD_H_
