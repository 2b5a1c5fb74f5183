// SPDX-License-Identifier: Apache-2.0
// Every fault of the gradient of a layer is a fault: it is off where its
// trigger says so, has the bits of its skeleton elsewhere, and its layer is
// right. The skeleton without a fault is scalar/layer.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "impl/testing/layer_gradient_fixture.h"

namespace qkvet::impl::layer_backward_faults_test {
namespace {

// Every extent its own, grouped heads, a rotation, all biases.
LayerProblem grouped(const std::function<void(LayerProblem&)>& change = {}) {
  LayerProblem problem = {.batch = 2,
                          .tokens = 3,
                          .model_width = 7,
                          .heads = 4,
                          .kv_heads = 2,
                          .width = 4,
                          .value_width = 5,
                          .causal = QKVET_CAUSAL_BOTTOM_RIGHT,
                          .rope = QKVET_ROPE_HALF};
  if (change) {
    change(problem);
  }
  return problem;
}

struct FaultRow {
  const char* name;
  LayerProblem trigger;
  std::vector<LayerProblem> harmless;
};

std::vector<FaultRow> rows() {
  using P = LayerProblem;
  const LayerProblem plain = grouped();
  const auto one_token = grouped([](P& p) { p.tokens = 1; });
  const auto square = grouped([](P& p) { p.model_width = 8; });
  return {
      {"value_path_missing", plain, {}},
      {"weights_transposed", square, {plain}},
      {"bias_of_last_member",
       plain,
       {grouped([](P& p) { p.batch = 1; }),
        grouped([](P& p) { p.biases = false; })}},
      {"not_turned_back", plain, {grouped([](P& p) {
         p.rope = QKVET_ROPE_NONE;
       })}},
      {"group_keeps_last_head", plain, {grouped([](P& p) { p.kv_heads = 4; })}},
      {"heads_not_split", plain, {one_token, grouped([](P& p) {
                                    p.heads = p.kv_heads = 1;
                                  })}},
      {"mask_forgotten", plain, {one_token, grouped([](P& p) {
                                   p.causal = QKVET_CAUSAL_NONE;
                                 })}}};
}

const qkvet_kernel* fault_named(const std::string& name) {
  return find_kernel("faulty/layer_backward_" + name);
}

std::vector<float> gradients_of(const qkvet_kernel* kernel,
                                const LayerProblem& problem) {
  LayerGradientTensors tensors(problem);
  const LayerAnswer answer = run_gradient(kernel, tensors.args());
  EXPECT_EQ(answer.status, QKVET_OK) << kernel->name << " " << answer.reason;
  std::vector<float> all;
  for (const AnyTensor& out : tensors.outputs) {
    const std::vector<float> values = out.values();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// How far the one that is farthest off is off.
double difference(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0;
  for (size_t n = 0; n < a.size(); ++n) {
    most = std::fmax(most, std::fabs(double(a[n]) - double(b[n])));
  }
  return most;
}

std::vector<const qkvet_kernel*> faults() {
  return kernels_that(/*faulty=*/true, [](const qkvet_kernel& kernel) {
    return kernel.backward != nullptr &&
           kernel.backward->layer_backward != nullptr;
  });
}

// A fault without a row is left to the laws that it names.
TEST(LayerBackwardFaults, AreThere) {
  // The one more writes where nothing is: below.
  EXPECT_GE(faults().size(), rows().size() + 1);
  for (const FaultRow& row : rows()) {
    ASSERT_NE(fault_named(row.name), nullptr) << row.name;
  }
  for (const qkvet_kernel* kernel : faults()) {
    EXPECT_EQ(kernel->forward, nullptr) << kernel->name;
    EXPECT_EQ(kernel->backward->backward, nullptr) << kernel->name;
  }
}

// Far beyond any rounding.
TEST(LayerBackwardFaults, AreOffInTheirTrigger) {
  const qkvet_kernel* const skeleton = find_kernel("scalar/layer");
  for (const FaultRow& row : rows()) {
    const std::vector<float> right = gradients_of(skeleton, row.trigger);
    EXPECT_GT(
        difference(gradients_of(fault_named(row.name), row.trigger), right),
        1e-2)
        << row.name;
    EXPECT_LT(difference(gradients_of(find_kernel("eigen/layer"), row.trigger),
                         right),
              1e-4)
        << row.name;
  }
}

TEST(LayerBackwardFaults, EqualTheSkeletonOutsideOfTheirTrigger) {
  const qkvet_kernel* const skeleton = find_kernel("scalar/layer");
  int compared = 0;
  for (const FaultRow& row : rows()) {
    for (const LayerProblem& problem : row.harmless) {
      EXPECT_TRUE(same_bits(gradients_of(fault_named(row.name), problem),
                            gradients_of(skeleton, problem)))
          << row.name;
      ++compared;
    }
  }
  EXPECT_GE(compared, 9);
}

TEST(LayerBackwardFaults, TheirLayerIsRight) {
  const LayerAnswer right = answer_of(find_kernel("scalar/layer"), grouped());
  for (const qkvet_kernel* kernel : faults()) {
    const LayerAnswer answer = answer_of(kernel, grouped());
    EXPECT_TRUE(same_bits(answer.y, right.y)) << kernel->name;
    EXPECT_TRUE(same_bits(answer.attended, right.attended)) << kernel->name;
  }
}

// Seven columns, and room for one more that is nobody's; those of the other
// biases are multiples of four.
TEST(LayerBackwardFaults, WholeLanesAreWrittenBehindABias) {
  const qkvet_kernel* const fault = fault_named("bias_in_whole_lanes");
  ASSERT_NE(fault, nullptr);
  const qkvet_kernel* const skeleton = find_kernel("scalar/layer");
  for (const qkvet_kernel* kernel : {skeleton, fault}) {
    LayerGradientTensors tensors(
        grouped([](LayerProblem& p) { p.value_width = 6; }));
    qkvet_layer_backward_args args = tensors.args();
    std::vector<float> room(8, kUnwritten);
    args.d_b_o.data = room.data();
    ASSERT_EQ(run_gradient(kernel, args).status, QKVET_OK);
    EXPECT_NE(room[6], kUnwritten);
    EXPECT_EQ(room[7] != kUnwritten, kernel == fault);
  }
}

}  // namespace
}  // namespace qkvet::impl::layer_backward_faults_test
