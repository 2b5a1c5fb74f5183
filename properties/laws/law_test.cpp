// SPDX-License-Identifier: Apache-2.0
// Every law passes the oracle itself, and fails the mistakes that it exists
// for.
#include "properties/judging/law.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "core/base/at_night.h"
#include "properties/cases/generate.h"
#include "properties/testing/fake_check.h"

namespace qkvet::properties::law_test {
namespace {

TEST(Laws, StateAllFiveThingsUnderAUniqueId) {
  std::set<std::string> ids;
  for (const Law* law : all_laws()) {
    EXPECT_TRUE(ids.insert(law->id).second) << law->id;
    for (const char* text : {law->sentence, law->formula, law->precondition,
                             law->reason, law->rounding, law->kept_for})
      EXPECT_GT(std::string(text).size(), 3u) << law->id;
    EXPECT_EQ(std::string(law->kept_for)[0], '(') << law->id;
  }
  EXPECT_NE(find_law("agrees_with_oracle"), nullptr);
  EXPECT_NE(find_law(kMemoryLaw), nullptr);
  EXPECT_EQ(find_law("no_such_law"), nullptr);
}

// Two laws of one rank would have an undocumented order.
TEST(Laws, HaveEachARankOfTheirOwn) {
  std::set<std::pair<Subject, int>> ranks;
  for (const Law* law : all_laws())
    EXPECT_TRUE(ranks.emplace(law->domain.subject, law->rank).second)
        << law->id;
  EXPECT_STREQ(all_laws()[0]->id, "reads_only_its_inputs");
}

TEST(Laws, PassTheOracleOnEveryPlannedCase) {
#ifdef QKVET_SANITIZED
  constexpr int64_t kPerLaw = 50;
#else
  const int64_t kPerLaw = at_night() ? 150 : 75;
#endif
  FakeExecutor oracle;
  const KernelUnderTest kernel = FakeExecutor::under_test();
  TimeUse time;
  for (const Law* law : all_laws()) {
    if (law->domain.subject != Subject::kAttention) continue;
    int checked = 0;
    for (int64_t n = 1; n <= kPerLaw; ++n) {
      const Case value = planned_case(*law, 77, n);
      const Judgement judgement =
          check_case(*law, value, kernel.judged, 0, oracle, n % 4 == 0, time);
      // Some preconditions depend on the drawn data; the floor below counts.
      if (!law->plan(value, kernel.judged.info).not_applicable.empty())
        continue;
      ASSERT_EQ(judgement.verdict, Verdict::kPassed)
          << law->id << " " << to_string(value) << " "
          << (judgement.finding
                  ? judgement.finding->where + " " + judgement.finding->actual
                  : judgement.reason);
      checked += judgement.compared > 0;
    }
    EXPECT_GT(checked, kPerLaw * 4 / 5) << law->id;
  }
}

TEST(Laws, AgreementSeesOneWrongElement) {
  FakeExecutor spoiled({}, [](const KernelCall&, OracleOutput& oracle,
                              CallOutcome&) { oracle.o[3] *= 1.001; });
  const Judgement judgement =
      check("agrees_with_oracle", "f32,B1,H1,Tq2,Tk3,d2", spoiled);
  ASSERT_EQ(judgement.verdict, Verdict::kFailed);
  EXPECT_EQ(judgement.finding->where, "o[b=0,h=0,i=1,c=1]");
  EXPECT_GT(judgement.finding->ratio, 1);
}

TEST(Laws, AgreementSeesNaNAndInfinity) {
  for (const double bad : {std::nan(""), double{INFINITY}, -double{INFINITY}}) {
    FakeExecutor spoiled({}, [bad](const KernelCall&, OracleOutput& oracle,
                                   CallOutcome&) { oracle.o[0] = bad; });
    EXPECT_EQ(
        check("agrees_with_oracle", "f32,B1,H1,Tq2,Tk3,d2", spoiled).verdict,
        Verdict::kFailed)
        << bad;
  }
}

TEST(Laws, AgreementSeesLseAndWeights) {
  FakeExecutor lse({}, [](const KernelCall&, OracleOutput& oracle,
                          CallOutcome&) { oracle.lse[0] += 1e-3; });
  const Judgement judgement =
      check("agrees_with_oracle", "f32,B1,H1,Tq2,Tk3,d2", lse);
  ASSERT_EQ(judgement.verdict, Verdict::kFailed);
  EXPECT_EQ(judgement.finding->where, "lse[b=0,h=0,i=0]");
  FakeExecutor weights({}, [](const KernelCall&, OracleOutput& oracle,
                              CallOutcome&) { oracle.weights[5] *= 0.999; });
  EXPECT_EQ(
      check("agrees_with_oracle", "f32,B1,H1,Tq2,Tk3,d2", weights).verdict,
      Verdict::kFailed);
}

TEST(Laws, SequencesSeeWhatACallLeavesBehind) {
  const char* const kLaw = "calls_before_change_nothing";
  // An option persists, in the call that has none and after one that has
  // another.
  const auto softcap_stays = [kept = 0.0](KernelCall& call,
                                          Problem& p) mutable {
    if (call.new_process) kept = 0;
    if (p.softcap > 0) kept = p.softcap;
    p.softcap = kept;
  };
  const Judgement judgement =
      fails(kLaw, "f32,B1,H1,Tq2,Tk3,d4,softcap=0.5,calls=aon", softcap_stays);
  EXPECT_NE(judgement.finding->looks.find(
                "call 3 of aon, the case without its options"),
            std::string::npos)
      << judgement.finding->looks;
  EXPECT_EQ(judgement.finding->planned, 2);
  // Keys are those of the first call at the same addresses.
  const auto keys_stay = [kept = std::vector<double>(),
                          at = std::vector<double>()](KernelCall& call,
                                                      Problem& p) mutable {
    const auto count = static_cast<size_t>(p.shape.k_elements());
    if (call.new_process) kept.clear();
    if (!call.same_place || call.placement == Placement::kStart) return;
    if (kept.size() != count) kept.assign(p.k, p.k + count);
    at = kept;
    p.k = at.data();
  };
  fails(kLaw, "f32,B1,H1,Tq2,Tk3,d4,calls=ao", keys_stay);
  FakeExecutor elsewhere(keys_stay);
  EXPECT_EQ(check(kLaw, "f32,B1,H1,Tq2,Tk3,d4,calls=aema", elsewhere).verdict,
            Verdict::kPassed);
  // The 256th call, with capacity for as many keys as the first call has.
  const auto counts = [n = 0](const KernelCall& call, OracleOutput& oracle,
                              CallOutcome&) mutable {
    if (call.new_process) n = 0;
    if (++n % 256 == 0) oracle.o[0] += 1;
  };
  fails(kLaw, "f32,B1,H1,Tq2,Tk3,d4,calls=af260", {}, counts);
  FakeExecutor few({}, counts);
  EXPECT_EQ(check(kLaw, "f32,B1,H1,Tq2,Tk3,d4,calls=af250", few).verdict,
            Verdict::kPassed);
  fails(kLaw, "f32,B1,H1,Tq2,Tk3,d4,calls=am", {},
        [room = int64_t{0}](const KernelCall& call, OracleOutput& oracle,
                            CallOutcome&) mutable {
          if (call.new_process) room = call.shape.Tk;
          if (call.shape.Tk > room) oracle.o[0] += 1;
        });
  // The first layout, or value of an option, is compiled in and stays.
  const auto layout_stays = [kept = Layout::kBhtd](const KernelCall& call,
                                                   OracleOutput& oracle,
                                                   CallOutcome&) mutable {
    if (call.new_process) kept = call.layout;
    if (call.layout != kept) oracle.o[0] += 1;
  };
  const Judgement strides =
      fails(kLaw, "f32,B1,H1,Tq2,Tk3,d4,calls=aos", {}, layout_stays);
  EXPECT_NE(
      strides.finding->looks.find("call 3 of aos, the case in another layout"),
      std::string::npos)
      << strides.finding->looks;
  const auto softcap_is_kept = [kept = 0.0](const KernelCall& call,
                                            OracleOutput& oracle,
                                            CallOutcome&) mutable {
    if (call.new_process) kept = call.softcap;
    if (call.softcap != kept) oracle.o[0] += 1;
  };
  const Judgement values =
      fails(kLaw, "f32,B1,H1,Tq2,Tk6,d4,softcap=0.5,calls=av,seed=1", {},
            softcap_is_kept);
  EXPECT_NE(values.finding->looks.find(
                "call 2 of av, the case with another value of an option"),
            std::string::npos)
      << values.finding->looks;
  // A kernel that is wrong in its first call fails another law, and so does one
  // that is wrong in a later call, whatever the calls before it.
  FakeExecutor large(
      {}, [](const KernelCall& call, OracleOutput& oracle, CallOutcome&) {
        if (call.shape.Tk > 3) oracle.o[0] += 1;
      });
  EXPECT_EQ(check(kLaw, "f32,B1,H1,Tq2,Tk3,d4,calls=am", large).verdict,
            Verdict::kGaveUp);
  FakeExecutor wrong({}, [](const KernelCall&, OracleOutput& oracle,
                            CallOutcome&) { oracle.o[0] += 1; });
  EXPECT_EQ(check(kLaw, "f32,B1,H1,Tq2,Tk3,d4,calls=ao", wrong).verdict,
            Verdict::kGaveUp);
}

TEST(Laws, FutureWeightsSeeTheSmallestLeak) {
  // A mask of -20 instead of -infinity.
  FakeExecutor leak({}, [](const KernelCall&, OracleOutput& oracle,
                           CallOutcome&) { oracle.o[0] += 2e-9; });
  const Judgement judgement =
      check("future_weights_are_zero", "f32,B1,H1,Tq2,Tk2,d1,causal", leak);
  ASSERT_EQ(judgement.verdict, Verdict::kFailed);
  EXPECT_EQ(judgement.finding->expected, "0, exactly");
}

TEST(Laws, FutureWeightsAcceptMinusZero) {
  FakeExecutor minus({},
                     [](const KernelCall&, OracleOutput& oracle, CallOutcome&) {
                       for (double& o : oracle.o)
                         if (o == 0) o = -0.0;
                     });
  EXPECT_EQ(
      check("future_weights_are_zero", "f32,B1,H1,Tq3,Tk3,d2,causal", minus)
          .verdict,
      Verdict::kPassed);
}

TEST(Laws, FutureWeightsSayNothingWithoutAMask) {
  FakeExecutor oracle;
  EXPECT_EQ(
      check("future_weights_are_zero", "f32,B1,H1,Tq3,Tk3,d2", oracle).verdict,
      Verdict::kGaveUp);
}

TEST(Laws, RowSumsSeeALostKey) {
  FakeExecutor lost(
      {}, [](const KernelCall& call, OracleOutput& oracle, CallOutcome&) {
        // The weight of the last key is left out of the numerator.
        const auto n = static_cast<double>(call.shape.Tk);
        for (double& o : oracle.o) o *= 1 - 1 / n;
      });
  EXPECT_EQ(check("weights_sum_to_one", "f32,B1,H1,Tq1,Tk100,d1,q=zero", lost)
                .verdict,
            Verdict::kFailed);
}

TEST(Laws, RowSumsSeeReturnedWeights) {
  FakeExecutor spoiled({}, [](const KernelCall&, OracleOutput& oracle,
                              CallOutcome&) { oracle.weights[1] += 1e-4; });
  const Judgement judgement =
      check("weights_sum_to_one", "f32,B1,H1,Tq1,Tk4,d1", spoiled);
  ASSERT_EQ(judgement.verdict, Verdict::kFailed);
  EXPECT_EQ(judgement.finding->where, "sum over j of weights[b=0,h=0,i=0]");
}

Judgement with_scale(double (*wrong)(const Problem&)) {
  FakeExecutor executor([wrong](KernelCall&, Problem& problem) {
    problem.scale = wrong(problem);
  });
  return check("scale_is_one_over_sqrt_d",
               "f32,B1,H3,Tq1,Tk3,d16,q=zero,k=zero,v=zero", executor);
}

// A product of q.k beyond the largest f32 may come out as infinity, and its row
// as NaN; the rows before it are judged.
TEST(Laws, RowSumsSayNothingWhereScoresOverflowOnTheWay) {
  const Case value =
      *parse_case(
           "f32,B1,H3,Tq4,Tk3,d3,dv6,v=one,seed=2,set=k.0.2.2.1:0x1.fep+127")
           .value;
  size_t spoiled = 35;  // weights[b=0,h=2,i=3,j=2]
  FakeExecutor kernel(
      {}, [&spoiled](const KernelCall&, OracleOutput& output, CallOutcome&) {
        output.weights[spoiled] = NAN;
      });
  const KernelUnderTest under_test = FakeExecutor::under_test();
  TimeUse time;
  const auto judged = [&] {
    return check_case(*find_law("weights_sum_to_one"), value, under_test.judged,
                      0, kernel, /*with_twin=*/false, time);
  };
  EXPECT_EQ(judged().verdict, Verdict::kPassed);
  EXPECT_GT(judged().vacuous, 0);
  spoiled = 0;
  EXPECT_EQ(judged().verdict, Verdict::kFailed);
}

TEST(Laws, ScaleNamesWhatItLooksLike) {
  const std::pair<double (*)(const Problem&), const char*> wrongs[] = {
      {[](const Problem&) { return 1.0; }, "no scale at all"},
      {[](const Problem& p) { return p.scale * p.scale; }, "applied twice"},
      {[](const Problem& p) {
         return 1 / std::sqrt(static_cast<double>(p.shape.d * p.shape.H));
       },
       "model width"},
      // One number is given by some scale, whatever is wrong.
      {[](const Problem& p) { return p.scale * 1.01; }, ""}};
  for (const auto& [wrong, name] : wrongs) {
    const Judgement judgement = with_scale(wrong);
    ASSERT_EQ(judgement.verdict, Verdict::kFailed) << name;
    // A scale squared at d = 16 is 1/16, also 1/d: the first guess counts.
    EXPECT_NE(judgement.finding->looks.find(name), std::string::npos)
        << judgement.finding->looks;
    EXPECT_EQ(judgement.finding->looks.empty(), std::string(name).empty())
        << judgement.finding->looks;
  }
}

// These two have the right answer without the oracle: an oracle that is wrong
// in the same way as the kernel does not hide the mistake.
TEST(Laws, SumAndScaleDoNotTrustTheOracle) {
  const std::pair<const char*, double> laws[] = {
      {"weights_sum_to_one", 1.0},
      // c g = 2 at d = 1: w = 1 / (1 + e^-2).
      {"scale_is_one_over_sqrt_d", 1 / (1 + std::exp(-2))}};
  for (const auto& [id, right] : laws)
    for (const bool correct : {true, false}) {
      const Law& law = *find_law(id);
      Case value;
      value.shape.Tk = 2;
      Truth truth;
      truth.oracle.o = {0.25};  // wrong
      truth.oracle.visible = {2};
      Bound bound;
      bound.o = {0x1p-20};
      const std::vector<double> reach = {1};
      truth.bound = &bound;
      truth.reach = &reach;
      CallOutcome outcome;
      outcome.o = doubles_as_floats({correct ? right : 0.25});
      const CallView view{nullptr, nullptr, &outcome, &truth};
      const KernelInfo info = FakeExecutor::info();
      EXPECT_EQ(
          law.judge({value, info, generic_precision(), {&view, 1}}).verdict,
          correct ? Verdict::kPassed : Verdict::kFailed)
          << id;
    }
}

// The law must notice 1e-4 in f32.
TEST(Laws, ScaleSeesOneInTenThousand) {
  EXPECT_EQ(with_scale([](const Problem& p) { return p.scale; }).verdict,
            Verdict::kPassed);
  EXPECT_EQ(
      with_scale([](const Problem& p) { return p.scale * 1.0001; }).verdict,
      Verdict::kFailed);
}

TEST(Laws, PerturbationSeesADenominatorOverTheFuture) {
  FakeExecutor leak(
      [](KernelCall&, Problem& problem) { problem.causal = Causal::kNone; });
  EXPECT_EQ(check("future_changes_nothing",
                  "f32,B1,H1,Tq2,Tk2,d1,causal,seed=2", leak)
                .verdict,
            Verdict::kFailed);
}

TEST(Laws, PerturbationIsBitwise) {
  int calls = 0;
  FakeExecutor drift(
      {}, [&calls](const KernelCall&, OracleOutput& oracle, CallOutcome&) {
        if (calls++ == 1)
          oracle.o[0] = std::nextafter(static_cast<float>(oracle.o[0]), 9.0f);
      });
  EXPECT_EQ(check("future_changes_nothing",
                  "f32,B1,H1,Tq2,Tk2,d1,causal,seed=2", drift)
                .verdict,
            Verdict::kFailed);
}

// A kernel with another scale on its path for one query.
TEST(Laws, PrefillIsComparedWithDecode) {
  const std::string text = "f32,B1,H2,Hkv1,Tq3,Tk5,d2,causal=br,seed=4";
  FakeExecutor good;
  EXPECT_EQ(check("prefill_equals_decode", text, good).verdict,
            Verdict::kPassed);
  FakeExecutor bad([](KernelCall& call, Problem& problem) {
    if (call.shape.Tq != 1 || call.shape.Tk < 2) return;
    problem.scale *= 1.001;
  });
  const Judgement judgement = check("prefill_equals_decode", text, bad);
  ASSERT_EQ(judgement.verdict, Verdict::kFailed);
  EXPECT_NE(judgement.finding->expected.find("whole call"), std::string::npos);
  FakeExecutor nan(
      {}, [](const KernelCall& call, OracleOutput& oracle, CallOutcome&) {
        if (call.shape.Tq == 1) oracle.o[0] = std::nan("");
      });
  EXPECT_EQ(check("prefill_equals_decode", text, nan).verdict,
            Verdict::kFailed);
}

// A kernel that counts from the top left when the bottom right is requested:
// right for every square call, wrong for a chunk on earlier keys.
TEST(Laws, ChunksReachEveryOffset) {
  const std::string text = "f32,B1,H1,Tq4,Tk4,d2,causal=tl,seed=4";
  FakeExecutor good;
  const Judgement right = check("chunks_equal_whole", text, good);
  EXPECT_EQ(right.verdict, Verdict::kPassed);
  FakeExecutor bad([](KernelCall&, Problem& problem) {
    if (problem.causal == Causal::kBottomRight)
      problem.causal = Causal::kTopLeft;
  });
  EXPECT_EQ(check("chunks_equal_whole", text, bad).verdict, Verdict::kFailed);
  EXPECT_EQ(
      check("chunks_equal_whole", "f32,B1,H1,Tq9,Tk9,d2,causal=tl,seed=4", bad)
          .verdict,
      Verdict::kFailed);
}

TEST(Laws, MemorySeesNaNFromBesideATensor) {
  FakeExecutor slack(
      {}, [](const KernelCall& call, OracleOutput& oracle, CallOutcome&) {
        if (call.placement == Placement::kStart) oracle.o[0] = std::nan("");
      });
  const Judgement judgement =
      check("reads_only_its_inputs", "f32,B1,H1,Tq1,Tk2,d3", slack);
  ASSERT_EQ(judgement.verdict, Verdict::kFailed);
  EXPECT_NE(judgement.finding->looks.find("beside a tensor"),
            std::string::npos);
}

JudgedKernel with_scores(bool f16) {
  JudgedKernel kernel = FakeExecutor::under_test().judged;
  if (!f16) return kernel;
  qkvet_precision& p = kernel.info.precision;
  p.struct_size = sizeof p;
  p.declared = QKVET_KNOB_SCORE_DTYPE;
  p.score_dtype = dtype_to_abi(Dtype::kF16);
  kernel.model = resolve_precision(p).model;
  return kernel;
}

// Numbers that f16 cannot hold may be NaN on the path of one placement alone:
// scores that the kernel keeps in f16, and outputs stored in it.
TEST(Laws, MemoryLeavesOutWhatF16CannotHold) {
  const auto verdict = [](const std::string& text, bool f16_scores) {
    const JudgedKernel kernel = with_scores(f16_scores);
    FakeExecutor other_path(
        {}, [](const KernelCall& call, OracleOutput& oracle, CallOutcome&) {
          if (call.placement == Placement::kStart) oracle.o[0] = std::nan("");
        });
    return check("reads_only_its_inputs", text, other_path, kernel).verdict;
  };
  const std::string plain = "f32,B1,H1,Tq1,Tk2,d1,scale=1";
  const std::string large =
      plain + ",set=q.0.0.0.0:0x1.2cp+8,set=k.0.0.0.0:0x1.2cp+8";
  EXPECT_EQ(verdict(large, true), Verdict::kPassed);
  EXPECT_EQ(verdict(large, false), Verdict::kFailed);
  EXPECT_EQ(verdict(plain, true), Verdict::kFailed);
  const std::string half = "f16,B1,H1,Tq1,Tk2,d1";
  const std::string at_the_end =
      half + ",set=v.0.0.0.0:0x1.ffcp+15,set=v.0.0.1.0:0x1.ffcp+15";
  EXPECT_EQ(verdict(at_the_end, false), Verdict::kPassed);
  EXPECT_EQ(verdict(half, false), Verdict::kFailed);
}

// A bias of -1e9 is -inf where scores are kept in f16, and its row NaN.
TEST(Laws, FutureWeightsLeaveOutABiasThatF16CannotHold) {
  const auto verdict = [](const std::string& bias, bool f16_scores) {
    const JudgedKernel kernel = with_scores(f16_scores);
    FakeExecutor nan({}, [](const KernelCall&, OracleOutput& oracle,
                            CallOutcome&) { oracle.o[0] = std::nan(""); });
    return check("future_weights_are_zero",
                 "f32,B1,H1,Tq1,Tk2,d1,causal=tl,bias=" + bias, nan, kernel)
        .verdict;
  };
  EXPECT_EQ(verdict("masking9", true), Verdict::kGaveUp);
  EXPECT_EQ(verdict("masking9", false), Verdict::kFailed);
  EXPECT_EQ(verdict("masking4", true), Verdict::kFailed);
  EXPECT_EQ(verdict("normal", true), Verdict::kFailed);
}

TEST(Laws, NaNThatNoInputExplainsIsCalledThat) {
  const auto looks_of = [](double wrong) {
    FakeExecutor bad({}, [wrong](const KernelCall&, OracleOutput& oracle,
                                 CallOutcome&) { oracle.o[0] = wrong; });
    const Judgement judgement =
        check("future_weights_are_zero", "f32,B1,H1,Tq2,Tk2,d1,causal=tl", bad);
    EXPECT_EQ(judgement.verdict, Verdict::kFailed);
    return judgement.finding ? judgement.finding->looks : "";
  };
  EXPECT_NE(looks_of(std::nan("")).find("NaN from finite inputs"),
            std::string::npos);
  EXPECT_NE(looks_of(1).find("a later key takes part"), std::string::npos);
}

TEST(Laws, FaultsBelongToTheMemoryLawWhoeverCalled) {
  FakeExecutor fault(
      {}, [](const KernelCall& call, OracleOutput&, CallOutcome& outcome) {
        outcome.status = CallStatus::kFault;
        MemoryFault where;
        where.tensor = TensorName::kK;
        where.tensor_bytes = call.shape.k_elements() * 4;
        outcome.fault = where;
      });
  const Judgement judgement =
      check("agrees_with_oracle", "f32,B1,H1,Tq1,Tk2,d3", fault);
  ASSERT_EQ(judgement.verdict, Verdict::kFailed);
  EXPECT_EQ(judgement.kind, FailureKind::kMemory);
  EXPECT_EQ(&failed_law(*find_law("agrees_with_oracle"), judgement),
            find_law(kMemoryLaw));
  EXPECT_EQ(judgement.finding->actual,
            "READ of k, 0 bytes past its end (k has 24 bytes)");
}

TEST(Laws, OutcomesThatAreNoAnswers) {
  const std::pair<CallStatus, Verdict> expected[] = {
      {CallStatus::kUnsupported, Verdict::kUnsupported},
      {CallStatus::kUnavailable, Verdict::kUnsupported},
      {CallStatus::kRefused, Verdict::kFailed},
      {CallStatus::kCrash, Verdict::kFailed},
      {CallStatus::kHang, Verdict::kFailed},
      {CallStatus::kOutOfMemory, Verdict::kFailed}};
  for (const auto& [status, verdict] : expected) {
    FakeExecutor executor({},
                          [status = status](const KernelCall&, OracleOutput&,
                                            CallOutcome& outcome) {
                            outcome.status = status;
                            outcome.text = "a reason";
                          });
    EXPECT_EQ(
        check("agrees_with_oracle", "f32,B1,H1,Tq1,Tk2,d3", executor).verdict,
        verdict);
  }
}

TEST(Laws, TracesOfABadCall) {
  const auto spoiled = [](void (*spoil)(CallOutcome&)) {
    FakeExecutor executor(
        {}, [spoil](const KernelCall&, OracleOutput&, CallOutcome& outcome) {
          spoil(outcome);
        });
    return check("agrees_with_oracle", "f32,B1,H1,Tq1,Tk2,d3", executor);
  };
  for (const auto spoil :
       {+[](CallOutcome& o) { o.dirty_environment = true; },
        +[](CallOutcome& o) { o.damage.emplace(); },
        +[](CallOutcome& o) { o.unwritten = TensorName::kO; }}) {
    const Judgement judgement = spoiled(spoil);
    EXPECT_EQ(judgement.verdict, Verdict::kFailed);
    EXPECT_EQ(judgement.kind, FailureKind::kMemory);
  }
}

TEST(Laws, TypesWithoutABoundAreUnsupported) {
  FakeExecutor oracle;
  const Judgement judgement =
      check("agrees_with_oracle", "fp8e4m3,B1,H1,Tq1,Tk2,d3", oracle);
  EXPECT_EQ(judgement.verdict, Verdict::kUnsupported);
  EXPECT_NE(judgement.reason.find("fp8e4m3"), std::string::npos);
}

TEST(StateBetweenCalls, IsSeenBehindLargerAndSmallerCalls) {
  const std::string text = "f32,B2,H1,Tq3,Tk5,d2,kvlen=5.3,seed=4";
  FakeExecutor good;
  const Judgement right = check("same_call_same_bits", text, good);
  EXPECT_EQ(right.verdict, Verdict::kPassed) << finding_of(right);
  // The judgement counts a call with an answer that depends on the largest, or
  // the smallest, earlier one.
  for (const bool larger : {true, false}) {
    int64_t extreme = 5;
    const Judgement judgement =
        fails("same_call_same_bits", text, {},
              [=](const KernelCall& call, OracleOutput& oracle,
                  CallOutcome&) mutable {
                extreme = larger ? std::max(extreme, call.shape.Tk)
                                 : std::min(extreme, call.shape.Tk);
                if (extreme != 5 && call.shape.Tk == 5) oracle.o[0] += 1;
              });
    EXPECT_NE(judgement.finding->actual.find(larger ? "more queries and keys"
                                                    : "few queries and keys"),
              std::string::npos)
        << judgement.finding->actual;
  }
}

TEST(StateBetweenCalls, CallsOfOtherShapesMayBeRefused) {
  FakeExecutor one_shape(
      {}, [](const KernelCall& call, OracleOutput&, CallOutcome& outcome) {
        if (call.shape.Tk == 5) return;
        outcome.status = CallStatus::kUnsupported;
        outcome.text = "Tk must be 5";
      });
  const Judgement judgement =
      check("same_call_same_bits", "f32,B1,H1,Tq3,Tk5,d2", one_shape);
  EXPECT_EQ(judgement.verdict, Verdict::kPassed) << finding_of(judgement);
  EXPECT_GT(judgement.compared, 0);
}

TEST(CallsAtOnce, AreHeldAgainstCallsAlone) {
  const std::string text = "f32,B1,H2,Tq3,Tk5,d2,causal=br";
  const auto other_at_once = [](const KernelCall& call, OracleOutput& oracle,
                                CallOutcome&) {
    if (call.at_once) oracle.o.back() += 1;
  };
  JudgedKernel kernel = FakeExecutor::under_test().judged;
  kernel.info.capabilities.flags &= ~QKVET_FLAG_REENTRANT;
  FakeExecutor undeclared({}, other_at_once);
  EXPECT_EQ(
      check("calls_at_once_change_nothing", text, undeclared, kernel).verdict,
      Verdict::kUnsupported);
  kernel.info.capabilities.flags |= QKVET_FLAG_REENTRANT;
  fails_as<FakeExecutor>(kernel, "calls_at_once_change_nothing", text, {},
                         other_at_once);
  // Each of the three, the larger one among them.
  for (const int64_t keys : {5, 13})
    fails_as<FakeExecutor>(
        kernel, "calls_at_once_change_nothing", text, {},
        [keys](const KernelCall& call, OracleOutput& oracle, CallOutcome&) {
          if (call.at_once && call.shape.Tk == keys) oracle.o[0] += 1;
        });
}

// Three "threads" are orders only for kernels that take them. A kernel that
// only declares GPU threads, with an emulator of its own, is given numbers of
// threads.
TEST(ThreadsChangeNothing, OrdersAreNamedWhereAnEmulatorTakesThem) {
  const auto looks_of = [](uint64_t flags, bool orders) {
    JudgedKernel kernel = FakeExecutor::under_test().judged;
    kernel.info.capabilities.flags |= flags;
    kernel.info.orders_threads = orders;
    return fails_as<FakeExecutor>(
               kernel, "threads_change_nothing", "f32,B1,H1,Tq2,Tk3,d2", {},
               [](const KernelCall& call, OracleOutput& oracle, CallOutcome&) {
                 if (call.threads == 3) oracle.o[0] += 1;
               })
        .finding->looks;
  };
  constexpr char kDivided[] =
      "the work is divided so that parts are lost or raced for";
  EXPECT_EQ(looks_of(0, false), kDivided);
  EXPECT_EQ(looks_of(QKVET_FLAG_GPU_THREADS, false), kDivided);
  EXPECT_EQ(looks_of(0, true),
            "a barrier is missing (__syncthreads, __syncwarp), or threads race "
            "otherwise");
}

}  // namespace
}  // namespace qkvet::properties::law_test
