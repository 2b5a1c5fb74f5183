// SPDX-License-Identifier: Apache-2.0
#include "reference/testing/test_layer_kernels.h"

#include <iterator>

#include "reference/testing/test_layers.h"

namespace qkvet::reference {
namespace {

// The place in rows of column c of row number `row` of all heads.
int64_t place_in_rows(const Shape& s, int64_t heads, int64_t width, int64_t row,
                      int64_t c) {
  const int64_t token = row / (heads * s.Tq) * s.Tq + row % s.Tq;
  return (token * heads + row / s.Tq % heads) * width + c;
}

}  // namespace

std::vector<double> run_test_linear(const TestLinearKernel& kernel,
                                    const LinearProblem& problem) {
  Dtype stored = Dtype::kF32;
  if (kernel.fault == TestLinearFault::kHalfAccumulator)
    stored = kernel.storage == Dtype::kF32 ? Dtype::kF16 : kernel.storage;
  TestSums<float> sums(kernel.order, kernel.fma, kernel.ftz, stored,
                       static_cast<uint64_t>(problem.in * 31 + problem.out));
  // `count` numbers, `stride` apart.
  const auto read = [&](const double* from, int64_t count, int64_t stride) {
    std::vector<float> out(count);
    for (int64_t i = 0; i < count; ++i)
      out[i] = sums.flush(static_cast<float>(from[i * stride]));
    return out;
  };
  std::vector<std::vector<float>> columns;
  for (int64_t j = 0; j < problem.out; ++j)
    columns.push_back(read(problem.w + j, problem.in, problem.out));
  std::vector<double> y(problem.rows * problem.out);
  for (int64_t r = 0; r < problem.rows; ++r) {
    const std::vector<float> x =
        read(problem.x + r * problem.in, problem.in, 1);
    for (int64_t j = 0; j < problem.out; ++j) {
      const bool wrong = kernel.fault == TestLinearFault::kWrongIndex &&
                         j > 0 && j + 1 == problem.out;
      const float b =
          problem.bias != nullptr ? read(problem.bias + j, 1, 1)[0] : 0;
      y[r * problem.out + j] =
          sums.dot(x, columns[wrong ? j - 1 : j], kernel.bias_first ? b : 0,
                   kernel.bias_first ? 0 : b);
    }
  }
  return y;
}

std::vector<TestLinearKernel> test_linear_kernels() {
  using Order = TestOrder;
  std::vector<TestLinearKernel> all(10);
  all[0] = {.name = "ascending"};
  all[1] = {.name = "bias_first", .bias_first = true};
  all[2] = {.name = "descending", .order = Order::kDescending};
  all[3] = {.name = "halves", .order = Order::kHalves};
  all[4] = {.name = "lanes8", .order = Order::kLanes};
  all[5] = {.name = "lanes8_fma", .order = Order::kLanes, .fma = true};
  all[6] = {.name = "fused", .fma = true};
  all[7] = {.name = "fused_bias_first", .fma = true, .bias_first = true};
  all[8] = {.name = "random_tree", .order = Order::kRandom};
  all[9] = {.name = "flush_to_zero", .ftz = true};
  return all;
}

std::vector<double> test_heads(const Shape& shape,
                               const std::vector<double>& rows, int64_t heads,
                               int64_t width) {
  std::vector<double> all(rows.size());
  for (int64_t a = 0; a < std::ssize(all); ++a) {
    all[a] = rows[place_in_rows(shape, heads, width, a / width, a % width)];
  }
  return all;
}

std::vector<double> test_rows(const Shape& shape,
                              const std::vector<double>& all, int64_t heads,
                              int64_t width) {
  std::vector<double> rows(all.size());
  for (int64_t a = 0; a < std::ssize(all); ++a) {
    rows[place_in_rows(shape, heads, width, a / width, a % width)] = all[a];
  }
  return rows;
}

std::vector<double> test_turned(const LayerProblem& p, int64_t heads,
                                float direction, Dtype stage,
                                std::vector<double> all) {
  if (p.rotation.style == RopeStyle::kNone) return all;
  all = turned_in_f32(p.rotation, p.rotation.q_positions,
                      {heads, p.shape.Tq, p.shape.d, direction}, all);
  round_all(all, stage);
  return all;
}

TestProjections::TestProjections(const TestLinearKernel& linear, Dtype stage,
                                 const LayerProblem& p) {
  const Shape& s = p.shape;
  const auto project = [&](const double* w, const double* bias, int64_t heads,
                           int64_t width) {
    std::vector<double> all = test_heads(
        s,
        run_test_linear(linear, {s.B * s.Tq, s.D, heads * width, p.x, w, bias}),
        heads, width);
    round_all(all, stage);
    return all;
  };
  q = test_turned(p, s.H, 1, stage, project(p.w_q, p.b_q, s.H, s.d));
  k = test_turned(p, s.Hkv, 1, stage, project(p.w_k, p.b_k, s.Hkv, s.d));
  v = project(p.w_v, p.b_v, s.Hkv, s.dv);
  attention.shape = s;
  attention.causal = p.causal;
  attention.scale = p.scale;
  attention.scale_given = p.scale_given;
  attention.q = q.data();
  attention.k = k.data();
  attention.v = v.data();
}

std::vector<double> run_test_layer(const TestLayerKernel& kernel,
                                   const LayerProblem& p) {
  const Shape& s = p.shape;
  const TestProjections of(kernel.linear, kernel.stage, p);
  std::vector<double> heads = run_control(kernel.attention, of.attention).o;
  round_all(heads, kernel.stage);
  std::vector<double> merged = test_rows(s, heads, s.H, s.dv);
  if (kernel.wrong_index && merged.size() > 1) {
    merged.back() = merged[merged.size() - 2];
  }
  return run_test_linear(kernel.linear, {s.B * s.Tq, s.H * s.dv, s.D,
                                         merged.data(), p.w_o, p.b_o});
}

}  // namespace qkvet::reference
