// SPDX-License-Identifier: Apache-2.0
// The adapter of plain.h: what it takes, what it refuses, what it hands on.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "qkvet/plain.h"

namespace {

struct Seen {
  int64_t B, H, Tq, Tk, d;
  int causal;
  bool pointers;
};
Seen seen;

}  // namespace

// Not attention: it notes what it was called with.
static void note(const float* q, const float* k, const float* v, float* o,
                 int64_t B, int64_t H, int64_t Tq, int64_t Tk, int64_t d,
                 int causal) {
  seen = {B, H, Tq, Tk, d, causal, q[0] == 1 && k[0] == 2 && v[0] == 3};
  o[0] = 4;
}

QKVET_PLAIN_KERNEL(note, "plain/note");

namespace {

struct Call {
  int64_t q_shape[4] = {2, 3, 5, 4}, k_shape[4] = {2, 3, 7, 4};
  int64_t q_strides[4] = {60, 20, 4, 1}, k_strides[4] = {84, 28, 4, 1};
  float one = 1, two = 2, three = 3, result = 0;
  qkvet_forward_args args = {};

  static qkvet_tensor tensor(float* data, int64_t* shape, int64_t* strides) {
    return {data,  QKVET_DEVICE_CPU, 0, 4, {QKVET_DTYPE_FLOAT, 32, 1},
            shape, strides,          0};
  }
  Call() {
    args.struct_size = sizeof args;
    args.q = tensor(&one, q_shape, q_strides);
    args.k = tensor(&two, k_shape, k_strides);
    args.v = tensor(&three, k_shape, k_strides);
    args.o = tensor(&result, q_shape, q_strides);
  }
};

const qkvet_kernel& kernel() {
  qkvet_host host = {};
  host.struct_size = sizeof host;
  host.abi_major = QKVET_ABI_MAJOR;
  static qkvet_library library;
  library.struct_size = sizeof library;
  EXPECT_EQ(qkvet_open(&host, "", &library, nullptr), QKVET_OK);
  EXPECT_STREQ(library.name, "plain");
  return *library.kernels[0];
}

// "" or why the call is refused, by supports() and forward() alike.
std::string refusal(const Call& call) {
  char text[200] = "", again[200] = "";
  qkvet_text why = {sizeof why, text, sizeof text};
  qkvet_text why_again = {sizeof why, again, sizeof again};
  const qkvet_kernel& self = kernel();
  const qkvet_status asked = self.supports(&self, &call.args, &why);
  EXPECT_EQ(self.forward(&self, nullptr, &call.args, nullptr, &why_again),
            asked);
  EXPECT_STREQ(text, again);
  EXPECT_EQ(asked == QKVET_OK, text[0] == '\0');
  return text;
}

TEST(Plain, TheFunctionGetsPointersExtentsAndTheFlag) {
  Call call;
  call.args.causal = QKVET_CAUSAL_BOTTOM_RIGHT;
  EXPECT_EQ(refusal(call), "");
  EXPECT_EQ(seen.B, 2);
  EXPECT_EQ(seen.H, 3);
  EXPECT_EQ(seen.Tq, 5);
  EXPECT_EQ(seen.Tk, 7);
  EXPECT_EQ(seen.d, 4);
  EXPECT_EQ(seen.causal, 1);
  EXPECT_TRUE(seen.pointers);
  EXPECT_EQ(call.result, 4);
}

TEST(Plain, OffsetsOfBytesAreAdded) {
  Call call;
  float padded[2] = {9, 1};
  call.args.q.data = padded;
  call.args.q.byte_offset = sizeof(float);
  EXPECT_EQ(refusal(call), "");
  EXPECT_TRUE(seen.pointers);
}

TEST(Plain, OnlyOneAlignmentUnlessTqIsTk) {
  Call call;
  call.args.causal = QKVET_CAUSAL_TOP_LEFT;
  EXPECT_NE(refusal(call), "");
  for (int64_t* shape : {call.q_shape, call.k_shape}) shape[2] = 1;
  EXPECT_NE(refusal(call), "") << "the strides are still those of T = 5";
  for (int64_t* strides : {call.q_strides, call.k_strides})
    strides[0] = 12, strides[1] = 4;
  EXPECT_EQ(refusal(call), "");
}

TEST(Plain, TheStrideOfAnExtentOfOneMayBeAnything) {
  Call call;
  call.q_shape[0] = call.k_shape[0] = 1;
  call.q_strides[0] = call.k_strides[0] = -1234567;
  EXPECT_EQ(refusal(call), "");
  call.q_strides[1] = 24;
  EXPECT_NE(refusal(call), "");
}

TEST(Plain, WhatTheFunctionCannotBeToldIsRefused) {
  float number = 0;
  int64_t shape[4] = {1, 1, 1, 1}, strides[4] = {1, 1, 1, 1};
  const qkvet_tensor more = Call::tensor(&number, shape, strides);
  using Change = void (*)(Call&, const qkvet_tensor&);
  const Change changes[] = {
      [](Call& c, const qkvet_tensor& t) { c.args.lse = t; },
      [](Call& c, const qkvet_tensor& t) { c.args.weights = t; },
      [](Call& c, const qkvet_tensor& t) { c.args.mask = t; },
      [](Call& c, const qkvet_tensor& t) { c.args.bias = t; },
      [](Call& c, const qkvet_tensor& t) { c.args.sink = t; },
      [](Call& c, const qkvet_tensor& t) { c.args.slopes = t; },
      [](Call& c, const qkvet_tensor& t) { c.args.kv_len = t; },
      [](Call& c, const qkvet_tensor& t) { c.args.cu_seqlens_q = t; },
      [](Call& c, const qkvet_tensor& t) { c.args.block_table = t; },
      [](Call& c, const qkvet_tensor& t) { c.args.k_new = t; },
      [](Call& c, const qkvet_tensor& t) { c.args.v_scale = t; },
      [](Call& c, const qkvet_tensor&) { c.args.scale_given = 1; },
      [](Call& c, const qkvet_tensor&) { c.args.has_window = 1; },
      [](Call& c, const qkvet_tensor&) { c.args.softcap = 1; },
      [](Call& c, const qkvet_tensor&) { c.args.rope = QKVET_ROPE_HALF; },
      [](Call& c, const qkvet_tensor&) { c.args.dropout_p = 0.5F; },
      [](Call& c, const qkvet_tensor&) { c.args.causal = 9; },
      [](Call& c, const qkvet_tensor&) { c.args.v.dtype.bits = 64; },
      [](Call& c, const qkvet_tensor&) { c.args.k.device_type = 2; },
      [](Call& c, const qkvet_tensor&) { c.k_shape[1] = 1; },
      [](Call& c, const qkvet_tensor&) { c.k_shape[2] = 0; },
      [](Call& c, const qkvet_tensor& t) { c.args.v = t; },
  };
  for (size_t i = 0; i < std::size(changes); ++i) {
    Call call;
    ASSERT_EQ(refusal(call), "");
    changes[i](call, more);
    EXPECT_NE(refusal(call), "") << "change " << i;
  }
}

TEST(Plain, AShorterStructEndsInZeros) {
  Call call;
  call.args.struct_size = offsetof(qkvet_forward_args, has_window);
  call.args.has_window = 1;  // beyond what the host says it filled in
  EXPECT_EQ(refusal(call), "");
}

TEST(Plain, AnotherVersionAndAConfigurationAreRefused) {
  qkvet_host host = {};
  host.struct_size = sizeof host;
  host.abi_major = QKVET_ABI_MAJOR + 1;
  qkvet_library library = {};
  library.struct_size = sizeof library;
  EXPECT_NE(qkvet_open(&host, "", &library, nullptr), QKVET_OK);
  host.abi_major = QKVET_ABI_MAJOR;
  EXPECT_NE(qkvet_open(&host, "fast", &library, nullptr), QKVET_OK);
  library.struct_size = 8;
  EXPECT_NE(qkvet_open(&host, "", &library, nullptr), QKVET_OK);
}

}  // namespace
