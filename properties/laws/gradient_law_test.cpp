// SPDX-License-Identifier: Apache-2.0
// Laws about gradients: each passes the definition, and fails the mistakes that
// it exists for.
#include <gtest/gtest.h>

#include <cmath>

#include "properties/calls/gradient_calls.h"
#include "properties/cases/generate.h"
#include "properties/testing/fake_check.h"
#include "properties/testing/fake_gradients.h"
#include "reference/seeded/seeded_gradient.h"

namespace qkvet::properties::gradient_law_test {
namespace {

Judgement fails(const std::string& law, const std::string& text,
                FakeGradients::Question question,
                FakeGradients::Answer answer = {}) {
  return fails_as<FakeGradients>(FakeGradients::under_test().judged, law, text,
                                 std::move(question), std::move(answer));
}

// Spoils one number of an answer.
FakeGradients::Answer with(std::vector<double> GradientOutput::*tensor,
                           size_t n, double factor) {
  return [=](const KernelCall&, GradientOutput& gradient, CallOutcome&) {
    (gradient.*tensor)[n] *= factor;
  };
}

constexpr char kPlain[] =
    "f32,B1,H2,Hkv1,Tq3,Tk4,d2,dv3,causal=br,bias=small,sink=one,backward";

TEST(GradientLaws, PassTheDefinitionOnEveryPlannedCase) {
#ifdef QKVET_SANITIZED
  constexpr int64_t kPerLaw = 40;
#else
  constexpr int64_t kPerLaw = 120;
#endif
  const KernelUnderTest kernel = FakeGradients::under_test();
  FakeGradients right;
  Scope scope;
  scope.largest = SizeClass::kMedium;
  scope.dtypes = {Dtype::kF32, Dtype::kBf16, Dtype::kF64};
  keep_scope_to({kernel}, scope);
  TimeUse time;
  for (const Law* law : all_laws()) {
    if (law->domain.subject != Subject::kBackward) continue;
    int checked = 0;
    for (int64_t n = 1; n <= kPerLaw; ++n) {
      const Case value = planned_case(*law, 77, n, scope);
      ASSERT_EQ(value.subject(), Subject::kBackward);
      const Judgement judgement =
          check_case(*law, value, kernel.judged, 0, right, n % 4 == 0, time);
      if (!law->plan(value, kernel.judged.info).not_applicable.empty())
        continue;
      ASSERT_EQ(judgement.verdict, Verdict::kPassed)
          << law->id << " " << to_string(value) << " " << finding_of(judgement);
      checked += judgement.compared > 0;
    }
    EXPECT_GT(checked, kPerLaw * 7 / 10) << law->id;
  }
}

TEST(GradientLaws, AgreementSeesOneWrongElementOfEach) {
  const struct {
    std::vector<double> GradientOutput::*tensor;
    size_t n;
    const char* where;
  } rows[] = {{&GradientOutput::q, 7, "dq[b=0,h=1,i=0,c=1]"},
              {&GradientOutput::k, 3, "dk[b=0,h=0,j=1,c=1]"},
              {&GradientOutput::v, 5, "dv[b=0,h=0,j=1,c=2]"},
              {&GradientOutput::bias, 13, "dbias[b=0,h=1,i=0,j=1]"},
              {&GradientOutput::sink, 1, "dsink[h=1]"}};
  for (const auto& row : rows)
    for (const double factor : {1.01, -1.0, std::nan(""), double{INFINITY}}) {
      const Judgement wrong = fails("backward_agrees_with_oracle", kPlain, {},
                                    with(row.tensor, row.n, factor));
      EXPECT_EQ(wrong.finding->where, row.where);
    }
}

// Gradients that a kernel does not return are neither requested nor judged.
TEST(GradientLaws, OptionalGradientsAreAskedWhereTheyAreDeclared) {
  FakeGradients kernel(
      {}, [](const KernelCall& call, GradientOutput&, CallOutcome&) {
        EXPECT_FALSE(call.want_d_bias);
        EXPECT_FALSE(call.want_d_sink);
      });
  JudgedKernel bare = FakeGradients::under_test().judged;
  bare.info.backward_options = 0;
  EXPECT_EQ(check("backward_agrees_with_oracle", kPlain, kernel, bare).verdict,
            Verdict::kPassed);
}

// No key that a row sees is left: exactly zero, and no bound is uninformative.
TEST(GradientLaws, AgreementIsExactWhereNothingFlows) {
  const std::string text = "f32,B1,H1,Tq2,Tk3,d1,mask=only0,backward";
  for (const auto tensor : {&GradientOutput::k, &GradientOutput::v})
    fails("backward_agrees_with_oracle", text, {},
          [=](const KernelCall&, GradientOutput& gradient, CallOutcome&) {
            (gradient.*tensor)[2] = 1e-30;
          });
}

// Each row's list without its last entry.
void shorten(const KernelCall&, GradientProblem& problem) {
  static std::vector<int32_t> counts;
  ListedKeys& listed = problem.forward.listed;
  const Shape& s = problem.forward.shape;
  if (listed.keys == nullptr) return;
  counts.assign(static_cast<size_t>(s.B * s.Tq),
                static_cast<int32_t>(listed.entries - 1));
  listed.counts = counts.data();
}

TEST(GradientLaws, ListsOfKeysAreSeen) {
  const std::string text =
      "f32,B2,H2,Hkv1,Tq3,Tk5,d2,dv3,mask=random80,keys=4,backward";
  const auto dense = [](const KernelCall&, GradientProblem& problem) {
    problem.forward.listed = {};
  };
  for (const char* law :
       {"unlisted_keys_get_no_gradient", "gradient_lists_equal_masks",
        "backward_agrees_with_oracle", "backward_is_the_adjoint"})
    fails(law, text, dense);
  for (const char* law :
       {"listed_order_changes_no_gradient", "gradient_of_full_lists_is_dense",
        "gradient_lists_equal_masks"})
    fails(law, "f32,B2,H2,Hkv1,Tq3,Tk5,d2,dv3,keys=5,backward", shorten);
  fails("gradient_lists_equal_masks",
        "f32,B1,H2,Hkv2,Tq3,Tk6,d2,keys=3.h,backward",
        [](const KernelCall&, GradientProblem& problem) {
          problem.forward.listed.heads = 1;
        });
}

TEST(GradientLaws, BiasesOfMinusInfinityAreSeen) {
  const std::string law = "gradient_masks_equal_biases";
  // Its pairs are seen with a bias of 0.
  fails(law, "f32,B1,H1,Tq2,Tk3,d2,mask=only0,backward",
        [](const KernelCall&, GradientProblem& problem) {
          static std::vector<double> zero(6);
          if (problem.forward.bias != nullptr)
            problem.forward.bias = zero.data();
        });
  // Only a row that sees no key is NaN.
  fails(law, "f32,B1,H1,Tq2,Tk3,d2,mask=emptyrow0,backward", {},
        [](const KernelCall& call, GradientOutput& gradient, CallOutcome&) {
          if (call.bias != nullptr) gradient.k[0] = std::nan("");
        });
  JudgedKernel kernel = FakeGradients::under_test().judged;
  kernel.info.dialect.empty_row_by_bias = QKVET_EMPTY_ROW_NAN;
  const Case value =
      *parse_case("f32,B1,H1,Tq2,Tk3,d2,mask=emptyrow0,backward").value;
  EXPECT_FALSE(find_law(law)->plan(value, kernel.info).not_applicable.empty());
}

// With the dialects that some of the mistakes are about.
struct OtherDialect {
  OtherDialect() {
    qkvet_dialect& dialect = kernel.judged.info.dialect;
    dialect.sink_in_lse = QKVET_SINK_NOT_IN_LSE;
    dialect.softcap_order = QKVET_SOFTCAP_AFTER_MASK;
  }
  static void question(const KernelCall&, GradientProblem& problem) {
    problem.forward.sink_in_lse = false;
    problem.forward.softcap_after_bias = true;
  }
  KernelUnderTest kernel = FakeGradients::under_test();
};

// Agreement, and the law that trusts no formula, kill every mistake of a
// reference that a kernel could also have.
TEST(GradientLaws, SeededMistakesAreKilled) {
  Scope scope;
  scope.largest = SizeClass::kSmall;
  const KernelUnderTest kernel = OtherDialect().kernel;
  keep_scope_to({kernel}, scope);
  for (const char* id :
       {"backward_agrees_with_oracle", "backward_is_the_adjoint"})
    for (int i = 0; i < kSeededGradientFaultCount; ++i) {
      const auto fault = static_cast<SeededGradientFault>(i);
      FakeGradients wrong(OtherDialect::question);
      wrong.backward = [fault](const GradientProblem& problem) {
        return seeded_backward(fault, problem);
      };
      TimeUse time;
      int64_t n = 1;
      constexpr int64_t kMost = 400;
      for (; n <= kMost; ++n)
        if (check_case(*find_law(id), planned_case(*find_law(id), 3, n, scope),
                       kernel.judged, 0, wrong, false, time)
                .verdict == Verdict::kFailed)
          break;
      EXPECT_LE(n, kMost) << id << " " << seeded_gradient_fault_name(fault);
    }
}

// The control: the same cases and dialects without a mistake.
TEST(GradientLaws, OtherDialectsHaveGradientsOfTheirOwn) {
  const KernelUnderTest kernel = OtherDialect().kernel;
  FakeGradients right(OtherDialect::question);
  FakeGradients plain;
  TimeUse time;
  const Law& law = *find_law("backward_agrees_with_oracle");
  int differ = 0;
  for (int64_t n = 1; n <= 300; ++n) {
    const Case value = planned_case(law, 3, n);
    const Judgement judgement =
        check_case(law, value, kernel.judged, 0, right, n % 16 == 0, time);
    ASSERT_EQ(judgement.verdict, Verdict::kPassed)
        << to_string(value) << " " << finding_of(judgement);
    differ +=
        check_case(law, value, kernel.judged, 0, plain, false, time).verdict ==
        Verdict::kFailed;
  }
  EXPECT_GT(differ, 0);
}

TEST(GradientLaws, TheAdjointNamesTheRow) {
  const Judgement wrong =
      fails("backward_is_the_adjoint", "f32,B1,H1,Tq1,Tk2,d2,backward,do=one",
            {}, [](const KernelCall&, GradientOutput& gradient, CallOutcome&) {
              for (double& x : gradient.q) x *= 1.001;
            });
  EXPECT_EQ(wrong.finding->where, "dq[b=0,h=0,i=0] times a direction");
}

TEST(GradientLaws, NothingMayBeAddedToWhatIsLinear) {
  const std::string text = "f32,B1,H1,Tq2,Tk3,d2,backward,do=lattice";
  fails("backward_is_linear_in_d_o", text, {},
        [](const KernelCall&, GradientOutput& gradient, CallOutcome&) {
          gradient.v[1] += 1e-30;  // visible next to a zero only
        });
  fails("backward_is_linear_in_d_o", text, {},
        [](const KernelCall&, GradientOutput& gradient, CallOutcome&) {
          for (double& x : gradient.q) x = std::round(x * 1024) / 1024;
        });
}

// The gradient of a sink of weight 2^-140 is subnormal in f32. There -8 times a
// rounded number differs from the rounded product.
TEST(GradientLaws, ASinkThatNearlyUnderflowsMovesMoreThanExponents) {
  const auto text = [](const char* sink) {
    return std::string("f32,B1,H1,Tq2,Tk3,d2,sink=one,set=sink.0:") + sink +
           ",backward,do=lattice,seed=4";
  };
  const std::string tiny = text("-0x1.84p+6"), moderate = text("-0x1p+0");
  std::vector<float> found;
  FakeGradients right(
      {}, [&](const KernelCall&, GradientOutput& gradient, CallOutcome&) {
        found.push_back(static_cast<float>(gradient.sink[0]));
      });
  const Judgement judgement = check("backward_is_linear_in_d_o", tiny, right);
  EXPECT_EQ(judgement.verdict, Verdict::kPassed) << finding_of(judgement);
  ASSERT_GE(found.size(), 2u);
  EXPECT_NE(-8 * found[0], found[1]) << "a case that shows it";
  // A sink that counts is held to its bits.
  fails("backward_is_linear_in_d_o", moderate, {},
        [](const KernelCall&, GradientOutput& gradient, CallOutcome&) {
          gradient.sink[0] =
              std::nextafter(static_cast<float>(gradient.sink[0]), HUGE_VALF);
        });
}

TEST(GradientLaws, FutureRowsThatAddToAKey) {
  const char* const text =
      "f32,B1,H2,Hkv1,Tq4,Tk4,d2,causal=br,backward,seed=5";
  fails("future_gradients_are_zero", text,
        [](const KernelCall&, GradientProblem& problem) {
          problem.forward.causal = Causal::kNone;
        });
  FakeGradients good;
  EXPECT_EQ(check("future_gradients_are_zero",
                  "f32,B1,H1,Tq1,Tk2,d1,causal=br,backward", good)
                .verdict,
            Verdict::kGaveUp);
}

TEST(GradientLaws, OtherHeadsThatLeakALittle) {
  for (const char* text : {"f32,B1,H4,Hkv2,Tq2,Tk3,d2,backward",
                           "f32,B2,H2,Hkv1,Tq2,Tk3,d2,backward,seed=3"})
    fails("backward_heads_are_separate", text, {},
          [](const KernelCall&, GradientOutput& gradient, CallOutcome&) {
            double sum = 0;
            for (const double x : gradient.v) sum += x;
            for (double& x : gradient.k) x += 1e-6 * sum;
          });
}

// As if tiles of keys were stepped by a number that was rounded down.
TEST(GradientLaws, KeysThatAreWorthWhatTheirPlaceSays) {
  const char* const text =
      "f32,B1,H2,Hkv1,Tq2,Tk3,d2,bias=small,backward,seed=2";
  fails("permuted_keys_permute_gradients", text, {},
        [](const KernelCall&, GradientOutput& gradient, CallOutcome&) {
          gradient.k[4] = gradient.k[5] = 0;
        });
  fails("permuted_keys_permute_gradients", text, {},
        with(&GradientOutput::bias, 1, 1.01));
}

TEST(GradientLaws, HeadsAndMembersThatAreSpecial) {
  JudgedKernel claims = FakeGradients::under_test().judged;
  claims.info.capabilities.flags |=
      QKVET_FLAG_HEAD_ORDER_INVARIANT | QKVET_FLAG_BATCH_INVARIANT;
  const char* const texts[] = {
      "f32,B1,H4,Hkv2,Tq2,Tk3,d2,bias=small,sink=one,backward",
      "f32,B2,H2,Hkv1,Tq2,Tk3,d2,alibi=small,backward",
      "f32,B2,H2,Hkv2,Tq2,Tk3,d2,qlen=1.2,bias=small.h,backward"};
  for (const char* text : texts) {
    for (const auto tensor :
         {&GradientOutput::q, &GradientOutput::k, &GradientOutput::v})
      fails("permuted_heads_permute_gradients", text, {},
            with(tensor, 1, 1.01));
    FakeGradients drift({}, [](const KernelCall&, GradientOutput& gradient,
                               CallOutcome&) {
      gradient.v[1] = std::nextafter(static_cast<float>(gradient.v[1]), 9.0f);
    });
    EXPECT_EQ(check("permuted_heads_permute_gradients", text, drift).verdict,
              Verdict::kPassed);
    EXPECT_EQ(
        check("permuted_heads_permute_gradients", text, drift, claims).verdict,
        Verdict::kFailed);
  }
}

TEST(GradientLaws, SumsThatAreLeftOver) {
  int calls = 0;
  fails("backward_same_call_same_bits", "f32,B1,H1,Tq2,Tk2,d1,backward", {},
        [&calls](const KernelCall&, GradientOutput& gradient, CallOutcome&) {
          if (++calls == 3)
            gradient.k[0] =
                std::nextafter(static_cast<float>(gradient.k[0]), 9.0f);
        });
  // A change that only a call with more keys causes.
  int64_t most = 0;
  const Judgement judgement = fails(
      "backward_same_call_same_bits", "f32,B1,H1,Tq2,Tk2,d1,backward", {},
      [&most](const KernelCall& call, GradientOutput& gradient, CallOutcome&) {
        most = std::max(most, call.shape.Tk);
        if (most > call.shape.Tk)
          gradient.k[0] =
              std::nextafter(static_cast<float>(gradient.k[0]), 9.0f);
      });
  EXPECT_NE(judgement.finding->actual.find("more queries and keys"),
            std::string::npos)
      << judgement.finding->actual;
}

TEST(GradientLaws, ThreadsThatLoseAPart) {
  fails("backward_threads_change_nothing", "f32,B1,H1,Tq2,Tk2,d1,backward", {},
        [](const KernelCall& call, GradientOutput& gradient, CallOutcome&) {
          if (call.threads == 3) gradient.v[1] *= 0.99;
        });
  JudgedKernel claims = FakeGradients::under_test().judged;
  claims.info.capabilities.flags |= QKVET_FLAG_THREADS_INVARIANT;
  FakeGradients drift({}, [](const KernelCall& call, GradientOutput& gradient,
                             CallOutcome&) {
    if (call.threads == 2)
      gradient.v[1] = std::nextafter(static_cast<float>(gradient.v[1]), 9.0f);
  });
  const std::string text = "f32,B1,H1,Tq2,Tk2,d1,backward";
  EXPECT_EQ(check("backward_threads_change_nothing", text, drift).verdict,
            Verdict::kPassed);
  EXPECT_EQ(
      check("backward_threads_change_nothing", text, drift, claims).verdict,
      Verdict::kFailed);
}

TEST(GradientLaws, GradientsAtOnceThatShareScratch) {
  fails("backward_calls_at_once_change_nothing",
        "f32,B1,H1,Tq2,Tk2,d1,backward", {},
        [](const KernelCall& call, GradientOutput& gradient, CallOutcome&) {
          if (call.at_once) gradient.v[1] *= 0.99;
        });
  JudgedKernel silent = FakeGradients::under_test().judged;
  silent.info.capabilities.flags &= ~QKVET_FLAG_REENTRANT;
  FakeGradients right;
  EXPECT_EQ(check("backward_calls_at_once_change_nothing",
                  "f32,B1,H1,Tq2,Tk2,d1,backward", right, silent)
                .verdict,
            Verdict::kUnsupported);
}

TEST(GradientLaws, MemoryIsItsOwnLaw) {
  fails("backward_reads_only_its_inputs", "f32,B1,H1,Tq1,Tk2,d3,backward", {},
        [](const KernelCall& call, GradientOutput& gradient, CallOutcome&) {
          if (call.placement == Placement::kStart) gradient.v[0] = std::nan("");
        });
  const Judgement fault =
      fails("backward_agrees_with_oracle", "f32,B1,H1,Tq1,Tk2,d3,backward", {},
            [](const KernelCall&, GradientOutput&, CallOutcome& outcome) {
              outcome.status = CallStatus::kFault;
              MemoryFault where;
              where.tensor = TensorName::kDO;
              where.tensor_bytes = 12;
              outcome.fault = where;
            });
  EXPECT_EQ(fault.finding->actual,
            "READ of do, 0 bytes past its end (do has 12 bytes)");
  EXPECT_EQ(fault.finding->where,
            "backward(), each tensor ends at a guard page");
  EXPECT_EQ(&failed_law(*find_law("backward_agrees_with_oracle"), fault),
            find_law(kBackwardMemoryLaw));
}

// dS that f16 cannot hold, in the path of one placement alone.
TEST(GradientLaws, MemoryLeavesOutWhatF16CannotHold) {
  const auto verdict = [](const std::string& text) {
    FakeGradients other_path(
        {}, [](const KernelCall& call, GradientOutput& gradient, CallOutcome&) {
          if (call.placement == Placement::kStart) gradient.q[0] = std::nan("");
        });
    return check("backward_reads_only_its_inputs", text, other_path).verdict;
  };
  const std::string plain = "f16,B1,H1,Tq1,Tk2,d1,backward";
  EXPECT_EQ(verdict(plain + ",set=do.0.0.0.0:0x1p+15,set=v.0.0.0.0:0x1p+10,"
                            "set=v.0.0.1.0:-0x1p+10"),
            Verdict::kPassed);
  EXPECT_EQ(verdict(plain), Verdict::kFailed);
}

// The given results of forward() are the truth in storage, in the units of the
// kernel.
TEST(GradientLaws, WhatIsGivenIsTheTruthAsStored) {
  const std::string text =
      "f32,B1,H1,Tq3,Tk2,d1,dv2,causal=br,qlen=2,mask=emptyrow0,q=zero,v=one,"
      "backward";
  std::vector<double> lse, o;
  FakeGradients kernel([&](const KernelCall& call, GradientProblem&) {
    lse = stored_as_doubles(call.given_lse, 3, Dtype::kF32);
    o = stored_as_doubles(call.given_o, 6, Dtype::kF32);
  });
  JudgedKernel judged = FakeGradients::under_test().judged;
  EXPECT_EQ(check("backward_agrees_with_oracle", text, kernel, judged).verdict,
            Verdict::kPassed);
  EXPECT_EQ(lse[0], -INFINITY);
  EXPECT_EQ(lse[1], static_cast<double>(static_cast<float>(std::log(2.0))));
  EXPECT_TRUE(std::isnan(lse[2]));
  EXPECT_EQ(o[0], 0);
  EXPECT_EQ(o[2], 1);
  EXPECT_TRUE(std::isnan(o[4]));
  judged.info.dialect.lse_base = QKVET_LSE_BASE2;
  judged.info.dialect.empty_row_lse = QKVET_EMPTY_LSE_PLUS_INF;
  check("backward_agrees_with_oracle", text, kernel, judged);
  EXPECT_EQ(lse[0], INFINITY);
  EXPECT_EQ(lse[1], 1);
}

// The gradient of a mean, or of NaN, is another one.
TEST(GradientLaws, RowsWithoutAKeyNeedTheZero) {
  const std::string text = "f32,B1,H1,Tq2,Tk2,d1,mask=emptyrow0,backward";
  FakeGradients kernel;
  JudgedKernel judged = FakeGradients::under_test().judged;
  EXPECT_EQ(check("backward_agrees_with_oracle", text, kernel, judged).verdict,
            Verdict::kPassed);
  judged.info.dialect.empty_row = QKVET_EMPTY_ROW_MEAN;
  const Judgement judgement =
      check("backward_agrees_with_oracle", text, kernel, judged);
  EXPECT_EQ(judgement.verdict, Verdict::kGaveUp);
  EXPECT_NE(judgement.reason.find("empty_row"), std::string::npos);
}

// An lse of its own is handed to no backward() but its own.
TEST(GradientLaws, RowsWithoutAKeyNeedAnLseThatIsDeclared) {
  const std::string text = "f32,B1,H1,Tq2,Tk2,d1,mask=emptyrow0,backward";
  FakeGradients kernel;
  JudgedKernel judged = FakeGradients::under_test().judged;
  judged.info.dialect.empty_row_lse = QKVET_EMPTY_LSE_UNSPECIFIED;
  const Judgement judgement =
      check("backward_agrees_with_oracle", text, kernel, judged);
  EXPECT_EQ(judgement.verdict, Verdict::kGaveUp);
  EXPECT_NE(judgement.reason.find("empty_row_lse"), std::string::npos);
  EXPECT_EQ(check("backward_agrees_with_oracle",
                  "f32,B1,H1,Tq2,Tk2,d1,backward", kernel, judged)
                .verdict,
            Verdict::kPassed);
}

TEST(GradientLaws, StorageAndTablesThatAreNotJudged) {
  FakeGradients kernel;
  EXPECT_EQ(check("backward_agrees_with_oracle",
                  "q=f32,kv=bf16,o=f32,B1,H1,Tq1,Tk1,d1,backward", kernel)
                .verdict,
            Verdict::kUnsupported);
  JudgedKernel none = FakeGradients::under_test().judged;
  none.info.has_backward = false;
  const Judgement judgement =
      check("backward_agrees_with_oracle", kPlain, kernel, none);
  EXPECT_EQ(judgement.verdict, Verdict::kUnsupported);
  EXPECT_EQ(judgement.reason, "the kernel declares no backward()");
  EXPECT_EQ(check("backward_agrees_with_oracle", "f32,B1,H1,Tq1,Tk1,d1", kernel)
                .verdict,
            Verdict::kGaveUp);
}

// Gradients stored in half have a bound; sums accumulated in half have none.
TEST(GradientLaws, SumsInHalfHaveNoBoundOfAGradient) {
  FakeGradients kernel;
  const auto judged = [&](uint64_t knob, qkvet_dtype qkvet_precision::*field,
                          const char* spelled) {
    JudgedKernel of_knob = FakeGradients::under_test().judged;
    qkvet_precision p{};
    p.struct_size = sizeof p;
    p.declared = knob;
    p.*field = dtype_to_abi(Dtype::kBf16);
    of_knob.model = resolve_precision(p).model;
    return check("backward_agrees_with_oracle", spelled, kernel, of_knob);
  };
  using P = qkvet_precision;
  const Judgement dot =
      judged(QKVET_KNOB_DOT_SUM_DTYPE, &P::dot_sum_dtype, kPlain);
  EXPECT_EQ(dot.verdict, Verdict::kUnsupported);
  EXPECT_NE(dot.reason.find("dot_sum_dtype"), std::string::npos);
  const Judgement value =
      judged(QKVET_KNOB_VALUE_SUM_DTYPE, &P::value_sum_dtype, kPlain);
  EXPECT_NE(value.reason.find("value_sum_dtype"), std::string::npos);
  EXPECT_EQ(judged(QKVET_KNOB_SCORE_DTYPE, &P::score_dtype, kPlain).verdict,
            Verdict::kPassed);
  EXPECT_EQ(judged(QKVET_KNOB_SOFTMAX_DTYPE, &P::softmax_dtype, kPlain).verdict,
            Verdict::kPassed);
  EXPECT_EQ(judged(QKVET_KNOB_OPERAND_DTYPE, &P::operand_dtype, kPlain).verdict,
            Verdict::kPassed);
}

// One query, one key, one channel is as small as a failure gets.
TEST(GradientLaws, FailuresShrink) {
  FakeGradients wrong(
      {}, [](const KernelCall&, GradientOutput& gradient, CallOutcome&) {
        for (double& x : gradient.v) x *= 1.5;
      });
  const Law& law = *find_law("backward_agrees_with_oracle");
  const Case value =
      *parse_case("f32,B2,H4,Hkv2,Tq5,Tk7,d6,causal=br,backward,do=onehot1")
           .value;
  const JudgedKernel judged = FakeGradients::under_test().judged;
  TimeUse time;
  const Judgement judgement =
      check_case(law, value, judged, 0, wrong, false, time);
  ASSERT_EQ(judgement.verdict, Verdict::kFailed);
  const Shrunk small =
      shrink(law, value, judgement, judged, 0, wrong, time, Scope{});
  EXPECT_EQ(to_string(small.value),
            "f32,B1,H1,Tq1,Tk1,d1,backward,q=zero,k=zero,v=zero,do=one");
  EXPECT_FALSE(small.judgement.picture.empty());
}

}  // namespace
}  // namespace qkvet::properties::gradient_law_test
