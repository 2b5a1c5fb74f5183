// SPDX-License-Identifier: Apache-2.0
// Gradients of layers through the door: what a kernel is given, and what is
// seen of one that misbehaves. The kernels are those of
// testdata/layer_backward_plugin.cpp.
#include <gtest/gtest.h>

#include "core/capability/capability.h"
#include "core/case/case.h"
#include "core/testing/bad_plugin_calls.h"

namespace qkvet::layer_backward_calls_test {
namespace {

std::unique_ptr<Executor> kernels() {
  return sandbox(patient_options(), "layer_backward");
}

CallOutcome run_case(Executor& executor, const std::string& kernel,
                     const std::string& text,
                     Placement placement = Placement::kEnd) {
  const ParsedCase parsed = parse_case(text);
  EXPECT_TRUE(parsed.value) << parsed.error;
  const Case c = parsed.value.value_or(Case{});
  const Inputs inputs = make_inputs(c);
  KernelCall call = call_of(c, inputs, Operation::kLayerBackward);
  call.placement = placement;
  auto outcomes = executor.run(number_of(executor, kernel, "layer_backward"),
                               {&call, size_t{1}});
  EXPECT_EQ(outcomes.size(), 1u);
  return std::move(outcomes.at(0));
}

std::string shown(Executor& executor, const std::string& tensor,
                  const std::string& text, Placement placement) {
  return refusal_of(run_case(executor, "show_" + tensor, text, placement),
                    "layer_backward()");
}

constexpr char kSmall[] =
    "f32,B2,H2,Hkv1,T2,D3,d1,dv2,backward,dy=one,biases=ko,x=one,w=one,"
    "bias=one,set=dy.1.1.2:0x1p+2";

// Outputs hold the NaN that says: never written.
void check_tensors(Executor& executor) {
  const struct {
    const char* tensor;
    const char* expected;
  } rows[] = {
      {"dy", "float32 2,2,3 / 6,3,1: 1 1 1 1 1 1 1 1 1 1 1 4"},
      {"x", "float32 2,2,3 / 6,3,1: 1 1 1 1 1 1 1 1 1 1 1 1"},
      {"w_o", "float32 4,3 / 3,1: 1 1 1 1 1 1 1 1 1 1 1 1"},
      {"b_k", "float32 1 / x: 1"},
      {"y", "absent"},
      {"stage_q", "absent"},
      {"cos", "absent"},
      {"dx",
       "float32 2,2,3 / 6,3,1: nan nan nan nan nan nan nan nan nan nan nan "
       "nan"},
      {"dw_k", "float32 3,1 / 1,x: nan nan nan"},
      {"dw_o",
       "float32 4,3 / 3,1: nan nan nan nan nan nan nan nan nan nan nan nan"},
      {"db_k", "float32 1 / x: nan"},
      {"db_o", "float32 3 / 1: nan nan nan"}};
  for (const auto& row : rows)
    for (const Placement placement : kPlacements)
      EXPECT_EQ(shown(executor, row.tensor, kSmall, placement), row.expected)
          << row.tensor;
  const std::string plain = "f32,B1,H1,T1,D2,rope=half,unbatched,backward";
  EXPECT_EQ(shown(executor, "db_k", plain, Placement::kEnd), "absent");
  EXPECT_EQ(shown(executor, "dx", plain, Placement::kEnd),
            "float32 1,2 / x,1: nan nan");
  EXPECT_EQ(shown(executor, "cos", plain, Placement::kEnd).substr(0, 7),
            "float32");
}

TEST(SandboxLayerBackward, EveryTensorArrives) { check_tensors(*kernels()); }
TEST(InProcessLayerBackward, EveryTensorArrives) {
  check_tensors(*in_process("layer_backward"));
}

void expect_ones(const std::vector<std::byte>& bytes, size_t count) {
  ASSERT_EQ(bytes.size(), count * sizeof(float));
  for (size_t n = 0; n < count; ++n) {
    float value = 0;
    std::memcpy(&value, bytes.data() + n * sizeof value, sizeof value);
    EXPECT_EQ(value, 1) << n;
  }
}

TEST(SandboxLayerBackward, EveryGradientComesBack) {
  const auto executor = kernels();
  const CallOutcome outcome = run_case(*executor, "ones", kSmall);
  EXPECT_EQ(outcome.status, CallStatus::kDone) << outcome.text;
  EXPECT_FALSE(outcome.damage);
  EXPECT_FALSE(outcome.unwritten);
  expect_ones(outcome.d_x, 12);
  expect_ones(outcome.d_w_q, 6);
  expect_ones(outcome.d_w_k, 3);
  expect_ones(outcome.d_w_v, 6);
  expect_ones(outcome.d_w_o, 12);
  expect_ones(outcome.d_b_k, 1);
  expect_ones(outcome.d_b_o, 3);
  EXPECT_TRUE(outcome.d_b_q.empty());
  EXPECT_TRUE(outcome.d_b_v.empty());
  EXPECT_TRUE(outcome.y.empty());
}

TEST(SandboxLayerBackward, Misbehaviour) {
  const auto executor = kernels();
  EXPECT_EQ(run_case(*executor, "without_dw_v", kSmall).unwritten,
            TensorName::kDWv);
  EXPECT_EQ(run_case(*executor, "without_db_o", kSmall).unwritten,
            TensorName::kDBo);
  CallOutcome outcome = run_case(*executor, "past_dy", kSmall);
  EXPECT_EQ(outcome.status, CallStatus::kFault);
  EXPECT_EQ(outcome.text,
            "read past the end of dy, offset 0 in layer_backward()");
  outcome = run_case(*executor, "into_dy", kSmall);
  EXPECT_EQ(outcome.status, CallStatus::kFault);
  EXPECT_EQ(outcome.text, "write into dy, offset 0 in layer_backward()");
  outcome = run_case(*executor, "refuses", kSmall);
  EXPECT_EQ(outcome.status, CallStatus::kUnsupported);
  EXPECT_EQ(outcome.text,
            "layer_backward() returned UNSUPPORTED: not this gradient");
}

TEST(LayerBackward, CapabilitiesAreAsked) {
  constexpr std::byte kData[1] = {};
  KernelCall call;
  call.operation = Operation::kLayerBackward;
  call.shape = {1, 2, 2, 8, 8, 16, 16, 32};
  call.x = call.w_q = call.w_k = call.w_v = call.w_o = call.d_y = kData;
  KernelInfo kernel;
  kernel.capabilities.options = QKVET_OPTION_DEFAULT_SCALE;
  const auto reason = [&] {
    std::string why;
    capability_allows(kernel, call, &why);
    return why;
  };
  EXPECT_EQ(reason(), "no layer is declared");
  kernel.has_layer = true;
  EXPECT_EQ(reason(), "no layer_backward is declared");
  kernel.has_layer_backward = true;
  EXPECT_EQ(reason(), "");
  call.b_q = kData;
  EXPECT_EQ(reason(), "biases of a layer are not declared");
  call.b_q = nullptr;
  call.causal = Causal::kBottomRight;
  EXPECT_EQ(reason(), "causal from the bottom right is not declared");
  call.causal = Causal::kNone;
  call.want_stages = true;
  EXPECT_EQ(reason(), "a layer's gradient gives no stages");
  call.want_stages = false;
  call.mistake = Mistake::kHeads;
  EXPECT_EQ(reason(), "there is no such mistake");
  call.mistake = Mistake::kNone;
  call.d_y = nullptr;
  EXPECT_EQ(reason(), "an input is missing");
}

}  // namespace
}  // namespace qkvet::layer_backward_calls_test
