// SPDX-License-Identifier: Apache-2.0
#include "reference/testing/test_layer_gradients.h"

namespace qkvet::reference {
namespace {

using Values = std::vector<double>;

class Run {
 public:
  Run(const LayerGradientKernel& kernel, const LayerGradientProblem& problem)
      : kernel_(kernel),
        problem_(problem),
        p_(problem.forward),
        s_(p_.shape),
        tokens_(s_.B * s_.Tq) {}

  LayerGradientOutput run();

 private:
  Values stored(Values x) const {
    round_all(x, kernel_.stage);
    return x;
  }
  // x^T, of x [rows,columns].
  static Values turned(const double* x, int64_t rows, int64_t columns) {
    Values out(rows * columns);
    for (int64_t a = 0; a < rows * columns; ++a) {
      out[a % columns * rows + a / columns] = x[a];
    }
    return out;
  }
  // x^T dy, of dy [tokens,out].
  Values weight(const double* x, int64_t in, const Values& dy) const {
    const int64_t out = static_cast<int64_t>(dy.size()) / tokens_;
    const Values columns = turned(x, tokens_, in);
    return run_test_linear(
        kernel_.linear, {in, tokens_, out, columns.data(), dy.data(), nullptr});
  }
  Values bias(const Values& dy) const {
    const Values ones(tokens_, 1.0);
    return weight(ones.data(), 1, dy);
  }
  // Adds dy W^T to d_x, W [D,out].
  void add_input(const Values& dy, const double* w, Values& d_x) const {
    const int64_t out = static_cast<int64_t>(dy.size()) / tokens_;
    const Values rows = turned(w, s_.D, out);
    const Values part = run_test_linear(
        kernel_.linear, {tokens_, out, s_.D, dy.data(), rows.data(), nullptr});
    for (size_t a = 0; a < part.size(); ++a) {
      d_x[a] = static_cast<float>(d_x[a]) + static_cast<float>(part[a]);
    }
  }

  const LayerGradientKernel& kernel_;
  const LayerGradientProblem& problem_;
  const LayerProblem& p_;
  const Shape& s_;
  int64_t tokens_;
};

LayerGradientOutput Run::run() {
  const TestProjections of_layer(kernel_.linear, kernel_.stage, p_);
  GradientProblem call;
  call.forward = of_layer.attention;
  const TestControl forward =
      control_named(kernel_.attention.ftz ? "flush_to_zero" : "naive");
  const TestOutput out = run_control(forward, call.forward);
  const Values o = stored(out.o);
  const int64_t width = s_.H * s_.dv;
  const Values w_o = turned(p_.w_o, width, s_.D);
  const Values d_o = stored(test_heads(
      s_,
      run_test_linear(kernel_.linear, {tokens_, s_.D, width, problem_.d_y,
                                       w_o.data(), nullptr}),
      s_.H, s_.dv));
  call.o = o.data();
  call.lse = out.lse.data();
  call.d_o = d_o.data();
  GradientOutput of = run_backward_kernel(kernel_.attention, call);
  of.q = test_turned(p_, s_.H, -1, kernel_.stage, stored(of.q));
  of.k = test_turned(p_, s_.Hkv, -1, kernel_.stage, stored(of.k));
  of.v = stored(of.v);
  const Values d_q = test_rows(s_, of.q, s_.H, s_.d);
  const Values d_k = test_rows(s_, of.k, s_.Hkv, s_.d);
  const Values d_v = test_rows(s_, of.v, s_.Hkv, s_.dv);
  const Values d_y(problem_.d_y, problem_.d_y + tokens_ * s_.D);
  LayerGradientOutput all;
  all.x.assign(tokens_ * s_.D, 0);
  add_input(d_q, p_.w_q, all.x);
  add_input(d_k, p_.w_k, all.x);
  add_input(d_v, p_.w_v, all.x);
  all.w_q = weight(p_.x, s_.D, d_q);
  all.w_k = weight(p_.x, s_.D, d_k);
  all.w_v = weight(p_.x, s_.D, d_v);
  all.w_o = weight(test_rows(s_, o, s_.H, s_.dv).data(), width, d_y);
  all.b_q = bias(d_q);
  all.b_k = bias(d_k);
  all.b_v = bias(d_v);
  all.b_o = bias(d_y);
  return all;
}

}  // namespace

LayerGradientOutput run_layer_gradient(const LayerGradientKernel& kernel,
                                       const LayerGradientProblem& problem) {
  return Run(kernel, problem).run();
}

// Every gradient of f32 and half storage, with projections in turn; those of
// half storage with stages in f32 as well.
std::vector<LayerGradientKernel> layer_gradient_kernels() {
  const std::vector<TestLinearKernel> linear = test_linear_kernels();
  std::vector<LayerGradientKernel> all;
  for (const BackwardKernel& attention : backward_kernels()) {
    if (attention.storage == Dtype::kF64) continue;
    LayerGradientKernel kernel;
    kernel.attention = attention;
    // Only the last of the projections flushes to zero.
    kernel.linear = attention.ftz ? linear.back()
                                  : linear[all.size() % (linear.size() - 1)];
    kernel.linear.storage = attention.storage;
    all.push_back(kernel);
    if (attention.storage == Dtype::kF32) continue;
    kernel.stage = attention.storage;
    all.push_back(kernel);
  }
  return all;
}

}  // namespace qkvet::reference
