// SPDX-License-Identifier: Apache-2.0
// The described mistake of a failure must give all printed numbers, or be left
// out: each sentence is tested on kernels for which it is true and for which it
// is false.
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "properties/judging/law.h"
#include "properties/testing/fake_check.h"

namespace qkvet::properties::looks_test {
namespace {

using Answer = FakeExecutor::Answer;
using Question = FakeExecutor::Question;

std::string looks_of(const char* law, const char* text, Answer answer,
                     Question question = {}) {
  FakeExecutor executor(std::move(question), std::move(answer));
  const Judgement judgement = check(law, text, executor);
  EXPECT_EQ(judgement.verdict, Verdict::kFailed) << law << " " << text;
  return judgement.finding ? judgement.finding->looks : "no finding";
}

constexpr const char* kScale = "scale_is_one_over_sqrt_d";

// Row 0 is loaded as zeros: 0.5 for 0.935. The last row, in which a scale was
// measured, is right except for its rounding.
TEST(Looks, ARowOfZerosIsNoScale) {
  EXPECT_EQ(
      looks_of(kScale, "f32,B1,H1,Tq3,Tk2,d8,q=zero,k=zero,v=zero",
               [](const KernelCall& call, OracleOutput& out, CallOutcome&) {
                 for (int64_t c = 0; c < call.shape.dv; ++c)
                   out.o[static_cast<size_t>(c)] = 0.5;
               }),
      "");
}

// A row that sees one key fewer has some effective scale; so has any number.
TEST(Looks, ALostKeyIsNoScale) {
  const auto lost = [](KernelCall&, Problem& p) { --p.shape.Tk; };
  EXPECT_EQ(
      looks_of(kScale, "f32,B1,H1,Tq1,Tk17,d1,q=zero,k=zero,v=zero", {}, lost),
      "");
}

TEST(Looks, NoCausalRuleIsNoScale) {
  EXPECT_EQ(
      looks_of(kScale, "f32,B1,H1,Tq3,Tk3,d4,causal=tl,q=zero,k=zero,v=zero",
               {}, [](KernelCall&, Problem& p) { p.causal = Causal::kNone; }),
      "");
}

// Rows with two and with three keys agree on it.
TEST(Looks, AScaleOfAllRowsIsSaid) {
  EXPECT_EQ(
      looks_of(kScale, "f32,B1,H1,Tq3,Tk3,d4,causal=tl,q=zero,k=zero,v=zero",
               {}, [](KernelCall&, Problem& p) { p.scale *= 1.01; })
          .substr(0, 27),
      "an effective scale of 1.01 ");
  EXPECT_EQ(looks_of(kScale, "f32,B1,H3,Tq1,Tk3,d16,q=zero,k=zero,v=zero", {},
                     [](KernelCall&, Problem& p) { p.scale = 1; }),
            "an effective scale of 1: no scale at all");
}

constexpr const char* kFuture = "future_weights_are_zero";
constexpr const char* kLater =
    "a later key takes part: V is 1 there and 0 at every visible key";
constexpr const char* kFutureCase =
    "f32,B1,H1,Tq4,Tk4,d16,causal=br,q=zero,k=zero,v=zero";

TEST(Looks, ALaterKeyTakesPart) {
  EXPECT_EQ(looks_of(kFuture, kFutureCase, {},
                     [](KernelCall&, Problem& p) { p.causal = Causal::kNone; }),
            kLater);
}

// Two quarters of a tile are swapped: a row that sees keys of a step has no
// part of them.
TEST(Looks, AnotherPlaceIsNoLaterKey) {
  EXPECT_EQ(
      looks_of(
          kFuture, kFutureCase,
          [](const KernelCall& call, OracleOutput& out, CallOutcome&) {
            const int64_t half = call.shape.dv / 2;
            for (int64_t i = 0; i < 2; ++i)
              for (int64_t c = 0; c < half; ++c)
                std::swap(
                    out.o[static_cast<size_t>(i * call.shape.dv + half + c)],
                    out.o[static_cast<size_t>((i + 2) * call.shape.dv + c)]);
          }),
      "");
}

constexpr const char* kShifted = "shifted_keys_change_nothing";

// Without ALiBi both answers are wrong, and differ by their rounding.
TEST(Looks, TwoWrongAnswersTellNothingOfTheMaximum) {
  int call = 0;
  EXPECT_EQ(
      looks_of(kShifted, "f32,B1,H2,Tq1,Tk2,d2,k=lattice,v=onehot",
               [&call](const KernelCall&, OracleOutput& out, CallOutcome&) {
                 const double factor = call++ % 2 == 0 ? 0.5 : 0.5001;
                 for (double& o : out.o) o *= factor;
               }),
      "");
}

TEST(Looks, OverflowIsTheMaximum) {
  EXPECT_NE(looks_of(kShifted, "f32,B1,H1,Tq2,Tk3,d2,k=lattice,v=normal,seed=2",
                     [](const KernelCall&, OracleOutput& out, CallOutcome&) {
                       if (std::fabs(out.lse[0]) < 88) return;
                       for (double& o : out.o) o = std::nan("");
                     })
                .find("the maximum is not subtracted"),
            std::string::npos);
}

// Three padding keys of score 0 have almost no weight before the shift.
TEST(Looks, PaddingTakesPartWhereItGivesAllNumbers) {
  int call_number = 0;
  const auto padded = [&](const KernelCall& call, OracleOutput& out,
                          CallOutcome&) {
    if (call_number++ % 2 == 0) return;
    for (size_t n = 0; n < out.o.size(); ++n) {
      const double lse = out.lse[n / static_cast<size_t>(call.shape.dv)];
      if (std::fabs(lse) < 20) out.o[n] /= 1 + 3 * std::exp(-lse);
    }
  };
  int said = 0;
  for (int seed = 1; seed <= 40; ++seed) {
    FakeExecutor executor({}, padded);
    call_number = 0;
    const Judgement judgement = check(
        kShifted,
        "f32,B1,H1,Tq1,Tk3,d2,k=lattice,v=normal,seed=" + std::to_string(seed),
        executor);
    if (judgement.verdict != Verdict::kFailed) continue;
    const std::string& looks = judgement.finding->looks;
    EXPECT_TRUE(looks.empty() ||
                looks ==
                    "a key that does not exist takes part, with a score "
                    "of 0")
        << looks;
    said += !looks.empty();
  }
  EXPECT_GT(said, 0);
}

// An earlier call makes the contiguous call wrong as well.
TEST(Looks, AStrideIsAssumedWhereContiguousTensorsComeOutRight) {
  for (const bool is_contiguous_wrong : {true, false}) {
    int call = 0;
    EXPECT_EQ(
        looks_of("layout_changes_nothing", "f32,B1,H2,Tq2,Tk2,d2,layout=bthd",
                 [&](const KernelCall&, OracleOutput& out, CallOutcome&) {
                   if ((call++ % 2 == 1) != is_contiguous_wrong) return;
                   for (double& o : out.o) o += 1;
                 }),
        is_contiguous_wrong ? "" : "a stride is assumed and not read");
  }
}

// Rows with keys are right, and a row without a key has seen one.
TEST(Looks, ARowWithoutAKeyIsNoCountOfKeys) {
  EXPECT_EQ(looks_of("every_pair_is_seen_as_asked",
                     "f32,B1,H2,Tq1,Tk1,d1,mask=emptyrow.bqk,q=zero,k=zero,"
                     "v=count",
                     {}, [](KernelCall&, Problem& p) { p.mask = nullptr; }),
            "");
}

constexpr const char* kOnce = "every_key_counts_once";
constexpr const char* kOnceCase =
    "f32,B1,H1,Tq2,Tk5,d4,mask=but1,q=zero,k=zero,v=count";

TEST(Looks, KeysThatCountWronglyAreTold) {
  EXPECT_EQ(looks_of(kOnce, kOnceCase, {},
                     [](KernelCall&, Problem& p) { p.mask = nullptr; }),
            "hidden keys count as well");
  EXPECT_EQ(looks_of(kOnce, "f32,B1,H1,Tq2,Tk5,d4,q=zero,k=zero,v=count", {},
                     [](KernelCall&, Problem& p) { --p.shape.Tk; }),
            "a key is lost");
  EXPECT_EQ(looks_of(kOnce, "f32,B1,H1,Tq2,Tk5,d4,q=zero,k=zero,v=count",
                     [](const KernelCall&, OracleOutput& out, CallOutcome&) {
                       for (double& o : out.o) o *= 0.77;
                     }),
            "");
}

}  // namespace
}  // namespace qkvet::properties::looks_test
