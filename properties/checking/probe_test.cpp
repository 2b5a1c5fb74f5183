// SPDX-License-Identifier: Apache-2.0
#include "properties/checking/probe.h"

#include <gtest/gtest.h>

#include <cmath>

#include "properties/conventions/domain.h"
#include "properties/testing/fake_executor.h"
#include "properties/testing/fake_tables.h"

namespace qkvet::properties::probe_test {
namespace {

std::string text_of(const std::vector<Assumption>& assumed) {
  std::string text;
  for (const Assumption& one : assumed)
    text += one.field + "=" + one.constant + " ";
  return text;
}

// The probes' result for a kernel that answers like this.
std::string found(FakeExecutor::Answer answer, KernelInfo info) {
  FakeExecutor executor({}, std::move(answer));
  return text_of(probe_dialect(executor, 0, info));
}

// Rows without a key that sees none for one of these reasons get these.
using Reason = bool (*)(const KernelCall&);
bool any_reason(const KernelCall&) { return true; }
bool by_mask(const KernelCall& call) { return call.mask != nullptr; }

FakeExecutor::Answer empty_rows(double o, double lse,
                                Reason reason = any_reason) {
  return [=](const KernelCall& call, OracleOutput& oracle, CallOutcome&) {
    if (!reason(call)) return;
    for (size_t row = 0; row < oracle.visible.size(); ++row) {
      if (oracle.visible[row] > 0) continue;
      for (int64_t c = 0; c < call.shape.dv; ++c)
        oracle.o[row * static_cast<size_t>(call.shape.dv) +
                 static_cast<size_t>(c)] = o;
      oracle.lse[row] = lse;
    }
  };
}

// The probes' result for a kernel that computes the same as the oracle.
const std::string kUsual =
    "lse_base=QKVET_LSE_NATURAL softcap_order=QKVET_SOFTCAP_BEFORE_MASK "
    "sink_in_lse=QKVET_SINK_IN_LSE "
    "ranges_and_window=QKVET_RANGES_OVER_WINDOW ";

TEST(Probe, FindsWhatTheKernelDoes) {
  EXPECT_EQ(found(empty_rows(0, -INFINITY), FakeExecutor::info()),
            kUsual +
                "empty_row=QKVET_EMPTY_ROW_ZERO "
                "empty_row_lse=QKVET_EMPTY_LSE_MINUS_INF ");
  EXPECT_EQ(found(empty_rows(NAN, INFINITY), FakeExecutor::info()),
            kUsual +
                "empty_row=QKVET_EMPTY_ROW_NAN "
                "empty_row_lse=QKVET_EMPTY_LSE_PLUS_INF ");
}

TEST(Probe, TellsBinaryFromNaturalLogarithms) {
  const auto base2 = [](const KernelCall&, OracleOutput& oracle, CallOutcome&) {
    for (double& lse : oracle.lse) lse /= std::log(2.0);
  };
  const std::string text = found(base2, FakeExecutor::info());
  EXPECT_NE(text.find("lse_base=QKVET_LSE_BASE2"), std::string::npos);
  EXPECT_NE(text.find("sink_in_lse=QKVET_SINK_IN_LSE"), std::string::npos);
}

TEST(Probe, TellsWhereTheCapAndTheSinkCount) {
  KernelInfo info = FakeExecutor::info();
  const auto other = [](KernelCall&, Problem& p) {
    p.softcap_after_bias = true;
    p.sink_in_lse = false;
  };
  const std::string told =
      "softcap_order=QKVET_SOFTCAP_AFTER_MASK "
      "sink_in_lse=QKVET_SINK_NOT_IN_LSE";
  // Tested with a bias, and without one by ALiBi.
  for (const uint64_t without : {uint64_t{0}, QKVET_OPTION_BIAS}) {
    info.capabilities.options &= ~without;
    FakeExecutor executor(other);
    KernelInfo asked = info;
    const std::string text = text_of(probe_dialect(executor, 0, asked));
    EXPECT_NE(text.find(told), std::string::npos) << text;
    EXPECT_EQ(asked.dialect.softcap_order, QKVET_SOFTCAP_AFTER_MASK);
  }
}

// The same for caches; calls of forward() do not show it.
TEST(Probe, TellsWhereTheCapAndTheSinkOfACacheCount) {
  KernelInfo info = FakeTables::info();
  info.has_layer = false;
  info.cache_options |= FakeTables::kScores;
  FakeTables usual;
  KernelInfo asked = info;
  EXPECT_EQ(text_of(probe_dialect(usual, 0, asked)),
            "softcap_order=QKVET_SOFTCAP_BEFORE_MASK "
            "sink_in_lse=QKVET_SINK_IN_LSE ");
  Spoil spoil;
  spoil.question = [](Problem& p) {
    p.softcap_after_bias = true;
    p.sink_in_lse = false;
  };
  for (const uint64_t without : {uint64_t{0}, QKVET_CACHE_BIAS}) {
    FakeTables other(spoil);
    asked = info;
    asked.cache_options &= ~without;
    EXPECT_EQ(text_of(probe_dialect(other, 0, asked)),
              "softcap_order=QKVET_SOFTCAP_AFTER_MASK "
              "sink_in_lse=QKVET_SINK_NOT_IN_LSE ");
  }
  asked = info;
  asked.cache_options &= ~FakeTables::kScores;
  EXPECT_EQ(text_of(probe_dialect(usual, 0, asked)), "");
}

// Each reason has its own answer, and only those that differ are named.
TEST(Probe, TellsWhyARowIsEmpty) {
  EXPECT_EQ(found(empty_rows(0, INFINITY, by_mask), FakeExecutor::info()),
            kUsual +
                "empty_row=QKVET_EMPTY_ROW_NAN "
                "empty_row_by_mask=QKVET_EMPTY_ROW_ZERO "
                "empty_row_lse=QKVET_EMPTY_LSE_MINUS_INF "
                "empty_row_lse_by_mask=QKVET_EMPTY_LSE_PLUS_INF ");
  const auto longer = [](const KernelCall& call) {
    return call.kv_len != nullptr || call.shape.Tk == 0;
  };
  EXPECT_EQ(found(empty_rows(0, -INFINITY, longer), FakeExecutor::info()),
            kUsual +
                "empty_row=QKVET_EMPTY_ROW_NAN "
                "empty_row_by_length=QKVET_EMPTY_ROW_ZERO "
                "empty_row_by_extent=QKVET_EMPTY_ROW_ZERO "
                "empty_row_lse=QKVET_EMPTY_LSE_MINUS_INF ");
}

// Weights of hidden keys: all equal, or a softmax of scores to which a finite
// -1e9 was added. Over one key both give its value.
TEST(Probe, AMeanIsNoSoftmaxOfHiddenScores) {
  const auto weighing = [](bool all) {
    return [all](const KernelCall& call, OracleOutput& oracle, CallOutcome&) {
      const Shape& s = call.shape;
      const auto v = stored_as_doubles(call.v, s.v_elements(), call.kv_dtype);
      for (size_t row = 0; s.Tk > 0 && row < oracle.visible.size(); ++row) {
        if (oracle.visible[row] > 0) continue;
        oracle.o[row] = all ? (v[0] + v[1] + v[2]) / 3 : v[2];
      }
    };
  };
  KernelInfo info = FakeExecutor::info();
  info.capabilities.options &=
      ~(QKVET_OPTION_LENGTHS | QKVET_OPTION_EMPTY_EXTENTS);
  EXPECT_NE(found(weighing(true), info).find("empty_row=QKVET_EMPTY_ROW_MEAN"),
            std::string::npos);
  EXPECT_EQ(found(weighing(false), info).find("empty_row="), std::string::npos);
}

TEST(Probe, SaysNothingWhereTheAnswerIsUnclear) {
  int calls = 0;
  const auto garbage = [&calls](const KernelCall& call, OracleOutput& oracle,
                                CallOutcome& outcome) {
    ++calls;
    empty_rows(calls, calls)(call, oracle, outcome);
    for (double& o : oracle.o) o += 7;
    for (double& lse : oracle.lse) lse += 70;
  };
  EXPECT_EQ(found(garbage, FakeExecutor::info()), "");
}

TEST(Probe, AsksNothingThatIsDeclared) {
  KernelInfo info = FakeExecutor::info();
  info.dialect.lse_base = QKVET_LSE_NATURAL;
  info.dialect.softcap_order = QKVET_SOFTCAP_AFTER_MASK;
  info.dialect.sink_in_lse = QKVET_SINK_NOT_IN_LSE;
  info.dialect.ranges_and_window = QKVET_RANGES_IN_WINDOW;
  info.dialect.empty_row = QKVET_EMPTY_ROW_UNSPECIFIED;
  info.dialect.empty_row_lse = QKVET_EMPTY_LSE_UNSPECIFIED;
  EXPECT_EQ(found(empty_rows(0, -INFINITY), info), "");
  KernelInfo without = FakeExecutor::info();
  without.capabilities.options &=
      ~(QKVET_OPTION_LSE | QKVET_OPTION_CROSS_LENGTHS | QKVET_OPTION_MASK |
        QKVET_OPTION_BIAS | QKVET_OPTION_ALIBI | QKVET_OPTION_LENGTHS |
        QKVET_OPTION_FULL_RANGES);
  EXPECT_EQ(found(empty_rows(0, -INFINITY), without), "");
}

// A wrong declaration of one reason is for the laws to see.
TEST(Probe, WhatIsDeclaredOfOneReasonStays) {
  KernelInfo info = FakeExecutor::info();
  info.dialect.empty_row_by_length = QKVET_EMPTY_ROW_MEAN;
  info.dialect.empty_row_lse_by_mask = QKVET_EMPTY_LSE_PLUS_INF;
  FakeExecutor executor({}, empty_rows(0, -INFINITY, by_mask));
  const std::string text = text_of(probe_dialect(executor, 0, info));
  EXPECT_EQ(text.find("empty_row_by_length"), std::string::npos) << text;
  EXPECT_EQ(text.find("empty_row_lse_by_mask"), std::string::npos) << text;
  EXPECT_NE(text.find("empty_row_by_mask=QKVET_EMPTY_ROW_ZERO"),
            std::string::npos)
      << text;
  EXPECT_EQ(info.dialect.empty_row_by_length, QKVET_EMPTY_ROW_MEAN);
  EXPECT_EQ(info.dialect.empty_row_lse_by_mask, QKVET_EMPTY_LSE_PLUS_INF);
}

TEST(Probe, AKernelThatRefusesIsLeftAlone) {
  const auto refuses = [](const KernelCall&, OracleOutput&,
                          CallOutcome& outcome) {
    outcome.status = CallStatus::kUnsupported;
  };
  EXPECT_EQ(found(refuses, FakeExecutor::info()), "");
}

// The limit on a hang follows from it, in a run and in a replay alike.
TEST(Probe, ThePaceIsThatOfTheFasterCall) {
  int calls = 0;
  FakeExecutor slow({}, [&calls](const KernelCall& call, OracleOutput&,
                                 CallOutcome& outcome) {
    if (call.shape.Tk >= 48) outcome.seconds = ++calls == 1 ? 3 : 0.5;
    if (call.shape.B == 48) outcome.seconds = 4.8;
  });
  JudgedKernel kernel = FakeExecutor::under_test().judged;
  probe_dialect(slow, 0, kernel.info, &kernel.pace);
  EXPECT_EQ(calls, 2);
  EXPECT_DOUBLE_EQ(kernel.pace.row, 0.1);
  EXPECT_GT(kernel.pace.product, 0);

  const ParsedCase parsed = parse_case("f32,B1,H1,Tq48,Tk96,d1");
  ASSERT_TRUE(parsed.value) << parsed.error;
  TimeUse time;
  CaseWork work(*find_law("weights_sum_to_one"),
                constrained(*find_law("weights_sum_to_one"), *parsed.value),
                /*with_twin=*/false, time);
  const std::vector<KernelCall> asked = work.calls_for(kernel);
  ASSERT_FALSE(asked.empty());
  EXPECT_DOUBLE_EQ(asked[0].expected_seconds, 4.8 + 1);  // twice the products

  // A kernel that does not answer has none.
  FakeExecutor dies({},
                    [](const KernelCall&, OracleOutput&, CallOutcome& outcome) {
                      outcome.status = CallStatus::kHang;
                    });
  Pace pace = {1, 1};
  probe_dialect(dies, 0, kernel.info, &pace);
  EXPECT_EQ(pace.row + pace.product, 0);
}

}  // namespace
}  // namespace qkvet::properties::probe_test
