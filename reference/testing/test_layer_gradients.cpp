// SPDX-License-Identifier: Apache-2.0
// Layouts are written out once more: row (b, t) of [B T,heads width] holds head
// h in the columns h width ...
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
  int64_t element(int64_t heads, int64_t width, int64_t row, int64_t c) const {
    const int64_t token = row / (heads * s_.Tq) * s_.Tq + row % s_.Tq;
    return (token * heads + row / s_.Tq % heads) * width + c;
  }
  Values stored(Values x) const {
    round_all(x, kernel_.stage);
    return x;
  }
  Values to_heads(const Values& rows, int64_t heads, int64_t width) const {
    Values out(rows.size());
    for (size_t a = 0; a < out.size(); ++a) {
      const auto at = static_cast<int64_t>(a);
      out[a] = rows[element(heads, width, at / width, at % width)];
    }
    return out;
  }
  Values to_rows(const Values& all, int64_t heads, int64_t width) const {
    Values out(all.size());
    for (size_t a = 0; a < out.size(); ++a) {
      const auto at = static_cast<int64_t>(a);
      out[element(heads, width, at / width, at % width)] = all[a];
    }
    return out;
  }
  // x^T, of x [rows,columns].
  static Values turned(const double* x, int64_t rows, int64_t columns) {
    Values out(rows * columns);
    for (int64_t a = 0; a < rows * columns; ++a) {
      out[a % columns * rows + a / columns] = x[a];
    }
    return out;
  }
  Values project(const double* w, const double* b, int64_t heads,
                 int64_t width) const {
    return stored(
        to_heads(run_test_linear(kernel_.linear,
                                 {tokens_, s_.D, heads * width, p_.x, w, b}),
                 heads, width));
  }
  // By the angles of the positions, or back.
  Values rotate(Values all, int64_t heads, float direction) const;
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

Values Run::rotate(Values all, int64_t heads, float direction) const {
  if (p_.rotation.style == RopeStyle::kNone) return all;
  const int64_t pairs = s_.d / 2;
  const bool half = p_.rotation.style == RopeStyle::kHalf;
  for (int64_t n = 0; n < static_cast<int64_t>(all.size()) / 2; ++n) {
    const int64_t row = n / pairs;
    const int64_t token = row / (heads * s_.Tq) * s_.Tq + row % s_.Tq;
    const int64_t at = p_.rotation.q_positions[token] * pairs + n % pairs;
    double& a = all[row * s_.d + (half ? n % pairs : 2 * (n % pairs))];
    double& b = *(&a + (half ? pairs : 1));
    const auto cos = static_cast<float>(p_.rotation.cos[at]);
    const auto sin = direction * static_cast<float>(p_.rotation.sin[at]);
    const auto first = static_cast<float>(a);
    const auto second = static_cast<float>(b);
    a = first * cos - second * sin;
    b = second * cos + first * sin;
  }
  return stored(std::move(all));
}

LayerGradientOutput Run::run() {
  const Values q = rotate(project(p_.w_q, p_.b_q, s_.H, s_.d), s_.H, 1);
  const Values k = rotate(project(p_.w_k, p_.b_k, s_.Hkv, s_.d), s_.Hkv, 1);
  const Values v = project(p_.w_v, p_.b_v, s_.Hkv, s_.dv);
  GradientProblem call;
  call.forward.shape = s_;
  call.forward.causal = p_.causal;
  call.forward.scale = p_.scale;
  call.forward.scale_given = p_.scale_given;
  call.forward.q = q.data();
  call.forward.k = k.data();
  call.forward.v = v.data();
  const TestControl forward =
      control_named(kernel_.attention.ftz ? "flush_to_zero" : "naive");
  const TestOutput out = run_control(forward, call.forward);
  const Values o = stored(out.o);
  const int64_t width = s_.H * s_.dv;
  const Values w_o = turned(p_.w_o, width, s_.D);
  const Values d_o = stored(to_heads(
      run_test_linear(kernel_.linear, {tokens_, s_.D, width, problem_.d_y,
                                       w_o.data(), nullptr}),
      s_.H, s_.dv));
  call.o = o.data();
  call.lse = out.lse.data();
  call.d_o = d_o.data();
  GradientOutput of = run_backward_kernel(kernel_.attention, call);
  of.q = rotate(stored(of.q), s_.H, -1);
  of.k = rotate(stored(of.k), s_.Hkv, -1);
  of.v = stored(of.v);
  const Values d_q = to_rows(of.q, s_.H, s_.d);
  const Values d_k = to_rows(of.k, s_.Hkv, s_.d);
  const Values d_v = to_rows(of.v, s_.Hkv, s_.dv);
  const Values d_y(problem_.d_y, problem_.d_y + tokens_ * s_.D);
  LayerGradientOutput all;
  all.x.assign(tokens_ * s_.D, 0);
  add_input(d_q, p_.w_q, all.x);
  add_input(d_k, p_.w_k, all.x);
  add_input(d_v, p_.w_v, all.x);
  all.w_q = weight(p_.x, s_.D, d_q);
  all.w_k = weight(p_.x, s_.D, d_k);
  all.w_v = weight(p_.x, s_.D, d_v);
  all.w_o = weight(to_rows(o, s_.H, s_.dv).data(), width, d_y);
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
