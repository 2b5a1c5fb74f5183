// SPDX-License-Identifier: Apache-2.0
// Layers through the door: what the kernels of testdata/scripted_plugin.cpp are
// given, and the reports about those that misbehave.
#include <gtest/gtest.h>

#include "core/testing/bad_plugin_calls.h"
#include "core/testing/case_calls.h"

namespace qkvet::layer_calls_test {
namespace {

class LayerWays : public BothWays {
 protected:
  const std::unique_ptr<Executor> executor_ = open("scripted");
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
                      const std::string& kernel = "counts") {
  return run_call(executor, kernel, inputs.call, "layer");
}

// Tensors of the call, as the kernel describes them.
using Shown = std::vector<std::pair<std::string, std::string>>;
void expect_shown(Executor& executor, LayerInputs& in, const Shown& rows) {
  for (const auto& [tensor, expected] : rows)
    for (const Placement placement : kPlacements) {
      in.call.placement = placement;
      const auto outcome = run_layer(executor, in, "show_" + tensor);
      EXPECT_EQ(refusal_of(outcome, "the layer's forward()"), expected)
          << tensor;
      EXPECT_TRUE(outcome.gave_reason);
    }
}

// 1, 2, 3 ...
void expect_counted(const std::vector<std::byte>& bytes, size_t count) {
  const Values values = floats(bytes);
  ASSERT_EQ(values.size(), count);
  for (size_t n = 0; n < count; ++n)
    EXPECT_EQ(values[n], static_cast<float>(n + 1));
}

void check_outputs(Executor& executor, LayerInputs& in) {
  for (const Placement placement : kPlacements)
    for (const bool stages : {false, true}) {
      in.call.placement = placement;
      in.call.want_stages = stages;
      const auto outcome = run_layer(executor, in);
      EXPECT_EQ(outcome.status, CallStatus::kDone) << outcome.text;
      expect_counted(outcome.y, 9);
      expect_counted(outcome.stage_q, stages ? 9 : 0);
      expect_counted(outcome.stage_k, stages ? 9 : 0);
      expect_counted(outcome.stage_v, stages ? 6 : 0);
      expect_counted(outcome.attended, stages ? 6 : 0);
      EXPECT_TRUE(outcome.o.empty());
      EXPECT_TRUE(outcome.lengths.empty());
      EXPECT_FALSE(outcome.damage);
      EXPECT_FALSE(outcome.unwritten);
      EXPECT_FALSE(outcome.dirty_environment);
    }
}

const Shown kPlain = {
    {"x", "float32 1,3,3 / x,3,1: 1 0 0 0 1 0 0 0 1"},
    {"w_q", "float32 3,3 / 3,1: 2000 0 0 0 2000 0 0 0 2000"},
    {"w_k", "float32 3,3 / 3,1: 1 0 0 0 1 0 0 0 1"},
    {"w_v", "float32 3,2 / 2,1: 1 2 3 4 5 6"},
    {"w_o", "float32 2,3 / 3,1: 1 0 2 0 1 3"},
    {"y", "float32 1,3,3 / x,3,1: nan nan nan nan nan nan nan nan nan"},
    {"b_q", "absent"},
    {"b_o", "absent"},
    {"q", "absent"},
    {"w_qkv", "absent"},
    {"mask_buffer", "absent"},
    {"scalars", "heads 1 1 causal 0 scale 0 0"}};

TEST_P(LayerWays, EveryTensorArrives) {
  LayerInputs in;
  expect_shown(*executor_, in, kPlain);
  check_outputs(*executor_, in);
  in.call.unbatched = true;
  in.call.causal = Causal::kTopLeft;
  in.call.b_q = LayerInputs::bytes(in.b_q);
  in.call.b_v = LayerInputs::bytes(in.b_v);
  in.call.b_o = LayerInputs::bytes(in.b_o);
  in.call.scale = 1;
  check_outputs(*executor_, in);  // ends with stages
  expect_shown(*executor_, in,
               {{"x", "float32 3,3 / 3,1: 1 0 0 0 1 0 0 0 1"},
                {"y", "float32 3,3 / 3,1: nan nan nan nan nan nan nan nan nan"},
                {"b_q", "float32 3 / 1: 1 0 1"},
                {"b_v", "float32 2 / 1: 10 20"},
                {"b_o", "float32 3 / 1: 100 200 300"},
                {"v", "float32 1,1,3,2 / x,x,2,1: nan nan nan nan nan nan"},
                {"scalars", "heads 1 1 causal 1 scale 1 1"}});
}

// The kernel gets the matrix, and views into it.
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
    std::string shown, bias_shown;
  } rows[] = {{FusedOrder::kQkv, qkv, b_qkv,
               "2000 0 0 1 0 0 1 2 0 2000 0 0 1 0 3 4 0 0 2000 0 0 1 5 6",
               "1 0 1 0 0 0 10 20"},
              {FusedOrder::kVqk, vqk, b_vqk,
               "1 2 2000 0 0 1 0 0 3 4 0 2000 0 0 1 0 5 6 0 0 2000 0 0 1",
               "10 20 1 0 1 0 0 0"}};
  for (const auto& row : rows) {
    LayerInputs in;
    in.call.fused = row.order;
    in.call.w_qkv = LayerInputs::bytes(row.matrix);
    expect_shown(*executor_, in,
                 {{"w_q", "float32 3,3 / 8,1: 2000 0 0 0 2000 0 0 0 2000"},
                  {"w_k", "float32 3,3 / 8,1: 1 0 0 0 1 0 0 0 1"},
                  {"w_v", "float32 3,2 / 8,1: 1 2 3 4 5 6"},
                  {"w_qkv", "float32 3,8 / 8,1: " + row.shown},
                  {"b_qkv", "absent"}});
    in.call.b_q = LayerInputs::bytes(in.b_q);
    in.call.b_k = LayerInputs::bytes(b_k);
    in.call.b_v = LayerInputs::bytes(in.b_v);
    in.call.b_qkv = LayerInputs::bytes(row.bias);
    expect_shown(*executor_, in,
                 {{"b_q", "float32 3 / 1: 1 0 1"},
                  {"b_k", "float32 3 / 1: 0 0 0"},
                  {"b_v", "float32 2 / 1: 10 20"},
                  {"b_qkv", "float32 8 / 1: " + row.bias_shown}});
  }
}

