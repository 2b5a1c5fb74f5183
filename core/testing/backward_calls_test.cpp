// SPDX-License-Identifier: Apache-2.0
// Gradients through the door, of attention and of layers: a kernel's arguments,
// and the reports about kernels that misbehave. The kernels are those of
// testdata/scripted_plugin.cpp.
#include <gtest/gtest.h>

#include "core/testing/capability_calls.h"
#include "core/testing/scripted_calls.h"

namespace qkvet::backward_calls_test {
namespace {

class Gradients : public BothWays {};
INSTANTIATE_TEST_SUITE_P(Ways, Gradients, testing::Bool(), way_name);

constexpr char kSmall[] =
    "f32,B1,H2,Hkv1,Tq2,Tk3,d1,dv2,bias=one.hk,sink=one,backward,k=one,do=one,"
    "set=do.0.1.1.0:0x1p+2";

constexpr char kSmallLayer[] =
    "f32,B2,H2,Hkv1,T2,D3,d1,dv2,backward,dy=one,biases=ko,x=one,w=one,"
    "bias=one,set=dy.1.1.2:0x1p+2";

// Outputs contain the NaN for "never written".
TEST_P(Gradients, EveryTensorArrives) {
  const std::string plain = "f32,B1,H1,Tq1,Tk1,d1,backward";
  const std::string layer = "f32,B1,H1,T1,D2,rope=half,unbatched,backward";
  const auto executor = open("scripted");
  expect_shown(
      *executor,
      {{kSmall, "d_o", "float32 1,2,2,2 / x,4,2,1: 1 1 1 1 1 1 4 1"},
       {kSmall, "o", "float32 1,2,2,2 / x,4,2,1: 1 1 1 1 1 1 1 1"},
       {kSmall, "lse", "float32 1,2,2 / x,2,1: 2 2 2 2"},
       {kSmall, "weights", "absent"},
       {kSmall, "k", "float32 1,1,3,1 / x,x,1,x: 1 1 1"},
       {kSmall, "bias", "float32 1,2,2,3 / 0,3,0,1: 1 1 1 1 1 1 1 1 1 1 1 1"},
       {kSmall, "d_q", "float32 1,2,2,1 / x,2,1,x: nan nan nan nan"},
       {kSmall, "d_k", "float32 1,1,3,1 / x,x,1,x: nan nan nan"},
       {kSmall, "d_v", "float32 1,1,3,2 / x,x,2,1: nan nan nan nan nan nan"},
       {kSmall, "d_bias",
        "float32 1,2,2,3 / x,6,3,1: nan nan nan nan nan nan nan nan nan nan "
        "nan nan"},
       {kSmall, "d_sink", "float32 2 / 1: nan nan"},
       {plain, "d_bias", "absent"},
       {plain, "d_sink", "absent"},
       {kSmallLayer, "d_y", "float32 2,2,3 / 6,3,1: 1 1 1 1 1 1 1 1 1 1 1 4"},
       {kSmallLayer, "x", "float32 2,2,3 / 6,3,1: 1 1 1 1 1 1 1 1 1 1 1 1"},
       {kSmallLayer, "w_o", "float32 4,3 / 3,1: 1 1 1 1 1 1 1 1 1 1 1 1"},
       {kSmallLayer, "b_k", "float32 1 / x: 1"},
       {kSmallLayer, "y", "absent"},
       {kSmallLayer, "q", "absent"},
       {kSmallLayer, "rope_cos", "absent"},
       {kSmallLayer, "d_x",
        "float32 2,2,3 / 6,3,1: nan nan nan nan nan nan nan nan nan nan nan "
        "nan"},
       {kSmallLayer, "d_w_k", "float32 3,1 / 1,x: nan nan nan"},
       {kSmallLayer, "d_w_o",
        "float32 4,3 / 3,1: nan nan nan nan nan nan nan nan nan nan nan nan"},
       {kSmallLayer, "d_b_k", "float32 1 / x: nan"},
       {kSmallLayer, "d_b_o", "float32 3 / 1: nan nan nan"},
       {layer, "d_b_k", "absent"},
       {layer, "d_x", "float32 1,2 / x,1: nan nan"}});
  const std::string turned = "f32,B1,H1,Tq1,Tk2,d2,rope=half.3,backward";
  for (const std::string& one : {layer, turned})
    EXPECT_EQ(shown(*executor, "rope_cos", one).substr(0, 7), "float32");
  expect_shown(*executor, {{turned, "q_positions", "int64 1,1 / x,x: 4"},
                           {turned, "k_positions", "int64 1,2 / x,1: 3 4"}});
}

// With dropout only forward() can compute o.
TEST(SandboxBackward, DropoutIsGivenWhatForwardReturned) {
  const auto executor = scripted();
  const std::string text = std::string(kSmall) + ",dropout=0.5";
  expect_shown(*executor,
               {{text, "o", "float32 1,2,2,2 / x,4,2,1: 3 3 3 3 3 3 3 3"},
                {text, "lse", "float32 1,2,2 / x,2,1: 4 4 4 4"}});
  expect_ends(
      *executor,
      {{text, "ones", CallStatus::kDone, ""},
       {std::string(kSmall) + ",dropout=0.25", "ones", CallStatus::kRefused,
        "forward() returned INVALID_ARGUMENT: not this probability"}});
}

// Gradients have the layout of their tensors.
TEST(SandboxBackward, Layouts) {
  expect_strides(*scripted(), "f32,B2,H4,Hkv2,Tq3,Tk3,d5,layout=",
                 {{"bthd,backward", "d_q", "2,4,3,5 / 60,5,20,1"},
                  {"bthd,backward", "d_k", "2,2,3,5 / 30,5,10,1"},
                  {"bthd,backward", "d_o", "2,4,3,5 / 60,5,20,1"},
                  {"packed,backward", "d_v", "2,2,3,5 / 120,5,40,1"},
                  {"packed,backward", "d_o", "2,4,3,5 / 60,5,20,1"},
                  {"packed,backward", "o", "2,4,3,5 / 60,5,20,1"},
                  {"gaps,backward", "d_k", "2,2,3,5 / 65,29,8,1"},
                  {"apart,backward", "d_q", "2,4,3,5 / 120,30,10,2"}});
}

void expect_ones(const std::vector<std::byte>& bytes, size_t count) {
  EXPECT_EQ(floats(bytes), std::vector<float>(count, 1));
}

TEST(SandboxBackward, EveryGradientComesBack) {
  const auto executor = scripted();
  const CallOutcome outcome = run_case(*executor, "ones", kSmall);
  const CallOutcome layer = run_case(*executor, "ones", kSmallLayer);
  for (const CallOutcome& one : {outcome, layer}) {
    EXPECT_EQ(one.status, CallStatus::kDone) << one.text;
    EXPECT_FALSE(one.damage);
    EXPECT_FALSE(one.unwritten);
    EXPECT_TRUE(one.o.empty());
    EXPECT_TRUE(one.y.empty());
  }
  expect_ones(outcome.d_q, 4);
  expect_ones(outcome.d_k, 3);
  expect_ones(outcome.d_v, 6);
  expect_ones(outcome.d_bias, 12);
  expect_ones(outcome.d_sink, 2);
  expect_ones(layer.d_x, 12);
  expect_ones(layer.d_w_q, 6);
  expect_ones(layer.d_w_k, 3);
  expect_ones(layer.d_w_v, 6);
  expect_ones(layer.d_w_o, 12);
  expect_ones(layer.d_b_k, 1);
  expect_ones(layer.d_b_o, 3);
  expect_ones(layer.d_b_q, 0);
  expect_ones(layer.d_b_v, 0);
}

// Rows of q count by q_len, those of k and v by kv_len.
TEST(SandboxBackward, OnlyWhatCountsNeedBeWritten) {
  const auto executor = scripted();
  for (const char* text :
       {"f32,B2,H1,Tq3,Tk4,d1,qlen=2.0,kvlen=1.3,backward",
        "f32,B1,H1,Tq3,Tk4,d1,cuq=0.1.2,cuk=0.2.3,backward"}) {
    EXPECT_FALSE(run_case(*executor, "ones", text).unwritten) << text;
    EXPECT_EQ(run_case(*executor, "short_keys", text).unwritten,
              TensorName::kDK)
        << text;
  }
  EXPECT_EQ(run_case(*executor, "without_d_w_v", kSmallLayer).unwritten,
            TensorName::kDWv);
  EXPECT_EQ(run_case(*executor, "without_d_b_o", kSmallLayer).unwritten,
            TensorName::kDBo);
}

constexpr char kTiny[] = "f32,B1,H1,Tq1,Tk1,d1,backward";

TEST(SandboxBackward, Misbehaviour) {
  const auto executor = scripted();
  expect_ends(*executor,
              {{kSmall, "refuses", CallStatus::kUnsupported,
                "backward() returned UNSUPPORTED: not this gradient"},
               {kSmall, "full", CallStatus::kOutOfMemory,
                "backward() returned OUT_OF_MEMORY"},
               {kSmall, "past_d_o", CallStatus::kFault,
                "read past the end of do, offset 0 in backward()"},
               {kSmall, "past_o", CallStatus::kFault,
                "read past the end of o, offset 0 in backward()"},
               {kSmall, "past_d_k", CallStatus::kFault,
                "read past the end of dk, offset 0 in backward()"},
               {kSmall, "into_d_o", CallStatus::kFault,
                "write into do, offset 0 in backward()"},
               {kSmall, "into_o", CallStatus::kFault,
                "write into o, offset 0 in backward()"},
               {kSmall, "into_lse", CallStatus::kFault,
                "write into lse, offset 0 in backward()"},
               // Its end is the guard page.
               {kTiny, "beside_workspace", CallStatus::kFault,
                "write past the end of the workspace, offset 0 in backward()"},
               {kSmallLayer, "past_d_y", CallStatus::kFault,
                "read past the end of dy, offset 0 in layer_backward()"},
               {kSmallLayer, "into_d_y", CallStatus::kFault,
                "write into dy, offset 0 in layer_backward()"},
               {kSmallLayer, "refuses", CallStatus::kUnsupported,
                "layer_backward() returned UNSUPPORTED: not this gradient"}});
  EXPECT_TRUE(run_case(*executor, "refuses", kSmall).gave_reason);
}

TEST(InProcessBackward, TheWorkspaceIsWatched) {
  EXPECT_FALSE(run_case(*in_process("scripted"), "ones", kTiny).damage);
}

TEST(Backward, ATableWithoutFunctionsIsRefused) {
  const Opened opened = open_in_process({plugin("scripted"), "no_backward"});
  ASSERT_EQ(opened.executor, nullptr);
  EXPECT_NE(opened.error.find(
                "its backward has neither backward() nor layer_backward()"),
            std::string::npos)
      << opened.error;
}

TEST(Backward, CapabilitiesAreAsked) {
  KernelCall call;
  call.operation = Operation::kBackward;
  call.shape = {1, 2, 2, 8, 8, 16, 16};
  call.q = call.k = call.v = call.d_o = call.given_o = call.given_lse = kData;
  KernelInfo kernel;
  kernel.capabilities.options =
      QKVET_OPTION_DEFAULT_SCALE | QKVET_OPTION_BIAS | QKVET_OPTION_SINK;
  const auto reason = [&] { return reason_of(kernel, call); };
  EXPECT_EQ(reason(), "no backward is declared");
  kernel.has_backward = true;
  kernel.has_forward = false;
  EXPECT_EQ(reason(), "");
  call.bias = call.sink = kData;
  EXPECT_EQ(reason(), "");
  call.want_d_bias = true;
  EXPECT_EQ(reason(), "a gradient of the bias is not declared");
  kernel.backward_options = QKVET_BACKWARD_BIAS;
  call.want_d_sink = true;
  EXPECT_EQ(reason(), "a gradient of the sinks is not declared");
  kernel.backward_options |= QKVET_BACKWARD_SINK;
  EXPECT_EQ(reason(), "");
  call.dropout = Dropout{0.5F, 1, 0};
  EXPECT_EQ(reason(), "no forward is declared");
  kernel.has_forward = true;
  EXPECT_EQ(reason(), "dropout is not declared");
  call.dropout.reset();
  call.softcap = 1;
  EXPECT_EQ(reason(), "a softcap is not declared");
  call.softcap = 0;
  call.sink = nullptr;
  EXPECT_EQ(reason(), "a gradient of what is not there");
  call.want_d_sink = false;
  call.given_lse = nullptr;
  EXPECT_EQ(reason(), "an input is missing");
  call.given_lse = kData;
  call.share = kShareB;
  EXPECT_EQ(reason(),
            "backward() takes no pages, new tokens and shared k and v");
}

TEST(LayerBackward, CapabilitiesAreAsked) {
  KernelCall call;
  call.operation = Operation::kLayerBackward;
  call.shape = {1, 2, 2, 8, 8, 16, 16, 32};
  call.x = call.w_q = call.w_k = call.w_v = call.w_o = call.d_y = kData;
  KernelInfo kernel;
  kernel.capabilities.options = QKVET_OPTION_DEFAULT_SCALE;
  const auto reason = [&] { return reason_of(kernel, call); };
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
}  // namespace qkvet::backward_calls_test
