// SPDX-License-Identifier: Apache-2.0
// Every gradient of a layer against differences of the layer itself, in double.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "impl/testing/layer_gradient_fixture.h"

namespace qkvet::impl::layer_gradients_test {
namespace {

using Gradient = LayerGradientTensors;

// All kernels with the gradient of a layer.
std::vector<const qkvet_kernel*> gradients() {
  return kernels_that(/*faulty=*/false, [](const qkvet_kernel& kernel) {
    return kernel.backward != nullptr &&
           kernel.backward->layer_backward != nullptr &&
           OpenKernel(&kernel).status() == QKVET_OK;
  });
}

// sum of d_y y.
double loss(const LayerTensors& wide, const std::vector<float>& d_y) {
  const std::vector<double> y = truth_of(wide).y;
  double sum = 0;
  for (size_t n = 0; n < y.size(); ++n) {
    sum += y[n] * double(d_y[n]);
  }
  return sum;
}

double difference(LayerTensors* wide, AnyTensor* tensor, const int64_t (&at)[4],
                  const std::vector<float>& d_y, float h) {
  const float x = tensor->get(at[0], at[1], at[2], at[3]);
  tensor->set(at[0], at[1], at[2], at[3], x + h);
  const double more = loss(*wide, d_y);
  tensor->set(at[0], at[1], at[2], at[3], x - h);
  const double less = loss(*wide, d_y);
  tensor->set(at[0], at[1], at[2], at[3], x);
  return (more - less) / (double(x + h) - double(x - h));
}

// The same values in f32, which differences can be taken of.
void widen(const LayerTensors& from, LayerTensors* to) {
  for (const auto input : kLayerInputs) {
    const std::vector<int64_t>& n = (from.*input).shape();
    for (int64_t at = 0; at < n[0] * n[1] * n[2] * n[3]; ++at) {
      const int64_t b = at / n[3] / n[2], t = at / n[3] % n[2], c = at % n[3];
      (to->*input).set(0, b, t, c, (from.*input).get(0, b, t, c));
    }
  }
}

// From four values of the loss each: the error is of fourth order in the step.
void expect_gradient(const qkvet_kernel* kernel, Gradient* g) {
  LayerProblem p = g->call.problem;
  p.type = Storage::kF32;
  LayerTensors wide(p);
  widen(g->call, &wide);
  const std::vector<float> d_y = g->d_y.values();
  for (size_t n = 0; n < (p.biases ? 9u : 5u); ++n) {
    AnyTensor* const tensor = &(wide.*kLayerInputs[n]);
    const std::vector<int64_t>& s = tensor->shape();
    const int64_t count = s[1] * s[2] * s[3];
    for (int64_t i = 0; i < count; i += 1 + count / 12) {
      const int64_t at[] = {0, i / s[3] / s[2], i / s[3] % s[2], i % s[3]};
      const double exact = (4 * difference(&wide, tensor, at, d_y, 0x1p-6f) -
                            difference(&wide, tensor, at, d_y, 0x1p-5f)) /
                           3;
      const double actual = g->outputs[n].get(at[0], at[1], at[2], at[3]);
      const double u = unit_of(g->call.problem.type);
      ASSERT_NEAR(actual, exact, 1.01 * u * std::fabs(exact) + 4e-5)
          << kernel->name << " " << kGradientNames[n] << " " << i;
    }
  }
}

std::vector<LayerProblem> problems() {
  const LayerProblem plain = {.tokens = 5,
                              .model_width = 8,
                              .heads = 2,
                              .kv_heads = 2,
                              .width = 4,
                              .value_width = 4};
  const LayerProblem grouped = {.batch = 2,
                                .tokens = 4,
                                .model_width = 6,
                                .heads = 4,
                                .kv_heads = 2,
                                .width = 4,
                                .value_width = 5,
                                .biases = false,
                                .causal = QKVET_CAUSAL_BOTTOM_RIGHT,
                                .layout = Layout::kBthd};
  LayerProblem unbatched = plain;
  unbatched.unbatched = true;
  unbatched.scale_given = true;
  unbatched.scale = -0.75f;
  LayerProblem rotated = grouped;
  rotated.rope = QKVET_ROPE_HALF;
  rotated.biases = true;
  rotated.layout = Layout::kGaps;
  LayerProblem interleaved = plain;
  interleaved.rope = QKVET_ROPE_INTERLEAVED;
  interleaved.causal = QKVET_CAUSAL_TOP_LEFT;
  return {{}, plain, grouped, unbatched, rotated, interleaved};
}

TEST(LayerGradients, AreTheDerivativesOfTheLayer) {
  EXPECT_GE(gradients().size(), 2u);
  for (const Storage type : kAllStorages) {
    for (LayerProblem p : problems()) {
      p.type = type;
      for (const qkvet_kernel* kernel : gradients()) {
        Gradient g(p);
        const LayerAnswer answer = run_gradient(kernel, g.args());
        ASSERT_EQ(answer.status, QKVET_OK) << answer.reason;
        ASSERT_NO_FATAL_FAILURE(expect_gradient(kernel, &g));
      }
    }
  }
}

struct Mistake {
  const char* reason;  // a part of it
  std::function<void(qkvet_layer_backward_args&, qkvet_layer_args&, Gradient&)>
      make;
};

// Mistakes in the call of a layer with D = 6, H = 4, Hkv = 2, d = 4, dv = 5;
// `other` has D = 7.
std::vector<Mistake> mistakes() {
  using A = qkvet_layer_backward_args;
  using L = qkvet_layer_args;
  using G = Gradient;
  return {
      {"there are no arguments", [](A& a, L&, G&) { a.layer = nullptr; }},
      {"y: absent", [](A&, L& l, G& o) { l.y = o.call.y.tensor(3); }},
      {"attended: absent",
       [](A&, L& l, G& o) { l.attended = o.call.attended.tensor(); }},
      {"d_y: a required tensor is absent", [](A& a, L&, G&) { a.d_y = {}; }},
      {"d_y has 7 at axis 2, 6 are needed",
       [](A& a, L&, G& o) { a.d_y = o.d_y.tensor(3); }},
      {"d_x: a tensor has the wrong rank",
       [](A& a, L&, G&) { a.d_x.ndim = 2; }},
      {"d_w_q has 7 at axis 0, 6 are needed",
       [](A& a, L&, G& o) { a.d_w_q = o.outputs[1].tensor(2); }},
      {"d_w_v has 8 at axis 1, 10 are needed",
       [](A& a, L&, G&) { a.d_w_v = a.d_w_k; }},
      {"d_b_k: a required tensor is absent",
       [](A& a, L&, G&) { a.d_b_k = {}; }},
      {"d_b_o has 7 at axis 0, 6 are needed",
       [](A& a, L&, G& o) { a.d_b_o = o.outputs[8].tensor(1); }},
      {"d_b_v: is the gradient of a bias that is absent",
       [](A&, L& l, G&) { l.b_v = {}; }},
      {"w_k has 10 columns, 8 are needed",
       [](A&, L& l, G&) { l.w_k = l.w_v; }}};
}

TEST(LayerGradients, RefuseContradictionsByNameAndWriteNothing) {
  LayerProblem right = problems()[2];
  right.biases = true;
  LayerProblem wrong = right;
  wrong.model_width = 7;
  Gradient g(right), other(wrong);
  for (const qkvet_kernel* kernel : gradients()) {
    for (const Mistake& mistake : mistakes()) {
      qkvet_layer_backward_args args = g.args();
      mistake.make(args, g.layer, other);
      const LayerAnswer answer = run_gradient(kernel, args);
      EXPECT_EQ(answer.status, QKVET_INVALID_ARGUMENT) << mistake.reason;
      EXPECT_NE(answer.reason.find(mistake.reason), std::string::npos)
          << answer.reason << " | " << mistake.reason;
      for (const AnyTensor& out : g.outputs) {
        for (const float value : out.values()) {
          ASSERT_EQ(value, kUnwritten) << mistake.reason;
        }
      }
    }
    EXPECT_EQ(run_gradient(kernel, g.args()).status, QKVET_OK);
  }
}

TEST(LayerGradients, RefuseWhatTheyDoNotKnow) {
  for (const qkvet_kernel* kernel : gradients()) {
    Gradient g(problems()[1]);
    qkvet_layer_backward_args args = g.args();
    args.d_w_v.dtype = kF16;
    EXPECT_EQ(run_gradient(kernel, args).status, QKVET_UNSUPPORTED);
    struct Newer {
      qkvet_layer_backward_args args;
      uint64_t field;
    } newer = {g.args(), 1};
    newer.args.struct_size = sizeof(newer);
    EXPECT_EQ(run_gradient(kernel, newer.args).status, QKVET_UNSUPPORTED);
    newer.field = 0;
    EXPECT_EQ(run_gradient(kernel, newer.args).status, QKVET_OK);
  }
}

}  // namespace
}  // namespace qkvet::impl::layer_gradients_test
