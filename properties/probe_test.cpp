// SPDX-License-Identifier: Apache-2.0
#include "properties/probe.h"

#include <gtest/gtest.h>

#include <cmath>

#include "properties/fake_executor.h"

namespace qkvet::probe_test {
namespace {

std::string text_of(const std::vector<Assumption>& assumed) {
  std::string text;
  for (const Assumption& one : assumed)
    text += one.field + "=" + one.constant + " ";
  return text;
}

// What the probes find for a kernel that answers like this.
std::string found(FakeExecutor::Answer answer, KernelInfo info) {
  FakeExecutor executor({}, std::move(answer));
  return text_of(probe_dialect(executor, 0, info));
}

// Every row without a key gets these.
FakeExecutor::Answer empty_rows(double o, double lse) {
  return [=](const KernelCall& call, OracleOutput& oracle, CallOutcome&) {
    for (size_t row = 0; row < oracle.visible.size(); ++row) {
      if (oracle.visible[row] > 0) continue;
      for (int64_t c = 0; c < call.shape.dv; ++c)
        oracle.o[row * static_cast<size_t>(call.shape.dv) +
                 static_cast<size_t>(c)] = o;
      oracle.lse[row] = lse;
    }
  };
}

TEST(Probe, FindsWhatTheKernelDoes) {
  EXPECT_EQ(found(empty_rows(0, -INFINITY), FakeExecutor::info()),
            "lse_base=QKVET_LSE_NATURAL empty_row=QKVET_EMPTY_ROW_ZERO "
            "empty_row_lse=QKVET_EMPTY_LSE_MINUS_INF ");
  EXPECT_EQ(found(empty_rows(NAN, INFINITY), FakeExecutor::info()),
            "lse_base=QKVET_LSE_NATURAL empty_row=QKVET_EMPTY_ROW_NAN "
            "empty_row_lse=QKVET_EMPTY_LSE_PLUS_INF ");
}

TEST(Probe, TellsBinaryFromNaturalLogarithms) {
  const auto base2 = [](const KernelCall&, OracleOutput& oracle, CallOutcome&) {
    for (double& lse : oracle.lse) lse /= std::log(2.0);
  };
  EXPECT_NE(found(base2, FakeExecutor::info()).find("lse_base=QKVET_LSE_BASE2"),
            std::string::npos);
}

TEST(Probe, SaysNothingWhereTheAnswerIsUnclear) {
  int calls = 0;
  const auto garbage = [&calls](const KernelCall& call, OracleOutput& oracle,
                                CallOutcome& outcome) {
    ++calls;
    empty_rows(calls, calls)(call, oracle, outcome);
    for (double& lse : oracle.lse) lse += 7;
  };
  EXPECT_EQ(found(garbage, FakeExecutor::info()), "");
}

TEST(Probe, AsksNothingThatIsDeclared) {
  KernelInfo info = FakeExecutor::info();
  info.dialect.lse_base = QKVET_LSE_NATURAL;
  info.dialect.empty_row = QKVET_EMPTY_ROW_UNSPECIFIED;
  info.dialect.empty_row_lse = QKVET_EMPTY_LSE_UNSPECIFIED;
  EXPECT_EQ(found(empty_rows(0, -INFINITY), info), "");
  KernelInfo without = FakeExecutor::info();
  without.capabilities.options &=
      ~(QKVET_OPTION_LSE | QKVET_OPTION_CROSS_LENGTHS);
  EXPECT_EQ(found(empty_rows(0, -INFINITY), without), "");
}

TEST(Probe, AKernelThatRefusesIsLeftAlone) {
  const auto refuses = [](const KernelCall&, OracleOutput&,
                          CallOutcome& outcome) {
    outcome.status = CallStatus::kUnsupported;
  };
  EXPECT_EQ(found(refuses, FakeExecutor::info()), "");
}

}  // namespace
}  // namespace qkvet::probe_test
