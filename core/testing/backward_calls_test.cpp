// SPDX-License-Identifier: Apache-2.0
// Gradients through the door, of attention and of layers: what a kernel is
// given, and what is seen of one that misbehaves. The kernels are those of
// testdata/backward_plugin.cpp and layer_backward_plugin.cpp.
#include <gtest/gtest.h>

#include "core/capability/capability.h"
#include "core/case/case.h"
#include "core/testing/bad_plugin_calls.h"

namespace qkvet::backward_calls_test {
namespace {

std::unique_ptr<Executor> kernels() {
  return sandbox(patient_options(), "backward");
}
std::unique_ptr<Executor> layer_kernels() {
  return sandbox(patient_options(), "layer_backward");
}

Case case_of(const std::string& text) {
  const ParsedCase parsed = parse_case(text);
  EXPECT_TRUE(parsed.value) << parsed.error;
  return parsed.value.value_or(Case{});
}

// The family of testdata/ that takes the case.
std::string family_of(const Case& value) {
  return value.subject() == Subject::kLayerBackward ? "layer_backward"
                                                    : "backward";
}

KernelCall gradient_call(const Case& c, Inputs& inputs) {
  if (c.subject() == Subject::kLayerBackward)
    return call_of(c, inputs, Operation::kLayerBackward);
  // What laws fill in: ones for o, twos for lse.
  inputs.given_o.assign(inputs.d_o.size(), 1);
  inputs.given_lse.assign(
      static_cast<size_t>(c.shape.B * c.shape.H * c.shape.Tq), 2);
  store_inputs(c, inputs);
  KernelCall call = call_of(c, inputs, Operation::kBackward);
  call.want_d_bias = call.bias != nullptr;
  call.want_d_sink = call.sink != nullptr;
  return call;
}

CallOutcome run_case(Executor& executor, const std::string& kernel,
                     const std::string& text,
                     Placement placement = Placement::kEnd) {
  const Case c = case_of(text);
  Inputs inputs = make_inputs(c);
  KernelCall call = gradient_call(c, inputs);
  call.placement = placement;
  auto outcomes = executor.run(number_of(executor, kernel, family_of(c)),
                               {&call, size_t{1}});
  EXPECT_EQ(outcomes.size(), 1u);
  return std::move(outcomes.at(0));
}

std::string shown(Executor& executor, const std::string& tensor,
                  const std::string& text, Placement placement) {
  return refusal_of(run_case(executor, "show_" + tensor, text, placement),
                    family_of(case_of(text)) + "()");
}

constexpr char kSmall[] =
    "f32,B1,H2,Hkv1,Tq2,Tk3,d1,dv2,bias=one.hk,sink=one,backward,k=one,do=one,"
    "set=do.0.1.1.0:0x1p+2";

// Outputs hold the NaN that says: never written.
void check_tensors(Executor& executor) {
  const struct {
    const char* tensor;
    const char* expected;
  } rows[] = {
      {"do", "float32 1,2,2,2 / x,4,2,1: 1 1 1 1 1 1 4 1"},
      {"o", "float32 1,2,2,2 / x,4,2,1: 1 1 1 1 1 1 1 1"},
      {"lse", "float32 1,2,2 / x,2,1: 2 2 2 2"},
      {"weights", "absent"},
      {"k", "float32 1,1,3,1 / x,x,1,x: 1 1 1"},
      {"bias", "float32 1,2,2,3 / 0,3,0,1: 1 1 1 1 1 1 1 1 1 1 1 1"},
      {"dq", "float32 1,2,2,1 / x,2,1,x: nan nan nan nan"},
      {"dk", "float32 1,1,3,1 / x,x,1,x: nan nan nan"},
      {"dv", "float32 1,1,3,2 / x,x,2,1: nan nan nan nan nan nan"},
      {"dbias",
       "float32 1,2,2,3 / x,6,3,1: nan nan nan nan nan nan nan nan nan nan nan "
       "nan"},
      {"dsink", "float32 2 / 1: nan nan"}};
  for (const auto& row : rows)
    for (const Placement placement : kPlacements)
      EXPECT_EQ(shown(executor, row.tensor, kSmall, placement), row.expected)
          << row.tensor;
  const std::string plain = "f32,B1,H1,Tq1,Tk1,d1,backward";
  EXPECT_EQ(shown(executor, "dbias", plain, Placement::kEnd), "absent");
  EXPECT_EQ(shown(executor, "dsink", plain, Placement::kEnd), "absent");
}

TEST(SandboxBackward, EveryTensorArrives) { check_tensors(*kernels()); }
TEST(InProcessBackward, EveryTensorArrives) {
  check_tensors(*in_process("backward"));
}

// With dropout nobody but forward() knows o.
TEST(SandboxBackward, DropoutIsGivenWhatForwardReturned) {
  const auto executor = kernels();
  const std::string text = std::string(kSmall) + ",dropout=0.5";
  EXPECT_EQ(shown(*executor, "o", text, Placement::kEnd),
            "float32 1,2,2,2 / x,4,2,1: 3 3 3 3 3 3 3 3");
  EXPECT_EQ(shown(*executor, "lse", text, Placement::kEnd),
            "float32 1,2,2 / x,2,1: 4 4 4 4");
  const CallOutcome outcome = run_case(*executor, "ones", text);
  EXPECT_EQ(outcome.status, CallStatus::kDone) << outcome.text;
  const CallOutcome refused =
      run_case(*executor, "ones", std::string(kSmall) + ",dropout=0.25");
  EXPECT_EQ(refused.status, CallStatus::kRefused);
  EXPECT_EQ(refused.text,
            "forward() returned INVALID_ARGUMENT: not this probability");
}

// Gradients lie as what they are the gradients of.
TEST(SandboxBackward, Layouts) {
  const auto executor = kernels();
  const struct {
    const char* layout;
    const char* tensor;
    const char* expected;
  } rows[] = {{"bthd", "dq", "2,4,3,5 / 60,5,20,1:"},
              {"bthd", "dk", "2,2,3,5 / 30,5,10,1:"},
              {"bthd", "do", "2,4,3,5 / 60,5,20,1:"},
              {"packed", "dv", "2,2,3,5 / 120,5,40,1:"},
              {"packed", "do", "2,4,3,5 / 60,5,20,1:"},
              {"packed", "o", "2,4,3,5 / 60,5,20,1:"},
              {"gaps", "dk", "2,2,3,5 / 65,29,8,1:"},
              {"apart", "dq", "2,4,3,5 / 120,30,10,2:"}};
  for (const auto& row : rows) {
    const std::string text =
        shown(*executor, row.tensor,
              std::string("f32,B2,H4,Hkv2,Tq3,Tk3,d5,layout=") + row.layout +
                  ",backward",
              Placement::kEnd);
    EXPECT_EQ(text.find(std::string("float32 ") + row.expected), 0u)
        << row.layout << " " << row.tensor << ": " << text;
  }
}

void expect_ones(const std::vector<std::byte>& bytes, size_t count) {
  ASSERT_EQ(bytes.size(), count * sizeof(float));
  for (size_t n = 0; n < count; ++n) {
    float value = 0;
    std::memcpy(&value, bytes.data() + n * sizeof value, sizeof value);
    EXPECT_EQ(value, 1) << n;
  }
}

TEST(SandboxBackward, EveryGradientComesBack) {
  const auto executor = kernels();
  const CallOutcome outcome = run_case(*executor, "ones", kSmall);
  EXPECT_EQ(outcome.status, CallStatus::kDone) << outcome.text;
  EXPECT_FALSE(outcome.damage);
  EXPECT_FALSE(outcome.unwritten);
  expect_ones(outcome.d_q, 4);
  expect_ones(outcome.d_k, 3);
  expect_ones(outcome.d_v, 6);
  expect_ones(outcome.d_bias, 12);
  expect_ones(outcome.d_sink, 2);
  EXPECT_TRUE(outcome.o.empty());
}

// Rows of q count by q_len, those of k and v by kv_len.
TEST(SandboxBackward, OnlyWhatCountsNeedBeWritten) {
  const auto executor = kernels();
  for (const char* text :
       {"f32,B2,H1,Tq3,Tk4,d1,qlen=2.0,kvlen=1.3,backward",
        "f32,B1,H1,Tq3,Tk4,d1,cuq=0.1.2,cuk=0.2.3,backward"}) {
    EXPECT_FALSE(run_case(*executor, "ones", text).unwritten) << text;
    const CallOutcome outcome = run_case(*executor, "short_keys", text);
    EXPECT_EQ(outcome.unwritten, TensorName::kDK) << text;
  }
}

TEST(SandboxBackward, Answers) {
  const auto executor = kernels();
  CallOutcome outcome = run_case(*executor, "refuses", kSmall);
  EXPECT_EQ(outcome.status, CallStatus::kUnsupported);
  EXPECT_EQ(outcome.text, "backward() returned UNSUPPORTED: not this gradient");
  EXPECT_TRUE(outcome.gave_reason);
  outcome = run_case(*executor, "full", kSmall);
  EXPECT_EQ(outcome.status, CallStatus::kOutOfMemory);
}

TEST(SandboxBackward, Misbehaviour) {
  const auto executor = kernels();
  const struct {
    const char* kernel;
    const char* text;
  } rows[] = {{"past_do", "read past the end of do, offset 0 in backward()"},
              {"past_o", "read past the end of o, offset 0 in backward()"},
              {"past_dk", "read past the end of dk, offset 0 in backward()"},
              {"into_do", "write into do, offset 0 in backward()"},
              {"into_o", "write into o, offset 0 in backward()"},
              {"into_lse", "write into lse, offset 0 in backward()"}};
  for (const auto& row : rows) {
    const CallOutcome outcome = run_case(*executor, row.kernel, kSmall);
    EXPECT_EQ(outcome.status, CallStatus::kFault) << row.kernel;
    EXPECT_EQ(outcome.text, row.text);
  }
}

TEST(InProcessBackward, TheWorkspaceIsWatched) {
  const auto executor = in_process("backward");
  EXPECT_FALSE(
      run_case(*executor, "ones", "f32,B1,H1,Tq1,Tk1,d1,backward").damage);
}

// Its end is the guard page.
TEST(SandboxBackward, TheWorkspaceIsWatched) {
  const auto executor = kernels();
  const CallOutcome outcome =
      run_case(*executor, "beside_workspace", "f32,B1,H1,Tq1,Tk1,d1,backward");
  EXPECT_EQ(outcome.status, CallStatus::kFault);
  EXPECT_EQ(outcome.text,
            "write past the end of the workspace, offset 0 in backward()");
}

TEST(Backward, ATableWithoutFunctionsIsRefused) {
  const Opened opened = open_in_process({plugin("backward"), "nothing"});
  ASSERT_EQ(opened.executor, nullptr);
  EXPECT_NE(opened.error.find(
                "its backward has neither backward() nor layer_backward()"),
            std::string::npos)
      << opened.error;
}

TEST(Backward, CapabilitiesAreAsked) {
  constexpr std::byte kData[1] = {};
  KernelCall call;
  call.operation = Operation::kBackward;
  call.shape = {1, 2, 2, 8, 8, 16, 16};
  call.q = call.k = call.v = call.d_o = call.given_o = call.given_lse = kData;
  KernelInfo kernel;
  kernel.capabilities.options =
      QKVET_OPTION_DEFAULT_SCALE | QKVET_OPTION_BIAS | QKVET_OPTION_SINK;
  const auto reason = [&] {
    std::string why;
    capability_allows(kernel, call, &why);
    return why;
  };
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

constexpr char kSmallLayer[] =
    "f32,B2,H2,Hkv1,T2,D3,d1,dv2,backward,dy=one,biases=ko,x=one,w=one,"
    "bias=one,set=dy.1.1.2:0x1p+2";

// Outputs hold the NaN that says: never written.
void check_layer_tensors(Executor& executor) {
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
      EXPECT_EQ(shown(executor, row.tensor, kSmallLayer, placement),
                row.expected)
          << row.tensor;
  const std::string plain = "f32,B1,H1,T1,D2,rope=half,unbatched,backward";
  EXPECT_EQ(shown(executor, "db_k", plain, Placement::kEnd), "absent");
  EXPECT_EQ(shown(executor, "dx", plain, Placement::kEnd),
            "float32 1,2 / x,1: nan nan");
  EXPECT_EQ(shown(executor, "cos", plain, Placement::kEnd).substr(0, 7),
            "float32");
}

TEST(SandboxLayerBackward, EveryTensorArrives) {
  check_layer_tensors(*layer_kernels());
}
TEST(InProcessLayerBackward, EveryTensorArrives) {
  check_layer_tensors(*in_process("layer_backward"));
}

TEST(SandboxLayerBackward, EveryGradientComesBack) {
  const auto executor = layer_kernels();
  const CallOutcome outcome = run_case(*executor, "ones", kSmallLayer);
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
  const auto executor = layer_kernels();
  EXPECT_EQ(run_case(*executor, "without_dw_v", kSmallLayer).unwritten,
            TensorName::kDWv);
  EXPECT_EQ(run_case(*executor, "without_db_o", kSmallLayer).unwritten,
            TensorName::kDBo);
  CallOutcome outcome = run_case(*executor, "past_dy", kSmallLayer);
  EXPECT_EQ(outcome.status, CallStatus::kFault);
  EXPECT_EQ(outcome.text,
            "read past the end of dy, offset 0 in layer_backward()");
  outcome = run_case(*executor, "into_dy", kSmallLayer);
  EXPECT_EQ(outcome.status, CallStatus::kFault);
  EXPECT_EQ(outcome.text, "write into dy, offset 0 in layer_backward()");
  outcome = run_case(*executor, "refuses", kSmallLayer);
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
}  // namespace qkvet::backward_calls_test
