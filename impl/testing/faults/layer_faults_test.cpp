// SPDX-License-Identifier: Apache-2.0
// The faults of layers: each differs from its skeleton where its trigger says
// so, equals it elsewhere, and breaks the laws that it names, here in their
// smallest form. The skeleton without a fault is scalar/layer.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "impl/testing/layer_fixture.h"

namespace qkvet::impl::layer_faults_test {
namespace {

// Triggers every fault but one of grouped heads: several heads and tokens,
// D = H d = H dv, all biases.
const LayerProblem kTrigger = {.batch = 2,
                               .tokens = 3,
                               .model_width = 8,
                               .heads = 4,
                               .kv_heads = 4,
                               .width = 2,
                               .value_width = 2,
                               .rope = QKVET_ROPE_INTERLEAVED};

// W_K and W_V have extents of their own.
const LayerProblem kGrouped = {.batch = 2,
                               .tokens = 3,
                               .model_width = 8,
                               .heads = 4,
                               .kv_heads = 2,
                               .width = 2,
                               .value_width = 3,
                               .rope = QKVET_ROPE_INTERLEAVED};

// The same from one matrix, with a mask buffer that is longer than the text,
// and with weights.
LayerProblem stored_as_models_do() {
  LayerProblem problem = kGrouped;
  problem.fused = QKVET_FUSED_KVQ;
  problem.context = 5;
  problem.weights = true;
  return problem;
}
LayerProblem fused(LayerProblem problem, int32_t order) {
  problem.fused = order;
  return problem;
}
LayerProblem with_buffer(LayerProblem problem, int64_t context) {
  problem.context = context;
  return problem;
}
LayerProblem with_weights(LayerProblem problem) {
  problem.weights = true;
  return problem;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  // What was not asked for has no address.
  if (a.empty() || b.empty()) return a.size() == b.size();
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

bool agrees(const qkvet_kernel* kernel, LayerTensors* call) {
  const LayerAnswer answer = run_layer(kernel, call);
  return answer.status == QKVET_OK &&
         layer_error(answer, truth_of(*call), call->problem, Storage::kF32) <=
             1;
}

bool agrees_with_oracle(const qkvet_kernel* kernel) {
  LayerTensors call(kTrigger), grouped(kGrouped), own(stored_as_models_do());
  return agrees(kernel, &call) && agrees(kernel, &grouped) &&
         agrees(kernel, &own);
}

// Column c is channel c + shift of a row.
void make_picking(AnyTensor* matrix, int64_t shift) {
  const int64_t n = matrix->shape()[2];
  matrix->fill(0);
  for (int64_t column = 0; column < n; ++column) {
    matrix->set(0, 0, (column + shift) % n, column, 1);
  }
}

// Matrices that move elements and do nothing else.
bool split_and_merge_place_every_element(const qkvet_kernel* kernel) {
  LayerTensors call(kTrigger);
  call.problem.biases = false;
  int64_t shift = 0;
  for (AnyTensor* matrix : {&call.w_q, &call.w_k, &call.w_v, &call.w_o}) {
    make_picking(matrix, shift++);
  }
  return agrees(kernel, &call);
}

bool output_projection_is_applied(const qkvet_kernel* kernel) {
  LayerTensors call(kTrigger);
  call.w_o.fill(0);
  call.b_o.fill(0.5f);
  const LayerAnswer answer = run_layer(kernel, &call);
  return same_bits(answer.y, std::vector<float>(answer.y.size(), 0.5f));
}

bool every_bias_counts(const qkvet_kernel* kernel) {
  for (AnyTensor LayerTensors::*bias :
       {&LayerTensors::b_q, &LayerTensors::b_k, &LayerTensors::b_v,
        &LayerTensors::b_o}) {
    LayerTensors call(kTrigger);
    for (AnyTensor* matrix : {&call.w_q, &call.w_k, &call.w_v}) {
      matrix->fill(0);
    }
    (call.*bias).fill(3);
    if (!agrees(kernel, &call)) {
      return false;
    }
  }
  return true;
}

bool projections_are_separate(const qkvet_kernel* kernel) {
  LayerTensors call(kTrigger);
  call.problem.biases = false;
  call.w_q.fill(0);
  const LayerAnswer answer = run_layer(kernel, &call);
  const LayerTruth truth = truth_of(call);
  return layer_error(answer.k, truth.k, 1e-4) <= 1 &&
         layer_error(answer.v, truth.v, 1e-4) <= 1;
}

bool mismatched_widths_are_refused(const qkvet_kernel* kernel) {
  LayerProblem wider = kTrigger;
  wider.value_width = 3;
  LayerTensors call(kTrigger), other(wider);
  qkvet_layer_args args = call.args();
  args.w_o = other.w_o.tensor(2);
  return run_layer(kernel, args).status == QKVET_INVALID_ARGUMENT;
}

bool fused_equals_separate(const qkvet_kernel* kernel) {
  const LayerAnswer apart = answer_of(kernel, kGrouped);
  for (int32_t order = QKVET_FUSED_QKV; order <= QKVET_FUSED_VKQ; ++order) {
    const LayerAnswer answer = answer_of(kernel, fused(kGrouped, order));
    if (answer.status != QKVET_OK || !same_bits(answer.q, apart.q) ||
        !same_bits(answer.k, apart.k) || !same_bits(answer.v, apart.v) ||
        !same_bits(answer.y, apart.y)) {
      return false;
    }
  }
  return true;
}

bool context_overrun_is_refused(const qkvet_kernel* kernel) {
  const LayerAnswer answer =
      answer_of(kernel, with_buffer(kTrigger, kTrigger.tokens - 1));
  return answer.status == QKVET_INVALID_ARGUMENT &&
         answer.reason.find('3') != std::string::npos &&
         answer.reason.find('2') != std::string::npos;
}

bool layer_weights_sum_to_one(const qkvet_kernel* kernel) {
  const LayerAnswer answer = answer_of(kernel, with_weights(kGrouped));
  const auto tokens = static_cast<size_t>(kGrouped.tokens);
  bool holds = !answer.weights.empty();
  for (size_t n = 0; n < answer.weights.size(); n += tokens) {
    float sum = 0;
    for (size_t j = 0; j < tokens; ++j) {
      sum += answer.weights[n + j];
    }
    holds = holds && std::fabs(sum - 1) < 1e-6f;
  }
  return holds;
}

constexpr struct {
  const char* law;
  bool (*holds)(const qkvet_kernel*);
} kLaws[] = {{"split_and_merge_place_every_element",
              split_and_merge_place_every_element},
             {"output_projection_is_applied", output_projection_is_applied},
             {"every_bias_counts", every_bias_counts},
             {"projections_are_separate", projections_are_separate},
             {"mismatched_widths_are_refused", mismatched_widths_are_refused},
             {"fused_equals_separate", fused_equals_separate},
             {"context_overrun_is_refused", context_overrun_is_refused},
             {"layer_weights_sum_to_one", layer_weights_sum_to_one},
             {"layer_agrees_with_oracle", agrees_with_oracle}};

bool is_killed_by(const qkvet_kernel* kernel, const std::string& law) {
  const auto* fault = static_cast<const qkvet_fault*>(
      kernel->get_extension(kernel, QKVET_EXTENSION_FAULT));
  for (const char* const* id = fault->killed_by; *id != nullptr; ++id) {
    if (law == *id) {
      return true;
    }
  }
  return false;
}

// Those whose fault lies in their gradient have a test of their own.
std::vector<const qkvet_kernel*> faulty_layers() {
  std::vector<const qkvet_kernel*> all = layers(/*faulty=*/true);
  std::erase_if(all, [](const qkvet_kernel* kernel) {
    return kernel->backward != nullptr;
  });
  return all;
}

TEST(LayerFaults, AreLayersAndNothingElse) {
  EXPECT_GE(faulty_layers().size(), 17u);
  for (const qkvet_kernel* kernel : faulty_layers()) {
    EXPECT_EQ(kernel->forward, nullptr) << kernel->name;
    EXPECT_EQ(kernel->cache, nullptr) << kernel->name;
  }
}

TEST(LayerFaults, BreakTheLawsThatTheyName) {
  const qkvet_kernel* const skeleton = find_kernel("scalar/layer");
  for (const auto& [law, holds] : kLaws) {
    EXPECT_TRUE(holds(skeleton)) << law;
    EXPECT_TRUE(holds(find_kernel("eigen/layer"))) << law;
    int kills = 0;
    for (const qkvet_kernel* kernel : faulty_layers()) {
      if (is_killed_by(kernel, law)) {
        ++kills;
        EXPECT_FALSE(holds(kernel)) << kernel->name << " " << law;
      }
    }
    EXPECT_GE(kills, 1) << law;
  }
}

// The same bits as the skeleton, stages and all.
TEST(LayerFaults, EqualTheSkeletonOutsideOfTheirTrigger) {
  LayerProblem one_head = kTrigger;
  one_head.heads = one_head.kv_heads = 1;
  LayerProblem one_key_head = kGrouped;
  one_key_head.kv_heads = 1;
  LayerProblem one_token = kTrigger;
  one_token.tokens = 1;
  LayerProblem other_width = kTrigger;
  other_width.value_width = 3;
  LayerProblem no_bias = kTrigger;
  no_bias.biases = false;
  LayerProblem no_rope = kTrigger;
  no_rope.rope = QKVET_ROPE_NONE;
  LayerProblem no_slices = kTrigger;
  no_slices.model_width = 7;
  const struct {
    const char* name;
    std::vector<LayerProblem> harmless;
  } rows[] = {
      {"heads_not_merged", {one_head, one_token}},
      {"key_matrix_sized_as_query_matrix", {kTrigger, one_head}},
      {"output_projection_omitted", {other_width, one_head}},
      {"output_projection_transposed", {other_width, one_head}},
      {"shared_projection", {kGrouped}},
      {"split_without_transpose", {one_head, one_token}},
      {"reshape_before_projection", {one_head, no_slices}},
      {"value_bias_ignored", {no_bias}},
      {"rope_on_query_alone", {no_rope}},
      {"fused_equal_thirds", {kGrouped, fused(kTrigger, QKVET_FUSED_VKQ)}},
      {"fused_order_assumed", {kGrouped, fused(kGrouped, QKVET_FUSED_QKV)}},
      {"fused_heads_interleaved",
       {kGrouped, fused(one_key_head, QKVET_FUSED_KVQ)}},
      {"mask_buffer_unsliced_stride",
       {kGrouped, with_buffer(kGrouped, kGrouped.tokens)}},
      {"mask_buffer_from_the_end",
       {kGrouped, with_buffer(kGrouped, kGrouped.tokens)}},
      {"context_overrun_accepted",
       {kGrouped, with_buffer(kGrouped, kGrouped.tokens)}},
      {"layer_weights_unnormalised", {with_weights(one_token)}},
      {"surplus_rows_accepted", {kTrigger, kGrouped, one_head}}};
  const qkvet_kernel* const skeleton = find_kernel("scalar/layer");
  EXPECT_LE(std::size(rows), faulty_layers().size());
  for (const auto& [name, harmless] : rows) {
    const qkvet_kernel* const kernel =
        find_kernel(std::string("faulty/") + name);
    ASSERT_NE(kernel, nullptr) << name;
    for (const LayerProblem& problem : harmless) {
      const LayerAnswer right = answer_of(skeleton, problem);
      const LayerAnswer faulty = answer_of(kernel, problem);
      EXPECT_EQ(faulty.status, QKVET_OK) << faulty.reason;
      EXPECT_TRUE(same_bits(faulty.y, right.y)) << name;
      EXPECT_TRUE(same_bits(faulty.q, right.q)) << name;
      EXPECT_TRUE(same_bits(faulty.attended, right.attended)) << name;
      EXPECT_TRUE(same_bits(faulty.weights, right.weights)) << name;
    }
  }
}

}  // namespace
}  // namespace qkvet::impl::layer_faults_test
