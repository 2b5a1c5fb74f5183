// SPDX-License-Identifier: Apache-2.0
// Stages of gradients: known faults with the stage that follows from their
// mechanism, each next to another that departs in another term, and some for
// which nothing may be reported.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "diagnosis/stage/further_stage.h"
#include "diagnosis/test_faults.h"
#include "properties/testing/fake_gradients.h"

namespace qkvet::diagnosis::gradient_stage_test {
namespace {

struct Known {
  const char* fault;
  Stage stage;
};
void PrintTo(const Known& row, std::ostream* out) { *out << row.fault; }

class Gradients : public testing::TestWithParam<Known> {};

TEST_P(Gradients, HaveTheStageOfTheirMechanism) {
  const Known& known = GetParam();
  const Opened opened = open_for_test(QKVET_FAULTY);
  ASSERT_NE(opened.executor, nullptr) << opened.error;
  const KernelUnderTest kernel = fault_for_test(*opened.executor, known.fault);
  const std::vector<Failure> failures = failures_for_test(
      kernel, open_faults, {find_law("backward_agrees_with_oracle")}, 2000);
  ASSERT_FALSE(failures.empty());
  TimeUse time;
  int calls = 0;
  const Stage stage = look_further_for_stage(
      failures[0], {}, {}, {kernel, *opened.executor, time}, &calls);
  EXPECT_LE(calls, kMostStageCalls);
  EXPECT_STREQ(stage_name(stage), stage_name(known.stage))
      << to_string(failures[0].smallest);
}

INSTANTIATE_TEST_SUITE_P(
    Stages, Gradients,
    testing::Values(
        Known{"backward_delta_missing", Stage::kGradientDelta},
        Known{"backward_key_scale_missing", Stage::kGradientDK},
        Known{"backward_softcap_slope_missing", Stage::kGradientScores},
        Known{"backward_sink_sign", Stage::kGradientDSink},
        Known{"backward_lse_taken_for_base_2", Stage::kGradientWeights},
        Known{"backward_future_keys_get_gradient", Stage::kKeys},
        Known{"backward_mask_forgotten", Stage::kKeys},
        Known{"backward_last_keys_missing", Stage::kKeys},
        Known{"backward_values_of_other_head", Stage::kGradientHeads},
        Known{"backward_group_index_square", Stage::kGradientHeads},
        Known{"backward_group_keeps_last_head", Stage::kGradientHeads},
        Known{"backward_tile_of_other_product", Stage::kGradientDV},
        Known{"backward_empty_row_nan", Stage::kEmptyRows}));

// dq and dk of other numbers for dS; dv is right.
template <class Change>
GradientOutput with_scores(const GradientProblem& problem, Change change) {
  GradientOutput out = plain_backward(problem);
  const Problem& p = problem.forward;
  const Shape& s = p.shape;
  const OracleOutput forward = plain_forward(p);
  std::fill(out.q.begin(), out.q.end(), 0);
  std::fill(out.k.begin(), out.k.end(), 0);
  for (int64_t row = 0; row < s.B * s.H * s.Tq; ++row)
    for (int64_t j = 0; j < s.Tk; ++j) {
      const auto pair = static_cast<size_t>(row * s.Tk + j);
      if (forward.sees[pair] == 0) continue;
      const int64_t head = row / s.Tq;
      const int64_t key =
          (head / s.H * s.Hkv + head % s.H / s.group()) * s.Tk + j;
      const double ds = p.scale * change(forward.weights[pair], out.bias[pair]);
      for (int64_t c = 0; c < s.d; ++c) {
        out.q[static_cast<size_t>(row * s.d + c)] += ds * p.k[key * s.d + c];
        out.k[static_cast<size_t>(key * s.d + c)] += ds * p.q[row * s.d + c];
      }
    }
  return out;
}

Stage stage_of(
    const std::function<GradientOutput(const GradientProblem&)>& backward) {
  KernelUnderTest kernel = FakeGradients::under_test();
  kernel.judged.info.capabilities.options &= ~uint64_t{QKVET_OPTION_SOFTCAP};
  const auto made = [&] {
    auto executor = std::make_unique<FakeGradients>();
    executor->backward = backward;
    return executor;
  };
  const std::vector<Failure> failures = failures_for_test(
      kernel,
      [&](size_t) {
        return Opened{made(), ""};
      },
      {find_law("backward_agrees_with_oracle")}, 2000);
  EXPECT_FALSE(failures.empty());
  if (failures.empty()) return Stage::kUnknown;
  TimeUse time;
  int calls = 0;
  return look_further_for_stage(failures[0], {}, {}, {kernel, *made(), time},
                                &calls);
}

// dP of values in another order of keys, with its sum as delta. If weights
// count twice, only they depart, and nothing is reported.
TEST(GradientStage, WhatDepartsFromPairToPairAtEqualWeightsIsTheirGradient) {
  EXPECT_STREQ(stage_name(stage_of([](const GradientProblem& problem) {
                 const Shape& s = problem.forward.shape;
                 std::vector<double> v(problem.forward.v,
                                       problem.forward.v + s.v_elements());
                 for (int64_t head = 0; head < s.B * s.Hkv; ++head)
                   std::rotate(
                       v.begin() + head * s.Tk * s.dv,
                       v.begin() + head * s.Tk * s.dv + (s.Tk > 1 ? s.dv : 0),
                       v.begin() + (head + 1) * s.Tk * s.dv);
                 GradientProblem other = problem;
                 other.forward.v = v.data();
                 GradientOutput out = plain_backward(other);
                 out.v = plain_backward(problem).v;
                 return out;
               })),
               "d_weights");
  EXPECT_STREQ(stage_name(stage_of([](const GradientProblem& problem) {
                 return with_scores(problem, [](double weight, double ds) {
                   return ds * weight;
                 });
               })),
               "");
}

}  // namespace
}  // namespace qkvet::diagnosis::gradient_stage_test
