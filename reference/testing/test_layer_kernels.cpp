// SPDX-License-Identifier: Apache-2.0
#include "reference/testing/test_layer_kernels.h"

#include <iterator>

#include "reference/testing/test_layers.h"

namespace qkvet::reference {
namespace {

class TestDot {
 public:
  explicit TestDot(const TestLinearKernel& kernel) : kernel_(kernel) {}

  // x [in] times w [in], `stride` apart, plus b if there is one.
  float run(const std::vector<float>& x, const float* w, int64_t stride,
            const float* b, TestRandom& random) const {
    const auto n = static_cast<int64_t>(x.size());
    if (kernel_.order == TestOrder::kLanes8) return lanes(x, w, stride, b);
    if (kernel_.fma) return fused(x, w, stride, b);
    std::vector<float> terms;
    for (int64_t i = 0; i < n; ++i) {
      const bool down = kernel_.order == TestOrder::kDescending;
      const int64_t at = down ? n - 1 - i : i;
      terms.push_back(kept(x[at] * w[at * stride]));
    }
    if (b != nullptr) {
      terms.insert(kernel_.bias_first ? terms.begin() : terms.end(), *b);
    }
    if (kernel_.order == TestOrder::kRandom) return random_tree(terms, random);
    if (kernel_.order == TestOrder::kHalves) {
      return halves(terms.data(), static_cast<int64_t>(terms.size()));
    }
    float sum = 0;
    for (float term : terms) sum = kept(sum + term);
    return sum;
  }

  float flush(float x) const {
    const bool small = std::fabs(x) < std::numeric_limits<float>::min();
    return kernel_.ftz && small ? 0.0f : x;
  }

 private:
  float kept(float x) const {
    if (kernel_.fault == TestLinearFault::kHalfAccumulator) {
      const bool half = kernel_.storage != Dtype::kF32;
      const Dtype type = half ? kernel_.storage : Dtype::kF16;
      x = static_cast<float>(round_to(type, x));
    }
    return flush(x);
  }
  float fused(const std::vector<float>& x, const float* w, int64_t stride,
              const float* b) const {
    const bool first = b != nullptr && kernel_.bias_first;
    float sum = first ? *b : 0.0f;
    for (size_t i = 0; i < x.size(); ++i) {
      sum = kept(std::fma(x[i], w[static_cast<int64_t>(i) * stride], sum));
    }
    return b != nullptr && !first ? kept(sum + *b) : sum;
  }
  float lanes(const std::vector<float>& x, const float* w, int64_t stride,
              const float* b) const {
    float lane[8] = {};
    if (b != nullptr && kernel_.bias_first) lane[0] = *b;
    for (size_t i = 0; i < x.size(); ++i) {
      float& sum = lane[i % 8];
      const float weight = w[static_cast<int64_t>(i) * stride];
      sum = kept(kernel_.fma ? std::fma(x[i], weight, sum)
                             : sum + kept(x[i] * weight));
    }
    const float sum = halves(lane, 8);
    return b != nullptr && !kernel_.bias_first ? kept(sum + *b) : sum;
  }
  float halves(const float* terms, int64_t n) const {
    if (n == 1) return terms[0];
    const int64_t half = n / 2;
    return kept(halves(terms, half) + halves(terms + half, n - half));
  }
  float random_tree(std::vector<float>& terms, TestRandom& random) const {
    while (terms.size() > 1) {
      const auto n = static_cast<int64_t>(terms.size());
      std::swap(terms[random.below(n)], terms.back());
      const float last = terms.back();
      terms.pop_back();
      float& other = terms[random.below(n - 1)];
      other = kept(other + last);
    }
    return terms[0];
  }

  const TestLinearKernel& kernel_;
};

// The place in rows of column c of row number `row` of all heads.
int64_t place_in_rows(const Shape& s, int64_t heads, int64_t width, int64_t row,
                      int64_t c) {
  const int64_t token = row / (heads * s.Tq) * s.Tq + row % s.Tq;
  return (token * heads + row / s.Tq % heads) * width + c;
}

}  // namespace

std::vector<double> run_test_linear(const TestLinearKernel& kernel,
                                    const LinearProblem& problem) {
  const TestDot dot(kernel);
  TestRandom random(static_cast<uint64_t>(problem.in * 31 + problem.out));
  std::vector<float> w(problem.in * problem.out);
  for (size_t a = 0; a < w.size(); ++a) {
    w[a] = dot.flush(static_cast<float>(problem.w[a]));
  }
  std::vector<double> y(problem.rows * problem.out);
  std::vector<float> x(problem.in);
  for (int64_t r = 0; r < problem.rows; ++r) {
    for (int64_t i = 0; i < problem.in; ++i) {
      x[i] = dot.flush(static_cast<float>(problem.x[r * problem.in + i]));
    }
    for (int64_t j = 0; j < problem.out; ++j) {
      const bool wrong = kernel.fault == TestLinearFault::kWrongIndex &&
                         j > 0 && j + 1 == problem.out;
      float bias = 0;
      if (problem.bias != nullptr) {
        bias = dot.flush(static_cast<float>(problem.bias[j]));
      }
      y[r * problem.out + j] =
          dot.run(x, w.data() + (wrong ? j - 1 : j), problem.out,
                  problem.bias != nullptr ? &bias : nullptr, random);
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
  all[4] = {.name = "lanes8", .order = Order::kLanes8};
  all[5] = {.name = "lanes8_fma", .order = Order::kLanes8, .fma = true};
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
  const Shape& s = p.shape;
  const int64_t pairs = s.d / 2;
  const bool half = p.rotation.style == RopeStyle::kHalf;
  for (int64_t n = 0; n < std::ssize(all) / 2; ++n) {
    const int64_t row = n / pairs;
    const int64_t token = row / (heads * s.Tq) * s.Tq + row % s.Tq;
    const int64_t at = p.rotation.q_positions[token] * pairs + n % pairs;
    double& a = all[row * s.d + (half ? n % pairs : 2 * (n % pairs))];
    double& b = *(&a + (half ? pairs : 1));
    const auto cos = static_cast<float>(p.rotation.cos[at]);
    const auto sin = direction * static_cast<float>(p.rotation.sin[at]);
    const auto first = static_cast<float>(a);
    const auto second = static_cast<float>(b);
    a = first * cos - second * sin;
    b = second * cos + first * sin;
  }
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
