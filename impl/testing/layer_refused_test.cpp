// SPDX-License-Identifier: Apache-2.0
// Layers and their gradients: calls that contradict themselves or that a kernel
// does not support are refused with the name of the wrong argument, and nothing
// is written. mismatched_widths_are_refused tests six mistakes with layers, and
// no law tests this with gradients.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "impl/testing/layer_calls.h"

namespace qkvet::impl::layer_refused_test {
namespace {

constexpr qkvet_status kUnsupported = QKVET_UNSUPPORTED;

// The same from one matrix, with the mask of a context of 5.
qkvet_layer_args fused_call(Tensors& t) {
  qkvet_layer_args a = layer_call(t);
  a.fused = QKVET_FUSED_KVQ;
  a.w_qkv = t.make({6, 28});
  a.b_qkv = t.make({28});
  struct Part {
    qkvet_tensor *matrix, *bias;
    uint64_t column;
  };
  for (const Part& part : {Part{&a.w_k, &a.b_k, 0}, Part{&a.w_v, &a.b_v, 6},
                           Part{&a.w_q, &a.b_q, 16}}) {
    part.matrix->data = a.w_qkv.data;
    part.matrix->strides = a.w_qkv.strides;
    part.bias->data = a.b_qkv.data;
    part.matrix->byte_offset = part.bias->byte_offset =
        part.column * sizeof(float);
  }
  a.mask_buffer = t.make({5, 5}, kBool);
  for (size_t n = 0; n < 25; ++n) {
    static_cast<uint8_t*>(a.mask_buffer.data)[n] = n % 5 <= n / 5 ? 1 : 0;
  }
  return a;
}

std::vector<Refusal<qkvet_layer_args>> layer_rows() {
  using A = qkvet_layer_args;
  return {
      {0, "w_k [D,Hkv*d]: 7 at axis 0, 6 is needed", shaped(&A::w_k, {7, 6})},
      {0, "w_v [D,Hkv*dv]: 7 at axis 0, 6 is needed", shaped(&A::w_v, {7, 10})},
      {0, "w_o [H*dv,D]: 6 at axis 0, 20 is needed", shaped(&A::w_o, {6, 6})},
      {0, "w_q [D,H*d]: 12 at axis 1, no multiple of H = 5",
       [](A& a, Tensors&) { a.heads = 5, a.kv_heads = 1; }},
      {0, "3 kv_heads do not divide 4 heads", set(&A::kv_heads, 3)},
      {0, "0 kv_heads", set(&A::kv_heads, 0)},
      {0, "-4 heads", set(&A::heads, -4)},
      {0, "b_k [Hkv*d]: 8 at axis 0, 6 is needed", shaped(&A::b_k, {8})},
      {0, "b_v [Hkv*dv]: 12 at axis 0, 10 is needed", shaped(&A::b_v, {12})},
      {0, "b_o [D]: 7 at axis 0, 6 is needed", shaped(&A::b_o, {7})},
      {0, "y [B,T,D;T,D]: 7 at axis 2, 6 is needed", shaped(&A::y, {2, 4, 7})},
      {0, "y: its rank is not that of x", ranked(&A::y, 2)},
      {0, "w_o [H*dv,D]: is absent", set(&A::w_o, {})},
      {0, "x [B,T,D;T,D]: is absent", set(&A::x, {})},
      {0, "the stages q, k, v and attended come together", set(&A::k, {})},
      {0, "q [B,H,T,d]: 4 at axis 3, 3 is needed", shaped(&A::q, {2, 4, 4, 4})},
      {0, "attended [B,H,T,dv]: 6 at axis 3, 5 is needed",
       shaped(&A::attended, {2, 4, 4, 6})},
      {0, "v [B,Hkv,T,dv]: 4 at axis 1, 2 is needed",
       [](A& a, Tensors&) { a.v = a.attended; }},
      {0, "v must be of the declared type of the stages", typed(&A::v, kBf16),
       kUnsupported},
      {0, "causal: this mode is not known",
       set(&A::causal, QKVET_CAUSAL_BOTTOM_RIGHT + 1), kUnsupported},
      {0, "w_v must be of the type of x", typed(&A::w_v, kF16), kUnsupported},
  };
}

std::vector<Refusal<qkvet_layer_args>> fused_rows() {
  using A = qkvet_layer_args;
  return {
      {0, "w_qkv and b_qkv come with an order of their parts, fused",
       set(&A::fused, QKVET_FUSED_NONE)},
      {0, "fused: no order of the parts of w_qkv", set(&A::fused, 7)},
      {0, "b_qkv is given with b_q, b_k and b_v, or none of them",
       set(&A::b_k, {})},
      {0, "mask_buffer and causal: the buffer is the rule alone",
       set(&A::causal, QKVET_CAUSAL_TOP_LEFT)},
      {0, "mask_buffer must be bool or uint8", shaped(&A::mask_buffer, {5, 5}),
       kUnsupported},
      {0, "4 tokens, and mask_buffer is for 3",
       shaped(&A::mask_buffer, {3, 3}, kBool)},
      {0, "w_qkv [D,E]: 27 at axis 1, 28 is needed",
       shaped(&A::w_qkv, {6, 27})},
      {0, "mask_buffer: is not the causal mask",
       [](A& a, Tensors&) { static_cast<uint8_t*>(a.mask_buffer.data)[1] = 1; },
       kUnsupported},
  };
}

TEST(LayerRefused, ContradictionsByNameAndNothingIsWritten) {
  EXPECT_GE(layer_kernels().size(), 3u);
  for (const qkvet_kernel* kernel : layer_kernels()) {
    OpenKernel open(kernel);
    const auto run = [&](const qkvet_layer_args& a, qkvet_text* why) {
      return kernel->layer->forward(kernel, open.context(), &a, nullptr, why);
    };
    // Stages of f32 have the declared type if x is also f32.
    for (const Refusal<qkvet_layer_args>& row : layer_rows()) {
      EXPECT_EQ(wrong_refusal<qkvet_layer_args>(row, layer_call, run), "")
          << kernel->name << ": " << row.reason;
    }
    for (const Refusal<qkvet_layer_args>& row : fused_rows()) {
      EXPECT_EQ(wrong_refusal<qkvet_layer_args>(row, fused_call, run), "")
          << kernel->name << ": " << row.reason;
    }
    EXPECT_EQ(wrong_with_newer<qkvet_layer_args>(layer_call, run), "")
        << kernel->name;
    Tensors t;
    Reason why;
    EXPECT_EQ(run(fused_call(t), &why.text), QKVET_OK) << why.room;
    // Stages are optional, and y does not depend on them.
    qkvet_layer_args args = layer_call(t);
    EXPECT_EQ(run(args, nullptr), QKVET_OK);
    t.remember();
    args.q = args.k = args.v = args.attended = {};
    EXPECT_EQ(run(args, nullptr), QKVET_OK);
    EXPECT_TRUE(t.unchanged()) << kernel->name;
    // Callers from before fused matrices.
    qkvet_layer_args older = layer_call(t);
    older.struct_size = offsetof(qkvet_layer_args, w_qkv);
    older.fused = 99;
    EXPECT_EQ(run(older, nullptr), QKVET_OK) << kernel->name;
  }
}

struct LayerGradient {
  size_t struct_size;
  qkvet_layer_backward_args args;
  qkvet_layer_args layer;
};

LayerGradient layer_gradient_call(Tensors& t) {
  LayerGradient g = {sizeof(g), {}, layer_call(t)};
  qkvet_layer_args& l = g.layer;
  l.y = l.q = l.k = l.v = l.attended = {};
  qkvet_layer_backward_args& a = g.args;
  a.struct_size = sizeof(a);
  a.d_y = t.make({2, 4, 6});
  a.d_x = t.make({2, 4, 6});
  a.d_w_q = t.make({6, 12});
  a.d_w_k = t.make({6, 6});
  a.d_w_v = t.make({6, 10});
  a.d_w_o = t.make({20, 6});
  a.d_b_q = t.make({12});
  a.d_b_k = t.make({6});
  a.d_b_v = t.make({10});
  a.d_b_o = t.make({6});
  return g;
}

std::vector<Refusal<LayerGradient>> layer_gradient_rows() {
  using G = LayerGradient;
  using B = qkvet_layer_backward_args;
  using L = qkvet_layer_args;
  return {
      {0, "y: absent", [](G& g, Tensors&) { g.layer.y = g.layer.x; }},
      {0, "attended: absent",
       [](G& g, Tensors& t) {
         g.layer.attended = t.make({2, 4, 4, 5});
       }},
      {0, "d_y [B,T,D;T,D]: is absent", set(&G::args, &B::d_y, {})},
      {0, "d_y [B,T,D;T,D]: 7 at axis 2, 6 is needed",
       shaped(&G::args, &B::d_y, {2, 4, 7})},
      {0, "d_x: its rank is not that of x",
       [](G& g, Tensors&) { g.args.d_x.ndim = 2; }},
      {0, "d_w_q [D,H*d]: 7 at axis 0, 6 is needed",
       shaped(&G::args, &B::d_w_q, {7, 12})},
      {0, "d_w_v [D,Hkv*dv]: 6 at axis 1, 10 is needed",
       [](G& g, Tensors&) { g.args.d_w_v = g.args.d_w_k; }},
      {0, "d_b_k: is absent, and its bias is present",
       set(&G::args, &B::d_b_k, {})},
      {0, "d_b_o [D]: 7 at axis 0, 6 is needed",
       shaped(&G::args, &B::d_b_o, {7})},
      {0, "d_b_v: is the gradient of a bias that is absent",
       set(&G::layer, &L::b_v, {})},
      {0, "w_k [D,Hkv*d]: 10 at axis 1, 6 is needed",
       [](G& g, Tensors&) { g.layer.w_k = g.layer.w_v; }},
      {0, "d_w_v must be of the type of x",
       [](G& g, Tensors&) { g.args.d_w_v.dtype = kF16; }, kUnsupported},
  };
}

TEST(LayerGradientRefused, ContradictionsByNameAndNothingIsWritten) {
  int checked = 0;
  for (const qkvet_kernel* kernel : layer_kernels()) {
    if (kernel->backward == nullptr) {
      continue;
    }
    ++checked;
    OpenKernel open(kernel);
    const auto backward = [&](const qkvet_layer_backward_args& a,
                              qkvet_text* why) {
      return kernel->backward->layer_backward(kernel, open.context(), &a,
                                              nullptr, why);
    };
    const auto run = [&](const LayerGradient& g, qkvet_text* why) {
      qkvet_layer_backward_args args = g.args;
      args.layer = &g.layer;
      return backward(args, why);
    };
    for (const Refusal<LayerGradient>& row : layer_gradient_rows()) {
      EXPECT_EQ(wrong_refusal<LayerGradient>(row, layer_gradient_call, run), "")
          << kernel->name << ": " << row.reason;
    }
    Tensors kept;
    const LayerGradient legal = layer_gradient_call(kept);
    const auto make = [&legal](Tensors& t) {
      qkvet_layer_backward_args args = layer_gradient_call(t).args;
      args.layer = &legal.layer;
      return args;
    };
    EXPECT_EQ(wrong_with_newer<qkvet_layer_backward_args>(make, backward), "")
        << kernel->name;
    Reason why;
    EXPECT_EQ(run(legal, &why.text), QKVET_OK) << why.room;  // the control
  }
  EXPECT_GE(checked, 2);
}

}  // namespace
}  // namespace qkvet::impl::layer_refused_test
