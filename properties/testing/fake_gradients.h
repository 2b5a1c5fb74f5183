// SPDX-License-Identifier: Apache-2.0
// For tests: backward() as a function. By default the definition, rounded to
// storage, which every law about gradients must pass; a test corrupts its
// question or its answer to see a law fail.
#ifndef QKVET_PROPERTIES_TESTING_FAKE_GRADIENTS_H_
#define QKVET_PROPERTIES_TESTING_FAKE_GRADIENTS_H_

#include <functional>

#include "properties/testing/fake_executor.h"
#include "reference/gradient/gradient.h"

namespace qkvet::properties {

class FakeGradients
    : public SpoiltKernel<const KernelCall, GradientProblem, GradientOutput> {
 public:
  explicit FakeGradients(Question question = {}, Answer answer = {})
      : SpoiltKernel(info(), std::move(question), std::move(answer)) {}

  static KernelInfo info() {
    KernelInfo info = FakeExecutor::info();
    info.name = "fake/gradient";
    info.capabilities.options &= ~(QKVET_OPTION_PAGED | QKVET_OPTION_APPEND);
    info.has_forward = false;
    info.has_backward = true;
    info.backward_options = QKVET_BACKWARD_BIAS | QKVET_BACKWARD_SINK;
    info.dialect.empty_row = QKVET_EMPTY_ROW_ZERO;
    info.dialect.empty_row_lse = QKVET_EMPTY_LSE_MINUS_INF;
    return info;
  }
  static KernelUnderTest under_test() { return fake_under_test(info()); }

  // Instead of plain_backward; without dropout.
  std::function<GradientOutput(const GradientProblem&)> backward = nullptr;

 private:
  CallOutcome answer_to(const KernelCall& call) override {
    if (call.operation == Operation::kForward)
      return FakeExecutor().run(0, {&call, 1})[0];
    const Shape& s = call.shape;
    const auto q = stored_as_doubles(call.q, s.q_elements(), call.q_dtype);
    const auto k = stored_as_doubles(call.k, s.k_elements(), call.kv_dtype);
    const auto v = stored_as_doubles(call.v, s.v_elements(), call.kv_dtype);
    const auto d_o = stored_as_doubles(call.d_o, s.o_elements(), call.o_dtype);
    GradientProblem problem;
    problem.forward =
        make_problem(s, call.causal, call.scale, q.data(), k.data(), v.data());
    const FakeOptions options(call, problem.forward);
    problem.d_o = d_o.data();
    if (question_) question_(call, problem);
    const FakeDropout dropout(call);
    GradientOutput gradient =
        backward != nullptr ? backward(problem) : dropout.backward(problem);
    CallOutcome outcome;
    outcome.dropout_mask = dropout.mask(call);
    if (answer_) answer_(call, gradient, outcome);
    if (outcome.status != CallStatus::kDone) return outcome;
    outcome.d_q = doubles_as(call.q_dtype, gradient.q);
    outcome.d_k = doubles_as(call.kv_dtype, gradient.k);
    outcome.d_v = doubles_as(call.kv_dtype, gradient.v);
    if (call.want_d_bias)
      outcome.d_bias = doubles_as(call.q_dtype, gradient.bias);
    const bool f64 = call.q_dtype == Dtype::kF64;
    if (call.want_d_sink)
      outcome.d_sink =
          doubles_as(f64 ? Dtype::kF64 : Dtype::kF32, gradient.sink);
    return outcome;
  }
};

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_TESTING_FAKE_GRADIENTS_H_