// A buffer for more tokens than the call has.
TEST_P(LayerWays, AMaskBufferArrives) {
  const std::byte o{0}, i{1};
  const std::byte mask[] = {i, o, o, o, i, i, o, o, i, i, i, o, i, i, i, i};
  LayerInputs in;
  in.call.context = 4;
  in.call.mask_buffer = mask;
  expect_shown(
      *executor_, in,
      {{"mask_buffer", "uint8 4,4 / 4,1: 1 0 0 0 1 1 0 0 1 1 1 0 1 1 1 1"}});
}

// Every mistake reaches the kernel; the same call without it is correct.
TEST_P(LayerWays, MistakesReachTheKernel) {
  const struct {
    Mistake mistake;
    std::string tensor, wrong, right;
  } rows[] = {{Mistake::kInputRows, "w_q", "float32 4,3", "float32 3,3"},
              {Mistake::kHeads, "scalars", "heads 2 1", "heads 1 1"},
              {Mistake::kKeyWidth, "w_k", "float32 3,4", "float32 3,3"},
              {Mistake::kOutputRows, "w_o", "float32 3,3", "float32 2,3"},
              {Mistake::kBiasExtent, "b_q", "float32 4", "float32 3"}};
  LayerInputs in;
  in.call.b_q = LayerInputs::bytes(in.b_q);
  for (const auto& row : rows)
    for (const Placement placement : kPlacements) {
      const auto shown = [&](Mistake mistake) {
        in.call.placement = placement;
        in.call.mistake = mistake;
        const std::string all =
            refusal_of(run_layer(*executor_, in, "show_" + row.tensor),
                       "the layer's forward()");
        return all.substr(0, std::min(all.find(" /"), all.find(" causal")));
      };
      EXPECT_EQ(shown(row.mistake), row.wrong) << row.tensor;
      EXPECT_EQ(shown(Mistake::kNone), row.right) << row.tensor;
    }
}

TEST(SandboxLayer, Misbehaviour) {
  const auto executor = sandbox(patient_options(), "scripted");
  LayerInputs in;
  expect_outcome(run_layer(*executor, in, "crashes"), CallStatus::kCrash,
                 "SIGSEGV at address 0x10 in the layer's forward()");
  const auto outcome = run_layer(*executor, in, "into_w_q");
  expect_outcome(outcome, CallStatus::kFault,
                 "write into w_q, offset 0 in the layer's forward()");
  expect_fault(outcome.fault, TensorName::kWq, true, false, 0);
  expect_outcome(run_layer(*executor, in, "refuses"), CallStatus::kUnsupported,
                 "the layer's forward() returned UNSUPPORTED: not this layer");
  expect_shown(*executor, in, kPlain);
  check_outputs(*executor, in);
}

// Threads of the host's loop of 8 steps, and of the call.
TEST_P(LayerWays, ThreadsOfTheHost) {
  LayerInputs in;
  const std::pair<int, const char*> rows[] = {
      {1, "1 of 1"}, {3, "3 of 3"}, {100, "8 of 100"}, {0, "1 of 0"}};
  for (const auto& [asked, used] : rows) {
    in.call.threads = asked;
    expect_shown(*executor_, in, {{"threads", used}});
  }
}

}  // namespace
}  // namespace qkvet::layer_calls_test
