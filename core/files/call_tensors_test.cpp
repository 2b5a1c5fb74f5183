// SPDX-License-Identifier: Apache-2.0
// The tensors of a call as files have them: names, order, and what of them is
// there.
#include "core/files/call_tensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "core/call/tensor_table.h"

namespace qkvet::call_tensors_test {
namespace {

template <class Number>
std::vector<std::byte> bytes_of(const std::vector<Number>& numbers) {
  std::vector<std::byte> bytes(numbers.size() * sizeof(Number));
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

std::string text_of(const std::vector<CallTensor>& tensors) {
  std::string text;
  for (const CallTensor& one : tensors)
    text += (text.empty() ? "" : ", ") + one.name + " " +
            file_tensor_text(one.values.dtype, one.values.shape);
  return text;
}

KernelCall small_call(const std::vector<std::byte>& data) {
  KernelCall call;
  call.shape = {.B = 1, .H = 2, .Hkv = 1, .Tq = 2, .Tk = 3, .d = 2, .dv = 1};
  call.q = call.k = call.v = data.data();
  return call;
}

CallPlan plan_of(const KernelCall& call) {
  CallPlan plan;
  std::string why;
  EXPECT_TRUE(plan_call(call, {}, &plan, &why)) << why;
  return plan;
}

TEST(CallTensors, AreThoseOfTheCallInTheOrderOfTheTable) {
  const auto data = bytes_of(std::vector<float>(16, 1));
  const std::vector<std::byte> mask(3, std::byte{1});
  KernelCall call = small_call(data);
  call.mask = mask.data();
  call.mask_own = kOwnK;
  call.want_lse = true;
  CallPlan plan = plan_of(call);
  // A mask has the extents of its values, not those it is broadcast to.
  EXPECT_EQ(text_of(call_inputs(call, plan)),
            "q f32 [1, 2, 2, 2], k f32 [1, 1, 3, 2], v f32 [1, 1, 3, 1], "
            "mask uint8 [1, 1, 1, 3]");
  EXPECT_EQ(text_of(call_outputs(plan)),
            "o f32 [1, 2, 2, 1], lse f32 [1, 2, 2]");
  call.operation = Operation::kBackward;
  call.want_lse = false;
  call.d_o = call.given_o = call.given_lse = data.data();
  plan = plan_of(call);
  EXPECT_EQ(text_of(call_inputs(call, plan)),
            "q f32 [1, 2, 2, 2], k f32 [1, 1, 3, 2], v f32 [1, 1, 3, 1], "
            "mask uint8 [1, 1, 1, 3], d_o f32 [1, 2, 2, 1], o f32 [1, 2, 2, 1],"
            " lse f32 [1, 2, 2]");
  EXPECT_EQ(text_of(call_outputs(plan)),
            "d_q f32 [1, 2, 2, 2], d_k f32 [1, 1, 3, 2], d_v f32 [1, 1, 3, 1]");
}

TEST(CallTensors, WithoutAnElementAreThereAllTheSame) {
  const auto data = bytes_of(std::vector<float>(16, 1));
  KernelCall call = small_call(data);
  call.shape.Tk = 0;
  call.k = call.v = nullptr;
  const CallPlan plan = plan_of(call);
  EXPECT_EQ(text_of(call_inputs(call, plan)), "q f32 [1, 2, 2, 2]");
  EXPECT_EQ(text_of(empty_inputs(call, plan)),
            "k f32 [1, 1, 0, 2], v f32 [1, 1, 0, 1]");
}

TEST(CallTensors, LieAsTheCallHasThem) {
  const auto data = bytes_of(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8});
  KernelCall call = small_call(data);
  call.layout = Layout::kBthd;
  const std::vector<CallTensor> inputs = call_inputs(call, plan_of(call));
  EXPECT_EQ(inputs[0].values.data, data);
  // [B,T,H,d]: heads and rows change places.
  EXPECT_EQ(memory_of(inputs[0]),
            bytes_of(std::vector<float>{1, 2, 5, 6, 3, 4, 7, 8}));
}

TEST(CallTensors, AreToldApartByTheirNames) {
  for (const Operation operation :
       {Operation::kForward, Operation::kBackward, Operation::kLayer,
        Operation::kLayerBackward})
    for (const bool outputs : {false, true}) {
      std::set<std::string> names;
      int tensors = 0;
      for (const TensorRow& row : kTensors) {
        // q, k and v as stages and as caches: never in one call.
        if (is_output(row.tensor) != outputs || is_cache(row.tensor)) continue;
        names.insert(abi_name(operation, row.tensor));
        ++tensors;
      }
      EXPECT_EQ(std::ssize(names), tensors);
    }
  EXPECT_EQ(abi_name(Operation::kForward, TensorName::kCuQ), "cu_seqlens_q");
  EXPECT_EQ(abi_name(Operation::kBackward, TensorName::kDBias), "d_bias");
  EXPECT_EQ(abi_name(Operation::kForward, TensorName::kQPositions),
            "q_positions");
  EXPECT_EQ(abi_name(Operation::kLayer, TensorName::kQPositions), "positions");
}

TEST(CallTensors, OfRecordedCallsHaveNamesThatReadBack) {
  EXPECT_EQ(recorded_names(),
            "q k v x w_q w_k w_v w_o b_q b_k b_v b_o mask bias sink slopes "
            "key_indices topk_length segments_q segments_k full_ranges "
            "tree_mask; "
            "o lse weights y, o.N lse.N");
  EXPECT_EQ(recorded_input("slopes"), TensorName::kSlopes);
  for (const char* none : {"o", "q_len", "do", ""})
    EXPECT_FALSE(recorded_input(none)) << none;
  for (const char* name : {"o", "lse", "weights", "y", "o.0", "lse.17"}) {
    const auto output = parse_output_name(name);
    ASSERT_TRUE(output) << name;
    EXPECT_EQ(output_text(*output), name);
  }
  for (const char* none : {"q", "y.0", "weights.1", "o.", "o.03", "o.-1",
                           "o.1 ", "o.99999999999999999999", "attended"})
    EXPECT_FALSE(parse_output_name(none)) << none;
}

}  // namespace
}  // namespace qkvet::call_tensors_test
