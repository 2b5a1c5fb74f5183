// SPDX-License-Identifier: Apache-2.0
// Kernels with uncatalogued mistakes, which the diagnosis must report as
// unknown; and correct kernels, for which it must report nothing.
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/at_night.h"
#include "diagnosis/test_faults.h"
#include "properties/testing/fake_executor.h"

namespace qkvet::diagnosis::strange_test {
namespace {

using Question = FakeExecutor::Question;
using Answer = FakeExecutor::Answer;

struct Strange {
  const char* name;
  Question question;
  Answer answer;
};

// f(b, h, i, c, &o[b,h,i,c])
template <class F>
Answer on_outputs(F f) {
  return [f](const KernelCall& call, OracleOutput& out, CallOutcome&) {
    const Shape& s = call.shape;
    size_t n = 0;
    for (int64_t b = 0; b < s.B; ++b)
      for (int64_t h = 0; h < s.H; ++h)
        for (int64_t i = 0; i < s.Tq; ++i)
          for (int64_t c = 0; c < s.dv; ++c) f(b, h, i, c, out.o[n++]);
  };
}

const std::vector<Strange>& strange_kernels() {
  static const std::vector<Strange> all = {
      {"outputs_grow_with_the_row", nullptr,
       on_outputs([](auto, auto, int64_t i, auto, double& o) {
         o *= 1 + 0.01 * static_cast<double>(i % 3);
       })},
      {"odd_channels_lose_a_percent", nullptr,
       on_outputs([](auto, auto, auto, int64_t c, double& o) {
         if (c % 2 == 1) o *= 0.99;
       })},
      {"outputs_gain_a_constant", nullptr,
       on_outputs([](auto, auto, auto, auto, double& o) { o += 0.125; })},
      {"outputs_are_cubed", nullptr,
       on_outputs([](auto, auto, auto, auto, double& o) { o = o * o * o; })},
      {"second_heads_answer_with_the_sine", nullptr,
       on_outputs([](auto, int64_t h, auto, auto, double& o) {
         if (h % 2 == 1) o = std::sin(o);
       })},
      {"scale_by_the_number_of_keys",
       [](KernelCall&, Problem& p) {
         p.scale /= std::log2(1 + static_cast<double>(p.shape.Tk));
         p.scale_given = true;
       },
       nullptr},
      {"scale_by_the_number_of_queries",
       [](KernelCall&, Problem& p) {
         p.scale *= 1 + 0.25 * static_cast<double>(p.shape.Tq % 3);
         p.scale_given = true;
       },
       nullptr},
      {"lse_counts_the_channels", nullptr,
       [](const KernelCall& call, OracleOutput& out, CallOutcome&) {
         for (double& lse : out.lse)
           lse += std::log(1 + static_cast<double>(call.shape.d));
       }},
      {"outputs_are_a_grid_of_eighths", nullptr,
       on_outputs([](auto, auto, auto, auto, double& o) {
         o = std::round(8 * o) / 8;
       })},
      {"members_mix_in_their_number", nullptr,
       on_outputs([](int64_t b, auto, auto, auto, double& o) {
         o += 0.0625 * static_cast<double>(b + 1);
       })}};
  return all;
}

const std::vector<const char*> kLaws = {
    "weights_sum_to_one", "scale_is_one_over_sqrt_d", "lse_counts_equal_keys",
    "rows_stay_in_hull", "agrees_with_oracle"};

KernelUnderTest plain_fake() {
  KernelUnderTest kernel = FakeExecutor::under_test();
  kernel.judged.info.capabilities.options &=
      QKVET_OPTION_CAUSAL_TOP_LEFT | QKVET_OPTION_CAUSAL_BOTTOM_RIGHT |
      QKVET_OPTION_SCALE | QKVET_OPTION_DEFAULT_SCALE | QKVET_OPTION_LSE |
      QKVET_OPTION_GROUPED_HEADS | QKVET_OPTION_VALUE_WIDTH |
      QKVET_OPTION_CROSS_LENGTHS;
  return kernel;
}

TEST(Strange, TenKernelsOutsideOfTheCatalogueAreUnknown) {
  ASSERT_EQ(strange_kernels().size(), 10u);
  const KernelUnderTest kernel = plain_fake();
  for (const Strange& strange : strange_kernels()) {
    const Reported reported = report_on(
        kernel, opening<FakeExecutor>(strange.question, strange.answer), kLaws,
        600);
    ASSERT_FALSE(reported.failures.empty()) << strange.name;
    for (const CauseOfFailures& cause : reported.causes)
      EXPECT_EQ(cause.diagnosis.name(), "unknown")
          << strange.name << ": " << to_string(cause.best->smallest);
  }
}

Reported reported_of(const FakeExecutor::Question& question) {
  return report_on(plain_fake(), opening<FakeExecutor>(question), kLaws, 600);
}

// The control of the test above: a known fault is recognised the same way.
TEST(Strange, AKnownFaultAmongThemIsKnown) {
  const Reported reported = reported_of([](KernelCall&, Problem& p) {
    p.scale = 1;
    p.scale_given = true;
  });
  ASSERT_EQ(reported.causes.size(), 1u);
  const CauseOfFailures& cause = reported.causes[0];
  EXPECT_EQ(cause.diagnosis.name(), "no_scale");
  EXPECT_EQ(cause.diagnosis.certainty, Certainty::kSure);
  EXPECT_EQ(cause.others.size(), reported.failures.size() - 1);
}

// If several failures have no known cause, the first that fails every time
// represents them: damaged memory makes some cases fail because of earlier
// ones.
TEST(Strange, ASteadyFailureStandsForTheOthers) {
  const KernelUnderTest kernel = plain_fake();
  const Strange& strange = strange_kernels()[0];
  const auto open = opening<FakeExecutor>(strange.question, strange.answer);
  std::vector<Failure> failures =
      failures_for_test(kernel, open, laws_for_test(kLaws), 600);
  ASSERT_GE(failures.size(), 2u);
  for (const bool is_steady : {true, false}) {
    if (!is_steady) failures[0].repeats_failed = 0;
    TimeUse time;
    const Opened executor = open(0);
    const auto causes =
        diagnose_all(pointers_to(failures), kernel, *executor.executor,
                     known_faults_for_test(), time);
    ASSERT_EQ(causes.size(), 1u);
    EXPECT_EQ(causes[0].best, &failures[is_steady ? 0 : 1]);
  }
}

// A kernel that uses a given scale correctly has another mistake than the known
// fault. All its failures have no scale, so only cases in which the known fault
// fails distinguish the two.
TEST(Strange, APartOfAKnownFaultIsAnother) {
  const Reported reported = reported_of([](KernelCall&, Problem& p) {
    if (!p.scale_given) p.scale = 1;
    p.scale_given = true;
  });
  ASSERT_FALSE(reported.failures.empty());
  for (const CauseOfFailures& cause : reported.causes)
    EXPECT_NE(cause.diagnosis.name(), "no_scale")
        << to_string(cause.best->smallest);
}

// The other way round: a kernel with scores of 0 fails if no scale is given, as
// a known fault does, and everywhere else.
TEST(Strange, MoreThanAKnownFaultIsAnother) {
  const Reported reported = reported_of([](KernelCall&, Problem& p) {
    p.scale = 0;
    p.scale_given = true;
  });
  ASSERT_FALSE(reported.failures.empty());
  for (const CauseOfFailures& cause : reported.causes)
    EXPECT_EQ(cause.diagnosis.name(), "unknown")
        << to_string(cause.best->smallest);
}

// A correct kernel with failures that are not its own is not diagnosed.
TEST(Strange, ACorrectKernelHasNoCause) {
  const Opened faults = open_for_test(QKVET_FAULTY);
  const Opened controls = open_for_test(QKVET_CONTROLS);
  ASSERT_NE(controls.executor, nullptr) << controls.error;
  const KernelUnderTest fault = kernels_for_test(*faults.executor)[0];
  const std::vector<Failure> failures = failures_for_test(
      fault, open_faults, {find_law("agrees_with_oracle")}, 200);
  ASSERT_EQ(failures.size(), 1u) << fault.judged.info.name;
  const Case& failing = failures[0].smallest;
  int asked = 0;
  for (const KernelUnderTest& control : kernels_for_test(*controls.executor)) {
    const KernelInfo& info = control.judged.info;
    if (!info.has_forward ||
        !is_sampled(static_cast<size_t>(control.index), 18))
      continue;
    TimeUse time;
    const Diagnosis diagnosis =
        diagnose(failures[0], control, *controls.executor,
                 known_faults_for_test(), time);
    EXPECT_EQ(diagnosis.name(), "unknown") << info.name;
    EXPECT_EQ(diagnosis.failing, 0) << info.name;
    // Other kernels do not take the case.
    if (!takes_dtype(info, failing.q_dtype) ||
        info.has_flag(QKVET_FLAG_PAGES_ONLY))
      continue;
    EXPECT_GT(diagnosis.probes, 0) << info.name;
    ++asked;
  }
  EXPECT_GT(asked, 0);
}

}  // namespace
}  // namespace qkvet::diagnosis::strange_test
