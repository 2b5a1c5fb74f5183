// SPDX-License-Identifier: Apache-2.0
// For the tests of gradients: a call with all of its tensors, and what it
// should give, in double, pair by pair from the definition.
#ifndef QKVET_IMPL_TESTING_BACKWARD_FIXTURE_H_
#define QKVET_IMPL_TESTING_BACKWARD_FIXTURE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "impl/testing/any_tensor.h"
#include "impl/testing/options_fixture.h"

namespace qkvet::impl {

// Kernels with a gradient of attention that open on this CPU: all that are not
// faulty, or the faults.
std::vector<const qkvet_kernel*> differentiable(bool faulty);

struct Gradients {
  // Row-major, in the shapes of backward.h; sink [H].
  std::vector<double> q, k, v, bias, sink;
};

struct GradientCall {
  GradientCall(const Asked& asked, Storage type);

  // Args with everything that can be asked for. Outputs are prefilled with
  // OptionCall::kUnwritten; o and lse are those of doubles, rounded once, and
  // NaN in rows that do not count.
  qkvet_backward_args args();
  std::vector<float> outputs() const;  // d_q, d_k, d_v, d_bias, d_sink

  OptionCall call;
  AnyTensor d_o, d_q, d_k, d_v, d_bias, d_sink;

 private:
  qkvet_forward_args forward_ = {};
};

// All of a Gradients in one list, like GradientCall::outputs().
std::vector<double> flat(const Gradients& gradients);

struct GradientTruth {
  Gradients exact;    // kUnwritten where nothing may be written
  Gradients allowed;  // how far off a kernel may be
};
// What roundings of f32 and of the storage type may do to sums of this size,
// roughly: kernels are judged elsewhere. `operands`: unit roundoff of p and ds
// in front of their products, where they are rounded.
GradientTruth truth_of(const GradientCall& call, double operands = 0);

// sum of d_o o in double, from the definition of the forward call: what all
// gradients are the derivative of.
double loss_of(const GradientCall& call);

struct GradientAnswer {
  qkvet_status status = QKVET_OK;
  std::string reason;
  std::vector<float> outputs;
};
GradientAnswer run_backward(const qkvet_kernel* kernel,
                            const qkvet_backward_args& args,
                            int32_t threads = 1);
GradientAnswer run_backward(const qkvet_kernel* kernel, GradientCall* call,
                            int32_t threads = 1);

// Index of the first output that is off, or -1; NaN is off.
int64_t first_error(const std::vector<float>& outputs,
                    const GradientTruth& truth);

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_TESTING_BACKWARD_FIXTURE_H_
