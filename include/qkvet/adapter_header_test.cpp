// SPDX-License-Identifier: Apache-2.0
// adapter.h: a call with everything that is declared is supported, and without
// one bit of the declaration it is refused by name.
#include <gtest/gtest.h>

#include <string>

#include "qkvet/adapter.h"

namespace {

// q, k, v and o of f32, [2, 4, 3, 8] and [2, 4, 5, 8].
struct Adapted {
  int64_t rows[4] = {2, 4, 3, 8}, keys[4] = {2, 4, 5, 8};
  int64_t of_rows[4] = {96, 24, 8, 1}, of_keys[4] = {160, 40, 8, 1};
  int64_t pairs[4] = {2, 4, 3, 5}, of_pairs[4] = {0, 0, 0, 1};
  float memory[320] = {};
  qkvet_capabilities can = {};
  qkvet_kernel kernel = {};
  qkvet_forward_args args = {};

  Adapted() {
    can.struct_size = sizeof can;
    can.options = ~UINT64_C(0);
    kernel.struct_size = sizeof kernel;
    kernel.capabilities = &can;
    args.struct_size = sizeof args;
    args.q = args.o = tensor(rows, of_rows);
    args.k = args.v = tensor(keys, of_keys);
  }
  qkvet_tensor tensor(int64_t* shape, int64_t* strides, int32_t rank = 4) {
    return {memory, QKVET_DEVICE_CPU, 0, rank, {QKVET_DTYPE_FLOAT, 32, 1},
            shape,  strides,          0};
  }
  // "" or the reason.
  std::string refusal() const {
    char text[200] = "";
    qkvet_text why = {sizeof why, text, sizeof text};
    const qkvet_status status = qkvet_supports_declared(&kernel, &args, &why);
    EXPECT_EQ(status == QKVET_OK, text[0] == 0);
    return text;
  }
};

TEST(Adapter, AStructIsReadAsFarAsBothSidesKnowIt) {
  struct Newer {
    qkvet_cache_args args = {};
    uint64_t field = 0;
  } given;
  given.args.sequence = 7;
  given.args.rope = QKVET_ROPE_HALF;
  qkvet_cache_args read;
  for (const uint64_t set : {0, 1}) {
    given.field = set;
    given.args.struct_size = sizeof given;
    EXPECT_EQ(qkvet_read_struct(&read, sizeof read, &given), set == 0 ? 1 : 0);
    EXPECT_EQ(read.rope, QKVET_ROPE_HALF);
  }
  given.args.struct_size = offsetof(qkvet_cache_args, rope);
  EXPECT_EQ(qkvet_read_struct(&read, sizeof read, &given), 1);
  EXPECT_EQ(read.sequence, 7);
  EXPECT_EQ(read.rope, QKVET_ROPE_NONE);
}

TEST(Adapter, EveryOptionIsNeededByItsArgument) {
  using Change = void (*)(Adapted&);
  const struct {
    uint64_t option;
    const char* reason;
    Change set;
  } rows[] = {
      {QKVET_OPTION_MASK, "mask is not declared",
       [](Adapted& a) { a.args.mask = a.tensor(a.pairs, a.of_pairs); }},
      {QKVET_OPTION_BIAS, "bias is not declared",
       [](Adapted& a) { a.args.bias = a.tensor(a.pairs, a.of_pairs); }},
      {QKVET_OPTION_LSE, "lse is not declared",
       [](Adapted& a) { a.args.lse = a.tensor(a.rows, a.of_rows, 3); }},
      {QKVET_OPTION_LENGTHS, "q_len is not declared",
       [](Adapted& a) { a.args.q_len = a.tensor(a.rows, a.of_rows, 1); }},
      {QKVET_OPTION_SINK, "sink is not declared",
       [](Adapted& a) { a.args.sink = a.tensor(a.rows, a.of_rows, 1); }},
      {QKVET_OPTION_SCALE, "scale is not declared",
       [](Adapted& a) { a.args.scale_given = 1; }},
      {QKVET_OPTION_DEFAULT_SCALE, "the default scale is not declared",
       [](Adapted&) {}},
      {QKVET_OPTION_WINDOW, "a window is not declared",
       [](Adapted& a) { a.args.has_window = 1; }},
      {QKVET_OPTION_SOFTCAP, "softcap is not declared",
       [](Adapted& a) { a.args.softcap = 1; }},
      {QKVET_OPTION_ROPE, "rope is not declared",
       [](Adapted& a) { a.args.rope = QKVET_ROPE_HALF; }},
      {QKVET_OPTION_ROPE_PART, "rope over some channels is not declared",
       [](Adapted& a) {
         static int64_t table[] = {1, a.args.q.shape[3] / 2 - 1};
         a.args.rope_cos.shape = table;
         a.args.rope_cos.ndim = 2;
       }},
      {QKVET_OPTION_CHUNK, "chunk is not declared",
       [](Adapted& a) { a.args.chunk = 4; }},
      {QKVET_OPTION_DROPOUT, "dropout_p is not declared",
       [](Adapted& a) { a.args.dropout_p = 0.5F; }},
      {QKVET_OPTION_CROSS_LENGTHS, "Tq != Tk is not declared", [](Adapted&) {}},
      {QKVET_OPTION_CAUSAL_TOP_LEFT, "this causal rule is not declared",
       [](Adapted& a) { a.args.causal = QKVET_CAUSAL_TOP_LEFT; }}};
  for (const auto& row : rows) {
    Adapted call;
    row.set(call);
    EXPECT_EQ(call.refusal(), "");
    call.can.options &= ~row.option;
    EXPECT_EQ(call.refusal(), row.reason);
  }
}

TEST(Adapter, ExtentsTypesAndStridesAreThoseDeclared) {
  Adapted call;
  call.can.d = {0, 0, 16};
  EXPECT_EQ(call.refusal(), "d is not declared");
  call.can.d = {0, 0, 8};
  EXPECT_EQ(call.refusal(), "");
  call.args.v.dtype.bits = 16;
  EXPECT_NE(call.refusal().find("storage types"), std::string::npos);
  call.args.v.dtype.bits = 32;
  call.of_keys[2] = 9;
  EXPECT_EQ(call.refusal(), "these strides are not declared");
  call.can.layouts = QKVET_LAYOUT_ANY_STRIDES;
  EXPECT_EQ(call.refusal(), "");
  call.keys[1] = 3;
  EXPECT_NE(call.refusal().find("do not fit"), std::string::npos);
}

TEST(Adapter, WidthsHeadsAndMembersAreThoseDeclared) {
  Adapted call;
  const int64_t B = call.args.q.shape[0], H = call.args.q.shape[1],
                d = call.args.q.shape[3], dv = call.args.o.shape[3];
  call.can.width_count = 1;
  call.can.widths[0] = {d, dv + 1};
  EXPECT_EQ(call.refusal(), "these widths are not declared");
  call.can.widths[0].dv = d == dv ? 0 : dv;
  EXPECT_EQ(call.refusal(), "");
  call.can.h = {H + 1, 0, 0};
  EXPECT_EQ(call.refusal(), "H is not declared");
  call.can.h = {H, H, 0};
  call.can.b = {0, 0, B + 1};
  EXPECT_EQ(call.refusal(), "B is not declared");
  call.can.b = {0, B, 0};
  EXPECT_EQ(call.refusal(), "");
}

TEST(Adapter, DeclaredRefusalsAreRefused) {
  Adapted call;
  call.args.rope = QKVET_ROPE_INTERLEAVED;
  EXPECT_EQ(call.refusal(), "");
  call.can.flags = QKVET_FLAG_ROPE_HALF_ONLY;
  EXPECT_EQ(call.refusal(), "the other style of rotation is not declared");
  call.args.rope = QKVET_ROPE_HALF;
  EXPECT_EQ(call.refusal(), "");
  call.can.flags = QKVET_FLAG_CAUSAL_ONLY;
  EXPECT_EQ(call.refusal(), "only causal calls are declared");
}

TEST(Adapter, PageSizesAreThoseDeclared) {
  Adapted call;
  call.args.page_size = 32;
  EXPECT_EQ(call.refusal(), "");
  call.can.page_size_count = 1;
  call.can.page_sizes[0] = 16;
  EXPECT_EQ(call.refusal(), "page_size is not declared");
  call.args.page_size = 16;
  EXPECT_EQ(call.refusal(), "");
}

// A mask that is broadcast has strides of 0.
TEST(Adapter, AnElementIsFoundByItsStrides) {
  Adapted call;
  const qkvet_tensor mask = call.tensor(call.pairs, call.of_pairs);
  EXPECT_EQ(qkvet_element(&mask, 1, 3, 2, 4), call.memory + 4);
  EXPECT_EQ(qkvet_element(&call.args.k, 1, 3, 2, 4),
            call.memory + 160 + 120 + 16 + 4);
}

}  // namespace
