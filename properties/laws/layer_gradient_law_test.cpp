// SPDX-License-Identifier: Apache-2.0
// Laws about gradients of layers: each passes the definition, and fails the
// mistakes that it exists for.
#include <gtest/gtest.h>

#include <cmath>

#include "properties/calls/gradient_calls.h"
#include "properties/cases/generate.h"
#include "properties/testing/fake_check.h"
#include "properties/testing/fake_layer_gradients.h"

namespace qkvet::properties::layer_gradient_law_test {
namespace {

using Out = LayerGradientOutput;

Judgement fails(const std::string& law, const std::string& text,
                FakeLayerGradients::Question question,
                FakeLayerGradients::Answer answer = {}) {
  return fails_as<FakeLayerGradients>(FakeLayerGradients::under_test().judged,
                                      law, text, std::move(question),
                                      std::move(answer));
}

FakeLayerGradients::Answer with(std::vector<double> Out::*tensor, size_t n,
                                double factor) {
  return [=](const KernelCall&, Out& gradient, CallOutcome&) {
    (gradient.*tensor)[n] *= factor;
  };
}

constexpr char kPlain[] =
    "f32,B2,H2,Hkv1,T3,D5,d2,dv3,causal,rope=half,backward,biases=qkvo,"
    "w=scaled1,seed=4";

TEST(LayerGradientLaws, PassTheDefinitionOnEveryPlannedCase) {
#ifdef QKVET_SANITIZED
  constexpr int64_t kPerLaw = 30;
#else
  constexpr int64_t kPerLaw = 120;
#endif
  const KernelUnderTest kernel = FakeLayerGradients::under_test();
  FakeLayerGradients right;
  Scope scope;
  scope.largest = SizeClass::kSmall;
  scope.dtypes = {Dtype::kF32, Dtype::kBf16, Dtype::kF16};
  keep_scope_to({kernel}, scope);
  TimeUse time;
  int laws = 0;
  for (const Law* law : all_laws()) {
    if (law->domain.subject != Subject::kLayerBackward) continue;
    ++laws;
    int checked = 0, rotated = 0, biased = 0;
    for (int64_t n = 1; n <= kPerLaw; ++n) {
      const Case value = planned_case(*law, 77, n, scope);
      ASSERT_EQ(value.subject(), Subject::kLayerBackward);
      ASSERT_EQ(invalid_reason(value), "") << to_string(value);
      const Judgement judgement =
          check_case(*law, value, kernel.judged, 0, right, n % 4 == 0, time);
      if (!law->plan(value, kernel.judged.info).not_applicable.empty())
        continue;
      ASSERT_EQ(judgement.verdict, Verdict::kPassed)
          << law->id << " " << to_string(value) << " " << finding_of(judgement);
      checked += judgement.compared > 0;
      rotated += value.rope.style != RopeStyle::kNone;
      biased += value.biases != 0;
    }
    EXPECT_GT(checked, kPerLaw / 2) << law->id;
    EXPECT_GT(rotated, 0) << law->id;
    EXPECT_GT(biased, 0) << law->id;
  }
  EXPECT_EQ(laws, 8);
}

TEST(LayerGradientLaws, AgreementSeesOneWrongElementOfEach) {
  const struct {
    std::vector<double> Out::*tensor;
    size_t n;
    const char* where;
  } rows[] = {{&Out::x, 17, "dx[b=1,t=0,c=2]"},
              {&Out::w_q, 5, "dw_q[row=1,column=1]"},
              {&Out::w_k, 3, "dw_k[row=1,column=1]"},
              {&Out::w_v, 4, "dw_v[row=1,column=1]"},
              {&Out::w_o, 6, "dw_o[row=1,column=1]"},
              {&Out::b_q, 1, "db_q[column=1]"},
              {&Out::b_k, 1, "db_k[column=1]"},
              {&Out::b_v, 2, "db_v[column=2]"},
              {&Out::b_o, 4, "db_o[column=4]"}};
  for (const auto& row : rows)
    for (const double factor : {1.01, -1.0, std::nan(""), double{INFINITY}}) {
      const Judgement wrong = fails("layer_backward_agrees_with_oracle", kPlain,
                                    {}, with(row.tensor, row.n, factor));
      EXPECT_EQ(wrong.finding->where, row.where);
    }
}

// A layer without rotation: a vector added to every key changes no output, so
// the gradient of b_k is zero, whatever the data.
TEST(LayerGradientLaws, AKeyBiasHasNoGradient) {
  fails("layer_backward_agrees_with_oracle",
        "f32,B1,H1,T3,D4,d2,backward,biases=k,w=scaled1", {},
        [](const KernelCall&, Out& gradient, CallOutcome&) {
          for (const double x : gradient.b_k) EXPECT_LT(std::fabs(x), 1e-12);
          gradient.b_k[1] = 1e-4;
        });
}

// Mistakes that a kernel could have.
TEST(LayerGradientLaws, TheAdjointNamesTheRow) {
  const Judgement wrong =
      fails("layer_backward_is_the_adjoint",
            "f32,B1,H1,T2,D3,backward,w=scaled1,seed=3", {},
            [](const KernelCall&, Out& gradient, CallOutcome&) {
              for (double& x : gradient.x) x *= 1.01;
            });
  EXPECT_EQ(wrong.finding->where.substr(0, 8), "dx[b=0,t");
  EXPECT_NE(wrong.finding->where.find("] times a direction"),
            std::string::npos);
  fails("layer_backward_is_the_adjoint", kPlain,
        [](const KernelCall&, LayerGradientProblem& problem) {
          problem.forward.rotation = {};
        });
  fails("layer_backward_is_the_adjoint", kPlain, {},
        [](const KernelCall&, Out& gradient, CallOutcome&) {
          for (double& x : gradient.w_k) x *= 1.01;
        });
}

TEST(LayerGradientLaws, RowsOfTheFutureThatLeak) {
  const char* const text = "f32,B1,H2,T4,D4,causal,backward,seed=5";
  fails("layer_future_gradients_are_zero", text,
        [](const KernelCall&, LayerGradientProblem& problem) {
          problem.forward.causal = Causal::kNone;
        });
  // The mask of another member, and no mask at all.
  fails("layer_future_gradients_are_zero", "f32,B2,H2,T2,D4,backward", {},
        [](const KernelCall&, Out& gradient, CallOutcome&) {
          double sum = 0;
          for (const double x : gradient.x) sum += x;
          for (double& x : gradient.x) x += 1e-20 * sum;
        });
  FakeLayerGradients good;
  EXPECT_EQ(
      check("layer_future_gradients_are_zero", "f32,B1,H2,T4,D4,backward", good)
          .verdict,
      Verdict::kGaveUp);
}

TEST(LayerGradientLaws, LoneTokensKnowEveryNumber) {
  const std::string text =
      "f32,B3,H4,Hkv2,T1,D5,d2,dv3,backward,dy=lattice,biases=qkvo,x=lattice,"
      "w=lattice,bias=lattice,seed=9";
  for (const auto tensor : {&Out::x, &Out::w_v, &Out::w_o, &Out::b_v, &Out::b_o,
                            &Out::w_q, &Out::w_k, &Out::b_q, &Out::b_k})
    fails("lone_token_gradients_are_exact", text, {},
          [=](const KernelCall&, Out& gradient, CallOutcome&) {
            (gradient.*tensor)[1] += 0x1p-10;
          });
}

// A weight of exp(-log(1)) with a logarithm that is three units off.
TEST(LayerGradientLaws, LoneTokensMayWeighSomeUnitsLess) {
  FakeLayerGradients near({},
                          [](const KernelCall&, Out& gradient, CallOutcome&) {
                            for (double& x : gradient.x) x *= 1 - 3 * 0x1p-24;
                            for (double& x : gradient.w_v) x *= 1 - 3 * 0x1p-24;
                          });
  const Judgement judgement = check(
      "lone_token_gradients_are_exact",
      "f32,B3,H4,Hkv2,T1,D5,d2,dv3,backward,dy=lattice,x=lattice,w=lattice",
      near);
  EXPECT_EQ(judgement.verdict, Verdict::kPassed) << finding_of(judgement);
  EXPECT_GT(judgement.compared, 0);
}

// Half the bits: the comparison is on 8 bits.
TEST(LayerGradientLaws, LoneTokensSpeakInBf16) {
  const std::string text =
      "bf16,B2,H2,Hkv1,T1,D4,backward,dy=lattice,biases=vo,x=lattice,w=onehot,"
      "bias=lattice";
  fails("lone_token_gradients_are_exact", text, {},
        [](const KernelCall&, Out& gradient, CallOutcome&) {
          for (double& x : gradient.b_v) x *= 1 + 0x1p-6;
        });
}

TEST(LayerGradientLaws, GradientsAtOnceThatShareScratch) {
  fails("layer_backward_calls_at_once_change_nothing", kPlain, {},
        [](const KernelCall& call, Out& gradient, CallOutcome&) {
          if (call.at_once) gradient.x[0] += 1;
        });
}

TEST(LayerGradientLaws, MemoryIsItsOwnLaw) {
  const std::string text = "f32,B1,H1,T2,D3,backward";
  fails("layer_backward_reads_only_its_inputs", text, {},
        [](const KernelCall& call, Out& gradient, CallOutcome&) {
          if (call.placement == Placement::kStart)
            gradient.w_v[0] = std::nan("");
        });
  const Judgement fault =
      fails("layer_backward_agrees_with_oracle", text, {},
            [](const KernelCall&, Out&, CallOutcome& outcome) {
              outcome.status = CallStatus::kFault;
              MemoryFault where;
              where.tensor = TensorName::kDY;
              where.tensor_bytes = 24;
              outcome.fault = where;
            });
  EXPECT_EQ(fault.finding->actual,
            "READ of dy, 0 bytes past its end (dy has 24 bytes)");
  EXPECT_EQ(fault.finding->where,
            "layer_backward(), each tensor ends at a guard page");
  EXPECT_EQ(&failed_law(*find_law("layer_backward_agrees_with_oracle"), fault),
            find_law(kLayerBackwardMemoryLaw));
}

TEST(LayerGradientLaws, TablesThatAreNotThere) {
  FakeLayerGradients kernel;
  JudgedKernel none = FakeLayerGradients::under_test().judged;
  none.info.has_layer_backward = false;
  const Judgement judgement =
      check("layer_backward_agrees_with_oracle", kPlain, kernel, none);
  EXPECT_EQ(judgement.verdict, Verdict::kUnsupported);
  EXPECT_EQ(judgement.reason, "the kernel declares no layer_backward()");
  EXPECT_EQ(
      check("layer_backward_agrees_with_oracle", "f32,B1,H1,T1,D1", kernel)
          .verdict,
      Verdict::kGaveUp);
  EXPECT_EQ(check("layer_backward_agrees_with_oracle",
                  "f64,B1,H1,T1,D1,backward", kernel)
                .verdict,
            Verdict::kUnsupported);
}

// One token, one head, one channel is as small as a failure gets.
TEST(LayerGradientLaws, FailuresShrink) {
  FakeLayerGradients wrong({},
                           [](const KernelCall&, Out& gradient, CallOutcome&) {
                             for (double& x : gradient.b_o) x *= 1.5;
                           });
  const Law& law = *find_law("layer_backward_agrees_with_oracle");
  const Case value = *parse_case(kPlain).value;
  const JudgedKernel judged = FakeLayerGradients::under_test().judged;
  TimeUse time;
  const Judgement judgement =
      check_case(law, value, judged, 0, wrong, false, time);
  ASSERT_EQ(judgement.verdict, Verdict::kFailed);
  const Shrunk small =
      shrink(law, value, judgement, judged, 0, wrong, time, Scope{});
  EXPECT_EQ(to_string(small.value),
            "f32,B1,H1,T1,D1,backward,dy=one,biases=o,x=zero,w=zero,bias=zero");
  EXPECT_FALSE(small.judgement.picture.empty());
}

}  // namespace
}  // namespace qkvet::properties::layer_gradient_law_test
