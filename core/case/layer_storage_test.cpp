// SPDX-License-Identifier: Apache-2.0
// fused= and context= of a layer: spelling, and what they put side by side.
#include "core/case/layer_storage.h"

#include <gtest/gtest.h>

#include "core/testing/case_calls.h"

namespace qkvet::layer_storage_test {
namespace {

TEST(LayerStorage, IsSpelledBehindTheBiases) {
  for (const char* order : {"qkv", "qvk", "kqv", "kvq", "vqk", "vkq"}) {
    const std::string text =
        "f32,B2,H4,Hkv2,T5,D8,causal,biases=qkvo,fused=" + std::string(order) +
        ",context=9,x=lattice";
    const Case c = parsed(text);
    EXPECT_EQ(fused_name(c.fused), order);
    EXPECT_EQ(c.context, 9);
    EXPECT_EQ(to_string(c), text);
  }
}

TEST(LayerStorage, WhatCannotBeHasOneLineThatSaysWhy) {
  expect_refused(
      "f32,B1,H1,",
      {{"T2,D2,fused=kq", "\"fused=kq\": allowed qkv qvk kqv kvq vqk vkq"},
       {"T2,D2,fused=", "\"fused=\" has no value"},
       {"T2,D2,fused=qkv,fused=kqv", "fused is given twice"},
       {"T2,D2,backward,fused=qkv", "the gradient of a layer has no fused"},
       {"T2,D2,biases=qo,fused=qkv",
        "the biases of q, k and v are given all or none"},
       {"T2,D2,causal,context=0", "\"context=0\": allowed 1 .. "},
       {"T2,D2,context=4", "is that of a causal layer; add causal"},
       {"T5,D2,causal,context=4", "T5 is longer; allowed from T on"},
       {"T5,D2,causal,context=99999", "more than 268435456 elements"},
       {"Tq5,Tk5,d2,fused=qkv", "has no fused"},
       {"d1,cap4,story=step.a.1,context=5", "a story has no context"}});
}

// Widths 4, 2 and 3 of q, k and v: every column of the fused matrix is the one
// of the part that the order puts there.
TEST(LayerStorage, PartsStandSideBySide) {
  const std::string text =
      "f32,B1,H2,Hkv1,T2,D3,d2,dv3,biases=qkvo,bias=normal,fused=";
  for (const char* order : {"qkv", "qvk", "kqv", "kvq", "vqk", "vkq"}) {
    const Case c = parsed(text + order);
    const Inputs inputs = make_inputs(c);
    const std::vector<float> w = floats(inputs.w_qkv_bytes);
    const std::vector<float> b = floats(inputs.b_qkv_bytes);
    ASSERT_EQ(w.size(), 27u);
    ASSERT_EQ(b.size(), 9u);
    size_t column = 0;
    for (const char part : std::string_view(order)) {
      const int which = part == 'q' ? 0 : part == 'k' ? 1 : 2;
      const auto matrix =
          static_cast<TensorName>(static_cast<int>(TensorName::kWq) + which);
      const auto bias =
          static_cast<TensorName>(static_cast<int>(TensorName::kBq) + which);
      const size_t width = inputs.values(bias).size();
      for (size_t n = 0; n < width; ++n, ++column) {
        EXPECT_EQ(static_cast<double>(b[column]), inputs.values(bias)[n]);
        for (size_t row = 0; row < 3; ++row)
          EXPECT_EQ(static_cast<double>(w[row * 9 + column]),
                    inputs.values(matrix)[row * width + n]);
      }
    }
    // Without the token there is no such matrix, and the digest differs.
    Case apart = c;
    apart.fused = FusedOrder::kNone;
    EXPECT_TRUE(make_inputs(apart).w_qkv_bytes.empty());
    EXPECT_NE(input_digest(inputs), input_digest(make_inputs(apart)));
  }
}

TEST(LayerStorage, TheBufferIsTheCausalRuleOfTheCall) {
  const CaseCall one("f32,B1,H1,T2,D2,causal,context=3", Operation::kLayer);
  EXPECT_EQ(one.inputs.mask_buffer,
            (std::vector<uint8_t>{1, 0, 0, 1, 1, 0, 1, 1, 1}));
  EXPECT_EQ(one.call.causal, Causal::kNone);
  EXPECT_EQ(one.call.context, 3);
  EXPECT_EQ(static_cast<const void*>(one.call.mask_buffer),
            static_cast<const void*>(one.inputs.mask_buffer.data()));
  const CaseCall plain("f32,B1,H1,T2,D2,causal", Operation::kLayer);
  EXPECT_EQ(plain.call.causal, Causal::kBottomRight);
  EXPECT_EQ(plain.call.mask_buffer, nullptr);
}

}  // namespace
}  // namespace qkvet::layer_storage_test
