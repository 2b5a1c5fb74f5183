// SPDX-License-Identifier: Apache-2.0
// A kernel compared with the definition. The kernels are functions: right ones,
// and each with one error.
#include "cli/kernels/kernel_view.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cli/kernels/recovered_weights.h"
#include "properties/calls/layer_calls.h"
#include "properties/judging/answer.h"
#include "properties/testing/fake_tables.h"

namespace qkvet::cli::kernel_view_test {
namespace {

constexpr char kLayer[] = "f32,B2,H2,T3,D8,causal,biases=qkvo,w=scaled1";

Case parsed(const std::string& text) {
  const ParsedCase read = parse_case(text);
  EXPECT_TRUE(read.value) << text << ": " << read.error;
  return *read.value;
}

KernelView view_layer(const std::string& text, const Spoil& spoil,
                      int64_t member = 0) {
  const Case value = parsed(text);
  FakeTables executor(spoil);
  const JudgedKernel kernel =
      FakeTables::under_test(spoil.returns_stages).judged;
  return view_kernel(value, make_inputs(value), kernel, executor, 0, member,
                     AskForWeights::kYes);
}

std::vector<double> true_weights(const std::string& text, int64_t member) {
  const Case value = parsed(text);
  const Inputs inputs = make_inputs(value);
  const std::vector<double> all =
      plain_layer(layer_problem(value, inputs)).attended.weights;
  const int64_t size = value.shape.H * value.shape.Tq * value.shape.Tk;
  return {all.begin() + member * size, all.begin() + (member + 1) * size};
}

void expect_near(const std::vector<double>& actual,
                 const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t n = 0; n < actual.size(); ++n)
    EXPECT_NEAR(actual[n], expected[n], 1e-5) << n;
}

// A right layer, with stages and without, in both forms of heads: its weights
// are requested and returned.
TEST(KernelView, WeightsOfALayerAreAskedFor) {
  for (const std::string value :
       {kLayer, "f32,B2,H2,T5,D8,d4,dv2,causal,rope=half,w=scaled1",
        "f32,B1,H4,Hkv2,T4,D6,d3,dv5,w=scaled1", "f32,B1,H1,T1,D1"}) {
    for (const bool stages : {true, false}) {
      Spoil spoil;
      spoil.returns_stages = stages;
      const int64_t member = parsed(value).shape.B - 1;
      const KernelView view = view_layer(value, spoil, member);
      ASSERT_FALSE(view.ended) << value;
      EXPECT_EQ(view.exit_code(), kConforms) << value;
      EXPECT_EQ(view.stages.size(), stages ? 6u : 1u);
      expect_near(view.weights, true_weights(value, member));
    }
  }
}

TEST(KernelView, ALayerPartsAtTheStageThatIsWrong) {
  const struct {
    const char* stage;
    void (*spoil)(LayerOutput&);
  } rows[] = {{"q", [](LayerOutput& out) { out.q[3] += 1; }},
              {"k", [](LayerOutput& out) { out.k[3] += 1; }},
              {"v", [](LayerOutput& out) { out.v[3] += 1; }},
              {"attended", [](LayerOutput& out) { out.attended.o[3] += 1; }},
              {"y", [](LayerOutput& out) { out.y[3] += 1; }}};
  for (const auto& row : rows) {
    Spoil spoil;
    spoil.layer_answer = [&](const LayerProblem&, LayerOutput& out) {
      row.spoil(out);
    };
    const KernelView view = view_layer(kLayer, spoil);
    ASSERT_NE(view.parts_at(), nullptr) << row.stage;
    EXPECT_EQ(view.parts_at()->name, row.stage);
    EXPECT_EQ(view.stages.size(), 6u);
    EXPECT_EQ(view.exit_code(), kLawFailed);
    EXPECT_EQ(view.parts_at()->judgement.finding->where.rfind(row.stage, 0), 0u)
        << view.parts_at()->judgement.finding->where;
  }
}

// Stages after a wrong one are judged on its output.
TEST(KernelView, WhatFollowsAWrongStageCanBeRight) {
  Spoil spoil;
  spoil.layer_question = [](LayerProblem& problem) {
    problem.w_q = problem.w_k;
  };
  const KernelView view = view_layer(kLayer, spoil);
  ASSERT_EQ(view.stages.size(), 6u);
  for (const KernelStage& stage : view.stages)
    EXPECT_EQ(stage.judgement.verdict == Verdict::kFailed, stage.name == "q")
        << stage.name;
}

TEST(KernelView, NothingIsJudgedOnNumbersThatAreNone) {
  Spoil spoil;
  spoil.layer_answer = [](const LayerProblem&, LayerOutput& out) {
    out.k[0] = std::numeric_limits<double>::quiet_NaN();
  };
  const KernelView view = view_layer(kLayer, spoil);
  ASSERT_EQ(view.stages.size(), 3u);
  EXPECT_EQ(view.parts_at()->name, "k");
}

TEST(KernelView, ALayerThatIsTooNarrowIsNotAsked) {
  const KernelView view =
      view_layer("f32,B1,H1,T9,D8,causal,w=scaled1", Spoil());
  EXPECT_TRUE(view.weights.empty());
  EXPECT_NE(view.weights_from.find("D = 8 is too narrow"), std::string::npos);
  EXPECT_EQ(view.exit_code(), kConforms);
}

// Attention with the oracle as the kernel, and with a corrupted one.
struct Attention {
  FakeExecutor executor;
  JudgedKernel kernel = FakeExecutor::under_test().judged;
  explicit Attention(FakeExecutor::Question question = {})
      : executor(std::move(question)) {
    kernel.info.capabilities.options &= ~uint64_t{QKVET_OPTION_WEIGHTS};
  }
  KernelView view(const std::string& text, int64_t member = 0,
                  AskForWeights ask = AskForWeights::kYes) {
    const Case value = parsed(text);
    return view_kernel(value, make_inputs(value), kernel, executor, 0, member,
                       ask);
  }
};

TEST(KernelView, WeightsOfAttentionAreAskedFor) {
  for (const char* text :
       {"f32,B2,H4,Hkv2,Tq3,Tk5,d4,dv2,causal=br",
        "f32,B2,H2,Tq3,Tk5,d4,kvlen=2.5,share=h", "f32,B1,H2,Tq2,Tk3,d4,dv9",
        "f32,B2,H2,Tq3,Tk5,d4,page=2", "f32,B2,H2,Tq3,Tk5,d4,append=1"}) {
    const Case value = parsed(text);
    const int64_t member = value.shape.B - 1;
    const KernelView view = Attention().view(text, member);
    ASSERT_FALSE(view.ended) << text << view.ended->reason;
    EXPECT_EQ(view.exit_code(), kConforms) << text;
    EXPECT_EQ(view.stages.size(), 3u) << text;
    const Inputs inputs = make_inputs(value);
    const OwnedProblem owned(value, inputs, 0);
    const std::vector<double> all = plain_forward(owned.problem()).weights;
    const int64_t size = value.shape.H * value.shape.Tq * value.shape.Tk;
    expect_near(view.weights, {all.begin() + member * size,
                               all.begin() + (member + 1) * size});
  }
}

// Elements beyond the lengths of a case are NaN in each of its calls.
TEST(KernelView, PoisonStaysWhereItIsWhenWeightsAreAskedFor) {
  int calls = 0;
  Attention kernel([&](KernelCall&, Problem& problem) {
    ++calls;
    const Shape& s = problem.shape;
    for (int64_t n = 0; n < s.v_elements(); ++n)
      EXPECT_EQ(std::isnan(problem.v[n]), n / s.dv % s.Tk >= 2) << n;
  });
  EXPECT_EQ(kernel.view("f32,B1,H2,Tq3,Tk5,d4,dv4,kvlen=2").exit_code(),
            kConforms);
  EXPECT_EQ(calls, 3);
}

TEST(KernelView, AMaskThatIsMissingShowsAtTheHiddenKey) {
  Attention fault(
      [](KernelCall&, Problem& problem) { problem.causal = Causal::kNone; });
  // Equal scores, and a V for which o is right without a mask: only the weights
  // show it.
  const KernelView view =
      fault.view("f32,B1,H1,Tq3,Tk3,d2,dv2,causal=tl,q=zero,v=one");
  EXPECT_EQ(view.exit_code(), kLawFailed);
  const KernelStage& weights = view.stages[1];
  EXPECT_EQ(weights.name, "weights");
  ASSERT_TRUE(weights.judgement.finding);
  EXPECT_EQ(weights.judgement.finding->where, "weights[b=0,h=0,i=0,j=1]");
  EXPECT_EQ(weights.judgement.finding->expected, "0");
  EXPECT_EQ(view.stages[2].judgement.verdict, Verdict::kPassed);
  EXPECT_NEAR(view.weights[2], 1.0 / 3, 1e-7);
}

// A kernel that answers the case and dies when its weights are requested.
TEST(KernelView, WhatDiesWhenItIsAskedHasDied) {
  int calls = 0;
  Attention kernel;
  kernel.executor = FakeExecutor(
      {}, [&](const KernelCall&, OracleOutput&, CallOutcome& outcome) {
        if (calls++ == 0) return;
        outcome.status = CallStatus::kCrash;
        outcome.text = "SIGSEGV";
      });
  const KernelView view = kernel.view("f32,B1,H1,Tq2,Tk2,d2");
  EXPECT_FALSE(view.ended);
  EXPECT_EQ(view.exit_code(), kKernelDied);
  EXPECT_TRUE(view.weights.empty());
  EXPECT_NE(view.weights_from.find("SIGSEGV"), std::string::npos);
  // A refusal is reported as such, and the kernel's other answers are judged.
  Attention refuses;
  calls = 0;
  refuses.executor = FakeExecutor(
      {}, [&](const KernelCall&, OracleOutput&, CallOutcome& outcome) {
        if (calls++ == 0) return;
        outcome.status = CallStatus::kUnsupported;
        outcome.text = "not today";
      });
  const KernelView rest = refuses.view("f32,B1,H1,Tq2,Tk2,d2");
  EXPECT_EQ(rest.exit_code(), kConforms);
  EXPECT_NE(rest.weights_from.find("not today"), std::string::npos);
}

TEST(KernelView, NobodyAsksWhereItIsNotWanted) {
  const KernelView view =
      Attention().view("f32,B1,H1,Tq3,Tk3,d2", 0, AskForWeights::kNo);
  EXPECT_EQ(view.stages.size(), 2u);
  EXPECT_TRUE(view.weights.empty());
  const KernelView many = Attention().view("f32,B1,H1,Tq1,Tk65,d2,dv1");
  EXPECT_NE(many.weights_from.find("65 calls"), std::string::npos);
  EXPECT_EQ(many.exit_code(), kConforms);
}

TEST(KernelView, WhatEndsWithoutNumbersHasItsExitCode) {
  KernelView view;
  EXPECT_EQ(view.exit_code(), kNothingChecked) << "nothing was compared";
  const struct {
    Verdict verdict;
    FailureKind kind;
    ExitCode code;
  } rows[] = {{Verdict::kUnsupported, FailureKind::kLaw, kNothingChecked},
              {Verdict::kGaveUp, FailureKind::kLaw, kNothingChecked},
              {Verdict::kFailed, FailureKind::kMemory, kLawFailed},
              {Verdict::kFailed, FailureKind::kCrash, kKernelDied},
              {Verdict::kFailed, FailureKind::kHang, kKernelDied}};
  for (const auto& row : rows) {
    Judgement judgement;
    judgement.verdict = row.verdict;
    judgement.kind = row.kind;
    view.ended = judgement;
    EXPECT_EQ(view.exit_code(), row.code);
  }
}

}  // namespace
}  // namespace qkvet::cli::kernel_view_test
