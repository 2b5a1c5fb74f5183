// SPDX-License-Identifier: Apache-2.0
// Layers through the door. Rows of x are unit vectors, w_q and w_k make each
// query find its own key (exp(-1000) is zero in f32), so that every number is
// known exactly.
#include <gtest/gtest.h>

#include "core/testing/tables_plugin_calls.h"

namespace qkvet::layer_calls_test {
namespace {

class LayerWays : public BothWays {
 protected:
  const std::unique_ptr<Executor> executor_ = open("tables");
};
INSTANTIATE_TEST_SUITE_P(Ways, LayerWays, testing::Bool(), way_name);

constexpr int64_t kRows = 3;  // T = D = d
constexpr int64_t kValues = 2;
using Values = std::vector<float>;

struct LayerInputs {
  LayerInputs() {
    call.operation = Operation::kLayer;
    call.shape = {1, 1, 1, kRows, kRows, kRows, kValues, kRows};
    call.x = bytes(x);
    call.w_q = bytes(w_q);
    call.w_k = bytes(x);
    call.w_v = bytes(w_v);
    call.w_o = bytes(w_o);
  }
  static const std::byte* bytes(const Values& values) {
    return reinterpret_cast<const std::byte*>(values.data());
  }
  Values x = {1, 0, 0, 0, 1, 0, 0, 0, 1};
  Values w_q = {2000, 0, 0, 0, 2000, 0, 0, 0, 2000};
  Values w_v = {1, 2, 3, 4, 5, 6};
  Values w_o = {1, 0, 2, 0, 1, 3};
  Values b_q = {1, 0, 1};
  Values b_v = {10, 20};
  Values b_o = {100, 200, 300};
  KernelCall call;
};

CallOutcome run_layer(Executor& executor, const LayerInputs& inputs,
                      const std::string& kernel = "layer") {
  return run_call(executor, kernel, inputs.call, "tables");
}

void expect_values(const CallOutcome& outcome, const Values& y) {
  EXPECT_EQ(outcome.status, CallStatus::kDone) << outcome.text;
  EXPECT_EQ(floats(outcome.y), y);
  EXPECT_FALSE(outcome.damage);
  EXPECT_FALSE(outcome.unwritten);
  EXPECT_FALSE(outcome.dirty_environment);
}

void check_layer(Executor& executor) {
  for (const Placement placement : kPlacements) {
    LayerInputs in;
    in.call.placement = placement;
    // y = w_v w_o
    const Values y = {1, 2, 8, 3, 4, 18, 5, 6, 28};
    expect_values(run_layer(executor, in), y);
    EXPECT_TRUE(run_layer(executor, in).stage_q.empty());
    in.call.unbatched = true;
    in.call.causal = Causal::kTopLeft;
    expect_values(run_layer(executor, in), y);

    in.call.b_q = LayerInputs::bytes(in.b_q);
    in.call.b_v = LayerInputs::bytes(in.b_v);
    in.call.b_o = LayerInputs::bytes(in.b_o);
    in.call.want_stages = true;
    in.call.scale = 1;
    const auto outcome = run_layer(executor, in);
    expect_values(outcome, {111, 222, 388, 113, 224, 398, 115, 226, 408});
    EXPECT_EQ(floats(outcome.stage_q),
              Values({2001, 0, 1, 1, 2000, 1, 1, 0, 2001}));
    EXPECT_EQ(floats(outcome.stage_k), in.x);
    EXPECT_EQ(floats(outcome.stage_v), Values({11, 22, 13, 24, 15, 26}));
    EXPECT_EQ(floats(outcome.attended), floats(outcome.stage_v));
    EXPECT_TRUE(outcome.o.empty());
    EXPECT_TRUE(outcome.lengths.empty());
  }
}

TEST_P(LayerWays, EveryTensorArrives) { check_layer(*executor_); }

// The kernel has no fused matrix: it gets views into it, and these arrive.
TEST_P(LayerWays, PartsOfAFusedMatrix) {
  const Values qkv = {2000, 0, 0, 1, 0, 0, 1,    2, 0, 2000, 0, 0,
                      1,    0, 3, 4, 0, 0, 2000, 0, 0, 1,    5, 6};
  const Values vqk = {1, 2, 2000, 0, 0, 1, 0, 0, 3,    4, 0, 2000,
                      0, 0, 1,    0, 5, 6, 0, 0, 2000, 0, 0, 1};
  const Values b_qkv = {1, 0, 1, 0, 0, 0, 10, 20};
  const Values b_vqk = {10, 20, 1, 0, 1, 0, 0, 0};
  const Values b_k = {0, 0, 0};
  const struct {
    FusedOrder order;
    const Values &matrix, &bias;
  } rows[] = {{FusedOrder::kQkv, qkv, b_qkv}, {FusedOrder::kVqk, vqk, b_vqk}};
  for (const auto& row : rows)
    for (const Placement placement : kPlacements) {
      LayerInputs in;
      in.call.placement = placement;
      in.call.fused = row.order;
      in.call.w_qkv = LayerInputs::bytes(row.matrix);
      in.call.scale = 1;
      in.call.want_stages = true;
      expect_values(run_layer(*executor_, in), {1, 2, 8, 3, 4, 18, 5, 6, 28});
      in.call.b_q = LayerInputs::bytes(in.b_q);
      in.call.b_k = LayerInputs::bytes(b_k);
      in.call.b_v = LayerInputs::bytes(in.b_v);
      in.call.b_qkv = LayerInputs::bytes(row.bias);
      const auto outcome = run_layer(*executor_, in);
      expect_values(outcome, {11, 22, 88, 13, 24, 98, 15, 26, 108});
      EXPECT_EQ(floats(outcome.stage_q),
                Values({2001, 0, 1, 1, 2000, 1, 1, 0, 2001}));
    }
}

// A buffer for five tokens; the queries are 0, so every key counts alike.
TEST_P(LayerWays, AMaskBufferArrives) {
  constexpr int64_t kContext = 5;
  std::vector<std::byte> mask;
  for (int64_t n = 0; n < kContext * kContext; ++n)
    mask.push_back(std::byte{n % kContext <= n / kContext});
  for (const Placement placement : kPlacements) {
    LayerInputs in;
    in.w_q.assign(9, 0);
    in.call.placement = placement;
    in.call.context = kContext;
    in.call.mask_buffer = mask.data();
    expect_values(run_layer(*executor_, in), {1, 2, 8, 2, 3, 13, 3, 4, 18});
    in.call.mask_buffer = nullptr;  // control: all rows see all keys
    in.call.context = 0;
    expect_values(run_layer(*executor_, in), {3, 4, 18, 3, 4, 18, 3, 4, 18});
  }
}

// Every mistake is refused with its reason; the same call without it is done.
TEST_P(LayerWays, MistakesReachTheKernel) {
  const struct {
    Mistake mistake;
    const char* reason;
  } rows[] = {{Mistake::kInputRows, "rows of w_q"},
              {Mistake::kHeads, "columns of w_q"},
              {Mistake::kKeyWidth, "columns of w_k"},
              {Mistake::kOutputRows, "rows of w_o"},
              {Mistake::kBiasExtent, "extent of b_q"}};
  LayerInputs in;
  in.call.b_q = LayerInputs::bytes(in.b_q);
  for (const auto& row : rows)
    for (const Placement placement : kPlacements) {
      in.call.placement = placement;
      in.call.mistake = row.mistake;
      const auto outcome = run_layer(*executor_, in);
      expect_outcome(
          outcome, CallStatus::kRefused,
          std::string("the layer's forward() returned INVALID_ARGUMENT: ") +
              row.reason);
      EXPECT_TRUE(outcome.gave_reason);
      in.call.mistake = Mistake::kNone;
      EXPECT_EQ(run_layer(*executor_, in).status, CallStatus::kDone);
    }
}

TEST(SandboxLayer, Misbehaviour) {
  const auto executor = tables();
  const LayerInputs in;
  expect_outcome(run_layer(*executor, in, "layer_crash"), CallStatus::kCrash,
                 "SIGSEGV at address 0x10 in the layer's forward()");
  const auto outcome = run_layer(*executor, in, "layer_writes_w_q");
  expect_outcome(outcome, CallStatus::kFault,
                 "write into w_q, offset 4 in the layer's forward()");
  expect_fault(outcome.fault, TensorName::kWq, true, false, 4);
  expect_outcome(run_layer(*executor, in, "layer_unsupported"),
                 CallStatus::kUnsupported,
                 "the layer's forward() returned UNSUPPORTED: not this layer");
  check_layer(*executor);
}

// The first number of y is the number of threads of the host's loop of 8 steps,
// the second is the call's.
TEST_P(LayerWays, ThreadsOfTheHost) {
  LayerInputs in;
  const struct {
    int asked;
    float used;
  } rows[] = {{1, 1}, {3, 3}, {100, 8}, {0, 1}};
  for (const auto& row : rows) {
    in.call.threads = row.asked;
    const Values y = floats(run_layer(*executor_, in, "layer_threads").y);
    ASSERT_EQ(y.size(), 9u);
    EXPECT_EQ(y[0], row.used);
    EXPECT_EQ(y[1], static_cast<float>(row.asked));
  }
}

}  // namespace
}  // namespace qkvet::layer_calls_test
