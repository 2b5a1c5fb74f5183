// SPDX-License-Identifier: Apache-2.0
// Every fault of a gradient is a fault: it is off where its trigger says so,
// has the bits of its skeleton elsewhere, and its forward() is right. The
// skeleton without a fault is scalar/plain.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "impl/testing/backward_fixture.h"

namespace qkvet::impl::backward_faults_test {
namespace {

// Every extent its own, grouped heads, more rows than one tile of 4.
Problem grouped() {
  return {.batch = 2,
          .heads = 6,
          .kv_heads = 2,
          .queries = 7,
          .keys = 9,
          .width = 4,
          .value_width = 8};
}

Asked changed(const std::function<void(Asked&)>& change, uint64_t options = 0) {
  Asked asked;
  asked.problem = grouped();
  asked.options = options;
  change(asked);
  return asked;
}

Asked with(uint64_t options) {
  return changed([](Asked&) {}, options);
}

struct FaultRow {
  const char* name;
  Asked trigger;
  std::vector<Asked> harmless;
  int32_t threads = 1;
};

// Those whose trigger has a test of its own below: bias, memory, order, size.
bool has_own_test(const std::string& name) {
  return name == "backward_lse_exponentiated_alone" ||
         name == "backward_writes_whole_lanes" ||
         name == "backward_order_not_kept" ||
         name == "backward_small_gradients_flushed" ||
         name.starts_with("dropout_");
}

std::vector<FaultRow> rows() {
  const Asked plain = with(0);
  const auto one_scale = changed([](Asked& a) {
    a.problem.scale_given = true;
    a.problem.scale = 1;
  });
  const auto whole_tile = changed([](Asked& a) { a.problem.keys = 8; });
  const auto equal_widths = changed([](Asked& a) { a.problem.width = 8; });
  const auto odd_values = changed([](Asked& a) { a.problem.value_width = 7; });
  const auto square = changed([](Asked& a) { a.problem.heads = 4; });
  const auto one_head = changed([](Asked& a) { a.problem.kv_heads = 1; });
  const auto ungrouped = changed([](Asked& a) { a.problem.heads = 2; });
  const auto lengths = [](std::vector<int64_t> rows) {
    return changed([&](Asked& a) { a.q_len = std::move(rows); },
                   QKVET_OPTION_LENGTHS);
  };
  const auto causal =
      changed([](Asked& a) { a.problem.causal = QKVET_CAUSAL_BOTTOM_RIGHT; });
  const auto empty_rows = changed([](Asked& a) {
    a.problem.causal = QKVET_CAUSAL_BOTTOM_RIGHT;
    a.problem.keys = 5;
  });
  const auto one_row_a_key = changed([](Asked& a) {
    a.problem.queries = 1;
    a.problem.heads = 2;
  });
  return {
      {"backward_delta_missing", plain, {}},
      {"backward_key_scale_missing", plain, {one_scale}},
      {"backward_last_keys_missing", plain, {whole_tile}},
      {"backward_tile_of_other_product", plain, {equal_widths}},
      {"backward_store_width_of_other_head", odd_values, {plain}},
      {"backward_padding_rows_reach_keys",
       lengths({5, 6}),
       {plain, lengths({4, 7})}},
      {"backward_no_queries_nan", lengths({0, 7}), {plain, lengths({1, 2})}},
      {"backward_empty_row_nan", empty_rows, {plain, causal}},
      {"backward_lse_exponentiated_alone", plain, {plain}},
      {"backward_group_index_square", plain, {square, one_head}},
      {"backward_writes_whole_lanes", plain, {plain}},
      {"backward_order_not_kept", plain, {one_row_a_key}},
      {"backward_future_keys_get_gradient", causal, {plain}},
      {"backward_mask_forgotten", with(QKVET_OPTION_MASK), {plain}},
      {"backward_values_of_other_head", plain, {one_head, ungrouped}},
      {"backward_group_keeps_last_head", plain, {ungrouped}},
      {"backward_softcap_slope_missing", with(QKVET_OPTION_SOFTCAP), {plain}},
      {"backward_sink_sign", with(QKVET_OPTION_SINK), {plain}},
      {"backward_lse_taken_for_base_2", plain, {}},
      {"backward_threads_race_for_dq", plain, {plain}, 3},
      {"backward_small_gradients_flushed", plain, {}},
      {"dropout_mask_differs_in_backward", plain, {plain}},
      {"dropout_gradient_of_dropped_weights", plain, {plain}}};
}

const qkvet_kernel* fault_named(const char* name) {
  return find_kernel(std::string("faulty/") + name);
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// A fault without a row is left to the laws that it names.
TEST(BackwardFaults, AreThere) {
  EXPECT_GE(differentiable(/*faulty=*/true).size(), rows().size());
  for (const FaultRow& row : rows()) {
    ASSERT_NE(fault_named(row.name), nullptr) << row.name;
  }
}

TEST(BackwardFaults, AreOffInTheirTrigger) {
  for (const FaultRow& row : rows()) {
    if (has_own_test(row.name)) {
      continue;
    }
    GradientCall call(row.trigger, Storage::kF32);
    const GradientAnswer answer =
        run_backward(fault_named(row.name), &call, row.threads);
    ASSERT_EQ(answer.status, QKVET_OK) << row.name << " " << answer.reason;
    EXPECT_NE(first_error(answer.outputs, truth_of(call)), -1) << row.name;
    const GradientAnswer right =
        run_backward(find_kernel("scalar/plain"), &call, row.threads);
    EXPECT_EQ(first_error(right.outputs, truth_of(call)), -1) << row.name;
  }
}

TEST(BackwardFaults, EqualTheSkeletonOutsideOfTheirTrigger) {
  int compared = 0;
  for (const FaultRow& row : rows()) {
    for (const Asked& harmless : row.harmless) {
      GradientCall call(harmless, Storage::kF32);
      const std::vector<float> right =
          run_backward(find_kernel("scalar/plain"), &call).outputs;
      const GradientAnswer answer = run_backward(fault_named(row.name), &call);
      EXPECT_EQ(answer.status, QKVET_OK) << row.name << " " << answer.reason;
      EXPECT_TRUE(same_bits(answer.outputs, right)) << row.name;
      ++compared;
    }
  }
  EXPECT_GE(compared, 20);
}

TEST(BackwardFaults, TheirForwardIsRight) {
  for (const FaultRow& row : rows()) {
    OptionCall call(row.trigger, Storage::kF32);
    ASSERT_EQ(
        OpenKernel(find_kernel("controls/option_hooks")).forward(call.args()),
        QKVET_OK);
    const std::vector<float> right = call.outputs();
    ASSERT_EQ(OpenKernel(fault_named(row.name)).forward(call.args()), QKVET_OK);
    EXPECT_TRUE(same_bits(call.outputs(), right)) << row.name;
  }
}

// One query whose scores are far below 0: exp of them is 0, that of -lse
// infinite.
TEST(BackwardFaults, ASingleQueryOfLowScores) {
  const Asked asked =
      changed([](Asked& a) { a.problem.queries = 1; }, QKVET_OPTION_BIAS);
  GradientCall call(asked, Storage::kF32);
  call.call.bias.fill(-150);
  const GradientTruth truth = truth_of(call);
  EXPECT_NE(
      first_error(
          run_backward(fault_named("backward_lse_exponentiated_alone"), &call)
              .outputs,
          truth),
      -1);
  EXPECT_EQ(
      first_error(run_backward(find_kernel("scalar/plain"), &call).outputs,
                  truth),
      -1);
}

// A loss that is not scaled up, in f32.
TEST(BackwardFaults, SmallGradientsVanish) {
  GradientCall call(with(0), Storage::kF32);
  call.d_o.fill(0x1p-14f);
  const GradientTruth truth = truth_of(call);
  const std::vector<float> flushed =
      run_backward(fault_named("backward_small_gradients_flushed"), &call)
          .outputs;
  EXPECT_NE(first_error(flushed, truth), -1);
  EXPECT_EQ(flushed[0], 0);
  EXPECT_EQ(
      first_error(run_backward(find_kernel("scalar/plain"), &call).outputs,
                  truth),
      -1);
  call.d_o.fill(0x1p14f);
  EXPECT_TRUE(same_bits(
      run_backward(fault_named("backward_small_gradients_flushed"), &call)
          .outputs,
      run_backward(find_kernel("scalar/plain"), &call).outputs));
}

// dv is right where the mask is.
TEST(BackwardFaults, DropoutIsAnotherOne) {
  for (const char* name : {"dropout_mask_differs_in_backward",
                           "dropout_gradient_of_dropped_weights"}) {
    GradientCall call(with(0), Storage::kF32);
    qkvet_backward_args args = call.args();
    qkvet_forward_args forward = *args.forward;
    forward.dropout_p = 0.5f;
    args.forward = &forward;
    ASSERT_EQ(run_backward(find_kernel("scalar/plain"), args).status, QKVET_OK);
    const std::vector<float> q = call.d_q.values(), v = call.d_v.values();
    ASSERT_EQ(run_backward(fault_named(name), args).status, QKVET_OK);
    EXPECT_FALSE(same_bits(call.d_q.values(), q)) << name;
    EXPECT_EQ(same_bits(call.d_v.values(), v),
              std::string(name) == "dropout_gradient_of_dropped_weights");
  }
}

TEST(BackwardFaults, TheOrderOfRowsIsNotKept) {
  GradientCall call(with(0), Storage::kF32);
  const qkvet_kernel* const kernel = fault_named("backward_order_not_kept");
  const std::vector<float> first = run_backward(kernel, &call).outputs;
  int other = 0;
  for (int n = 0; n < 3; ++n) {
    const std::vector<float> again = run_backward(kernel, &call).outputs;
    EXPECT_EQ(first_error(again, truth_of(call)), -1);
    other += same_bits(first, again) ? 0 : 1;
  }
  EXPECT_GE(other, 1);
  const qkvet_kernel* const skeleton = find_kernel("scalar/plain");
  EXPECT_TRUE(same_bits(run_backward(skeleton, &call).outputs,
                        run_backward(skeleton, &call).outputs));
}

// Between rows there is room that belongs to nobody.
TEST(BackwardFaults, WholeLanesAreWrittenIntoGaps) {
  const Asked asked = changed([](Asked& a) {
    a.problem.width = 3;
    a.problem.layout = Layout::kGaps;
  });
  GradientCall call(asked, Storage::kF32);
  for (const bool faulty : {false, true}) {
    const qkvet_kernel* const kernel = find_kernel(
        faulty ? "faulty/backward_writes_whole_lanes" : "scalar/plain");
    qkvet_backward_args args = call.args();
    const Problem& p = asked.problem;
    // The last row has no gap behind it: a copy of d_q with one.
    std::vector<float> room(
        static_cast<size_t>(p.batch * p.heads * p.queries * 6), -77);
    std::vector<int64_t> strides = {p.heads * p.queries * 6, p.queries * 6, 6,
                                    1};
    std::vector<float> keys(
        static_cast<size_t>(p.batch * p.kv_heads * p.keys * 6), -77);
    std::vector<int64_t> key_strides = {p.kv_heads * p.keys * 6, p.keys * 6, 6,
                                        1};
    args.d_q.data = room.data();
    args.d_q.strides = strides.data();
    args.d_k.data = keys.data();
    args.d_k.strides = key_strides.data();
    ASSERT_EQ(run_backward(kernel, args).status, QKVET_OK);
    bool touched = false;
    for (size_t n = 0; n < room.size(); ++n) {
      touched = touched || (n % 6 >= 3 && room[n] != -77);
    }
    EXPECT_EQ(touched, faulty);
  }
}

}  // namespace
}  // namespace qkvet::impl::backward_faults_test
