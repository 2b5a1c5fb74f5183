// SPDX-License-Identifier: Apache-2.0
// Kernels that return one number, or so little that very different faults would
// return the same: the report names no cause, only the observation.
#include "diagnosis/bare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "diagnosis/kind.h"
#include "diagnosis/test_faults.h"
#include "properties/testing/fake_gradients.h"

namespace qkvet::diagnosis::bare_test {
namespace {

using Question = FakeExecutor::Question;
using Answer = FakeExecutor::Answer;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Answer filled(double number) {
  return [number](const KernelCall&, OracleOutput& out, CallOutcome&) {
    std::fill(out.o.begin(), out.o.end(), number);
  };
}

// o is `number` in calls for which this holds.
Answer filled_if(double number, bool (*wrong)(const KernelCall&)) {
  return
      [number, wrong](const KernelCall& call, OracleOutput& out, CallOutcome&) {
        if (wrong(call)) std::fill(out.o.begin(), out.o.end(), number);
      };
}

void first_value_row(const KernelCall& call, OracleOutput& out, CallOutcome&) {
  const Shape& s = call.shape;
  const auto v = stored_as_doubles(call.v, s.v_elements(), call.kv_dtype);
  for (int64_t row = 0; row < s.lse_elements(); ++row) {
    const int64_t head = kv_head_of(s, row);
    for (int64_t c = 0; c < s.dv; ++c)
      out.o[static_cast<size_t>(row * s.dv + c)] =
          v[static_cast<size_t>(head * s.Tk * s.dv + c)];
  }
}

// A mask of -inf is multiplied by the scale: with 0 it is NaN, with less than 0
// it is infinity, and only rows that see all keys are right.
void mask_times_scale(const KernelCall& call, OracleOutput& out, CallOutcome&) {
  const Shape& s = call.shape;
  if (!call.scale || *call.scale > 0) return;
  for (size_t row = 0; row < out.visible.size(); ++row)
    if (out.visible[row] < s.Tk)
      std::fill_n(out.o.begin() + static_cast<int64_t>(row) * s.dv, s.dv, kNaN);
}

struct Fake {
  const char* name;
  Answer answer;
  const char* like = "";  // options that all cases have; "": as planned
};

const std::vector<Fake>& fakes() {
  static const std::vector<Fake> all = {
      {"all_nan", filled(kNaN)},
      {"all_zero", filled(0)},
      {"all_a_half", filled(0.5)},
      {"first_value_row", first_value_row},
      {"nan_for_negative_scales",
       filled_if(kNaN,
                 [](const KernelCall& call) {
                   return call.scale && *call.scale < 0;
                 }),
       ",scale=-0.5"},
      {"mask_times_negative_scale", mask_times_scale, ",causal=tl,scale=-0.5"},
      {"mask_times_no_scale", mask_times_scale, ",causal=br,scale=0"},
      {"nan_unless_rows_fill_a_block", filled_if(kNaN,
                                                 [](const KernelCall& call) {
                                                   return call.shape.Tq % 64 !=
                                                          0;
                                                 })},
      {"zero_below_a_tile_of_keys",
       filled_if(0, [](const KernelCall& call) { return call.shape.Tk < 64; })},
      {"lse_is_zero", [](const KernelCall&, OracleOutput& out, CallOutcome&) {
         std::fill(out.lse.begin(), out.lse.end(), 0);
       }}};
  return all;
}

KernelUnderTest plain_fake() {
  KernelUnderTest kernel = FakeExecutor::under_test();
  kernel.judged.info.capabilities.options &=
      QKVET_OPTION_CAUSAL_TOP_LEFT | QKVET_OPTION_CAUSAL_BOTTOM_RIGHT |
      QKVET_OPTION_SCALE | QKVET_OPTION_DEFAULT_SCALE | QKVET_OPTION_LSE |
      QKVET_OPTION_GROUPED_HEADS | QKVET_OPTION_VALUE_WIDTH |
      QKVET_OPTION_CROSS_LENGTHS;
  return kernel;
}

const std::vector<const char*> kForward = {
    "weights_sum_to_one", "lse_counts_equal_keys", "agrees_with_oracle"};

Reported reported_of(const Fake& fake) {
  const KernelUnderTest kernel = plain_fake();
  const auto open = opening<FakeExecutor>(nullptr, fake.answer);
  const std::string like = fake.like;
  if (like.empty()) return report_on(kernel, open, kForward, 600);
  RunOptions options;
  options.laws = {find_law("agrees_with_oracle")};
  options.cases = 64;
  options.planned = [&like](int64_t number) {
    return *parse_case("f32,B1,H1,Tq5,Tk7,d8" + like +
                       ",seed=" + std::to_string(number))
                .value;
  };
  RunResult result = run_plan({kernel}, open, options);
  std::vector<Failure> failures;
  for (Cell& cell : result.kernels[0].cells)
    if (cell.failure) failures.push_back(std::move(*cell.failure));
  return report_on(std::move(failures), kernel, open, known_faults_for_test());
}

TEST(Bare, NoCauseIsNamedOfTenKernelsThatTellNothing) {
  ASSERT_EQ(fakes().size(), 10u);
  for (const Fake& fake : fakes()) {
    const Reported reported = reported_of(fake);
    ASSERT_FALSE(reported.causes.empty()) << fake.name;
    for (const CauseOfFailures& cause : reported.causes)
      EXPECT_EQ(cause.diagnosis.name(), "unknown")
          << fake.name << ": " << to_string(cause.best->smallest);
  }
}

TEST(Bare, WhatIsCertainIsSaid) {
  const auto seen = [](size_t n) {
    const Reported reported = reported_of(fakes()[n]);
    return reported.causes.empty() ? "" : reported.causes[0].diagnosis.seen;
  };
  EXPECT_EQ(seen(0),
            "every element of o is NaN, for every input that was tried");
  EXPECT_EQ(seen(1), "every element of o is 0, for every input that was tried");
  EXPECT_EQ(seen(3), "");
}

TEST(Bare, GradientsThatAreZeroOrNaNTellNothing) {
  for (const double number : {0.0, kNaN}) {
    const auto answer = [number](const KernelCall&, GradientOutput& out,
                                 CallOutcome&) {
      for (auto* gradient : {&out.q, &out.k, &out.v})
        std::fill(gradient->begin(), gradient->end(), number);
    };
    const auto open = opening<FakeGradients>(nullptr, answer);
    KernelUnderTest kernel = FakeGradients::under_test();
    kernel.judged.info.capabilities.options &=
        plain_fake().judged.info.capabilities.options;
    kernel.judged.info.backward_options = 0;
    const Reported reported =
        report_on(kernel, open, {"backward_agrees_with_oracle"}, 600);
    ASSERT_EQ(reported.causes.size(), 1u);
    const Diagnosis& diagnosis = reported.causes[0].diagnosis;
    EXPECT_EQ(diagnosis.name(), "unknown");
    EXPECT_NE(diagnosis.seen.find(number == 0 ? "is 0" : "is NaN"),
              std::string::npos)
        << diagnosis.seen;
  }
}

// The control: a known fault that is right only in calls with one number.
TEST(Bare, TheRightCauseIsStillNamed) {
  const FakeExecutor::Question unscaled = [](KernelCall&, Problem& p) {
    p.scale = 1;
    p.scale_given = true;
  };
  const Reported reported =
      report_on(plain_fake(), opening<FakeExecutor>(unscaled), kForward, 600);
  ASSERT_EQ(reported.causes.size(), 1u);
  EXPECT_EQ(reported.causes[0].diagnosis.name(), "no_scale");
  EXPECT_EQ(reported.causes[0].diagnosis.certainty, Certainty::kSure);
}

// Names of the known faults that the kernel can have.
std::set<std::string> possible(const JudgedKernel& kernel, Subject subject,
                               bool is_recorded = false) {
  KernelKind kind(kernel, is_recorded);
  std::set<std::string> names;
  for (FaultSuspect* fault : known_faults_for_test().about(subject))
    if (kind.can_have(fault->fault().info, subject))
      names.insert(fault->name());
  return names;
}

TEST(Kind, ThreadsOfAGpuAreAtFaultWhereThereAreSome) {
  JudgedKernel kernel = plain_fake().judged;
  const auto on_cpu = possible(kernel, Subject::kAttention);
  kernel.info.capabilities.flags |= QKVET_FLAG_GPU_THREADS;
  const auto on_gpu = possible(kernel, Subject::kAttention);
  for (const char* fault :
       {"shared_tile_read_early", "shared_tile_overwritten_early",
        "threads_leave_before_loading", "barrier_in_a_branch"}) {
    EXPECT_EQ(on_cpu.count(fault), 0u) << fault;
    EXPECT_EQ(on_gpu.count(fault), 1u) << fault;
  }
  for (const char* fault : {"tiles_of_first_row_alone", "no_scale"})
    EXPECT_EQ(on_cpu.count(fault), 1u) << fault;
}

TEST(Kind, WhatIsNotDeclaredIsNoCause) {
  JudgedKernel kernel = FakeExecutor::under_test().judged;
  const auto with_pages = possible(kernel, Subject::kAttention);
  kernel.info.capabilities.options &= ~uint64_t{
      QKVET_OPTION_PAGED | QKVET_OPTION_PAGED_CSR | QKVET_OPTION_APPEND};
  const auto without = possible(kernel, Subject::kAttention);
  EXPECT_LT(without.size(), with_pages.size());
  EXPECT_EQ(with_pages.count("serving_table_of_first_member"), 1u);
  for (const std::string& name : without)
    EXPECT_NE(name.rfind("serving_", 0), 0u) << name;
  // Faults that only gradients show are no cause of a forward failure either.
  for (const std::string& name : with_pages)
    EXPECT_NE(name.rfind("backward_", 0), 0u) << name;
}

// Recorded files do not show damage to memory, or what happens on a second
// call.
TEST(Kind, WhatFilesCannotShowIsNoCauseOfWhatTheyDo) {
  const JudgedKernel kernel = FakeExecutor::under_test().judged;
  const auto running = possible(kernel, Subject::kAttention);
  const auto recorded = possible(kernel, Subject::kAttention, true);
  for (const char* fault :
       {"parts_in_scratch_of_storage_size", "scratch_shared_by_calls",
        "scratch_tail_of_larger_call"}) {
    EXPECT_EQ(running.count(fault), 1u) << fault;
    EXPECT_EQ(recorded.count(fault), 0u) << fault;
  }
  for (const char* fault : {"no_scale", "softcap_sign_lost"})
    EXPECT_EQ(recorded.count(fault), 1u) << fault;
}

}  // namespace
}  // namespace qkvet::diagnosis::bare_test
