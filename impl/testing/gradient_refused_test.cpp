// SPDX-License-Identifier: Apache-2.0
// Gradients of attention: calls that contradict themselves or that a kernel
// does not support are refused with the name of the wrong argument, and nothing
// is written. No law tests this, nor the subjects of the last tests here.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "impl/testing/calls.h"

namespace qkvet::impl::gradient_refused_test {
namespace {

constexpr qkvet_status kUnsupported = QKVET_UNSUPPORTED;

// A gradient, and the call that it belongs to.
struct Gradient {
  size_t struct_size;  // as in the structs of arguments
  qkvet_backward_args args;
  qkvet_forward_args forward;
};

Gradient gradient_call(Tensors& t, uint64_t options) {
  Gradient g = {sizeof(g), {}, forward_call(t, options)};
  qkvet_backward_args& a = g.args;
  const int64_t batch = g.forward.q.shape[0];
  a.struct_size = sizeof(a);
  a.d_o = t.make({batch, 2, 4, 3});
  a.d_q = t.make({batch, 2, 4, 3});
  a.d_k = t.make({batch, 1, 5, 3});
  a.d_v = t.make({batch, 1, 5, 3});
  if ((options & QKVET_OPTION_BIAS) != 0) a.d_bias = t.make({batch, 2, 4, 5});
  if ((options & QKVET_OPTION_SINK) != 0) a.d_sink = t.make({2});
  return g;
}

std::vector<Refusal<Gradient>> gradient_rows() {
  using G = Gradient;
  using B = qkvet_backward_args;
  using F = qkvet_forward_args;
  return {
      {0, "lse: needed", set(&G::forward, &F::lse, {})},
      {0, "weights: absent",
       [](G& g, Tensors&) { g.forward.weights = g.args.d_bias; }},
      {0, "d_o [B,H,Tq,dv]: is absent", set(&G::args, &B::d_o, {})},
      {0, "d_o [B,H,Tq,dv]: 9 at axis 2, 4 is needed",
       shaped(&G::args, &B::d_o, {2, 2, 9, 3})},
      {0, "d_q [B,H,Tq,d]: 9 at axis 2, 4 is needed",
       shaped(&G::args, &B::d_q, {2, 2, 9, 3})},
      {0, "d_k [B,Hkv,Tk,d]: 2 at axis 1, 1 is needed",
       shaped(&G::args, &B::d_k, {2, 2, 5, 3})},
      {0, "d_v [B,Hkv,Tk,dv]: 7 at axis 3, 3 is needed",
       shaped(&G::args, &B::d_v, {2, 1, 5, 7})},
      {0, "d_v [B,Hkv,Tk,dv]: the wrong rank",
       [](G& g, Tensors&) { g.args.d_v.ndim = 3; }},
      {0, "d_bias [B,H,Tq,Tk]: 6 at axis 3, 5 is needed",
       shaped(&G::args, &B::d_bias, {2, 2, 4, 6})},
      {0, "d_bias: is the gradient of a tensor that is absent",
       set(&G::forward, &F::bias, {})},
      {0, "d_sink: is the gradient of a tensor that is absent",
       set(&G::forward, &F::sink, {})},
      {0, "a window counts keys",
       [](G& g, Tensors&) {
         g.forward.has_window = 1;
         g.forward.window_left = -2;
       }},
      {0, "a length is negative or beyond its extent",
       [](G& g, Tensors& t) {
         g.forward.kv_len = t.list<int64_t>({5, 6});
       }},
      {0, "d_k must be of the type of q",
       [](G& g, Tensors&) { g.args.d_k.dtype = kF16; }, kUnsupported},
      {0, "d_sink must be f32 or of the type of q",
       [](G& g, Tensors&) { g.args.d_sink.dtype = kBf16; }, kUnsupported},
      {0, "k_new",
       [](G& g, Tensors&) {
         g.forward.k_new = g.forward.k;
         g.forward.v_new = g.forward.v;
       },
       kUnsupported},
      {0, "block_table",
       [](G& g, Tensors&) { g.forward.block_table = g.forward.sink; },
       kUnsupported},
  };
}

std::vector<const qkvet_kernel*> gradient_kernels() {
  return kernels_that([](const qkvet_kernel& kernel) {
    return kernel.backward != nullptr && kernel.backward->backward != nullptr &&
           is_declared(*kernel.capabilities, kF32);
  });
}

// As a function of the gradient alone.
auto run_gradient(const qkvet_kernel* kernel, const OpenKernel& open) {
  return [kernel, &open](const Gradient& g, qkvet_text* why) {
    qkvet_backward_args args = g.args;
    args.forward = &g.forward;
    return kernel->backward->backward(kernel, open.context(), &args, nullptr,
                                      why);
  };
}

TEST(GradientRefused, ContradictionsByNameAndNothingIsWritten) {
  EXPECT_GE(gradient_kernels().size(), 2u);
  constexpr uint64_t kOptions = QKVET_OPTION_BIAS | QKVET_OPTION_SINK;
  const auto make = [](Tensors& t) { return gradient_call(t, kOptions); };
  for (const qkvet_kernel* kernel : gradient_kernels()) {
    if ((kOptions & ~kernel->capabilities->options) != 0) {
      continue;
    }
    OpenKernel open(kernel);
    const auto run = run_gradient(kernel, open);
    for (const Refusal<Gradient>& row : gradient_rows()) {
      EXPECT_EQ(wrong_refusal<Gradient>(row, make, run), "")
          << kernel->name << ": " << row.reason;
    }
    Tensors t;  // the control
    Reason why;
    EXPECT_EQ(run(make(t), &why.text), QKVET_OK) << why.room;
    qkvet_backward_args nothing = make(t).args;
    nothing.forward = nullptr;
    EXPECT_EQ(kernel->backward->backward(kernel, open.context(), &nothing,
                                         nullptr, nullptr),
              QKVET_INVALID_ARGUMENT);
  }
}

// Some accept dropout, but none a probability of 1.
TEST(GradientRefused, DropoutThatIsNotDeclaredOrNoProbability) {
  for (const qkvet_kernel* kernel : gradient_kernels()) {
    const bool declared =
        (kernel->capabilities->options & QKVET_OPTION_DROPOUT) != 0;
    OpenKernel open(kernel);
    Tensors t;
    Gradient g = gradient_call(t, 0);
    g.forward.dropout_p = 0.5f;
    EXPECT_EQ(run_gradient(kernel, open)(g, nullptr),
              declared ? QKVET_OK : QKVET_UNSUPPORTED)
        << kernel->name;
    g.forward.dropout_p = 1;
    EXPECT_EQ(run_gradient(kernel, open)(g, nullptr),
              declared ? QKVET_INVALID_ARGUMENT : QKVET_UNSUPPORTED)
        << kernel->name;
  }
}

TEST(GradientRefused, StructsOfOlderAndNewerHosts) {
  for (const qkvet_kernel* kernel : gradient_kernels()) {
    OpenKernel open(kernel);
    Tensors kept;
    const qkvet_forward_args forward = forward_call(kept);
    const auto make = [&forward](Tensors& t) {
      qkvet_backward_args args = gradient_call(t, 0).args;
      args.forward = &forward;
      return args;
    };
    const auto run = [&](const qkvet_backward_args& a, qkvet_text* why) {
      return kernel->backward->backward(kernel, open.context(), &a, nullptr,
                                        why);
    };
    EXPECT_EQ(wrong_with_newer<qkvet_backward_args>(make, run), "")
        << kernel->name;
    // A host without d_bias and d_sink; their bytes are noise.
    Tensors t;
    qkvet_backward_args older = make(t);
    older.struct_size = offsetof(qkvet_backward_args, d_bias);
    older.d_bias.ndim = older.d_sink.ndim = 77;
    EXPECT_EQ(run(older, nullptr), QKVET_OK) << kernel->name;
  }
}

TEST(GradientRefused, GradientsOfBiasAndSinkAreOptional) {
  constexpr uint64_t kOptions = QKVET_OPTION_BIAS | QKVET_OPTION_SINK;
  for (const qkvet_kernel* kernel : gradient_kernels()) {
    if ((kOptions & ~kernel->capabilities->options) != 0) {
      continue;
    }
    Tensors t;
    Gradient g = gradient_call(t, kOptions);
    OpenKernel open(kernel);
    ASSERT_EQ(run_gradient(kernel, open)(g, nullptr), QKVET_OK);
    t.remember();
    g.args.d_bias = g.args.d_sink = {};
    EXPECT_EQ(run_gradient(kernel, open)(g, nullptr), QKVET_OK);
    EXPECT_TRUE(t.unchanged()) << kernel->name;
  }
}

// The last row and the last key of member 0.
TEST(GradientRefused, RowsAndKeysBeyondTheLengthsAreNotWritten) {
  constexpr float kBefore = -77;
  for (const qkvet_kernel* kernel : gradient_kernels()) {
    if ((kernel->capabilities->options & QKVET_OPTION_LENGTHS) == 0) {
      continue;
    }
    Tensors t;
    Gradient g = gradient_call(t, QKVET_OPTION_LENGTHS);
    g.forward.kv_len = t.list<int64_t>({4, 5});
    auto* const d_q = static_cast<float*>(g.args.d_q.data);
    auto* const d_k = static_cast<float*>(g.args.d_k.data);
    auto* const d_v = static_cast<float*>(g.args.d_v.data);
    std::fill_n(d_q, 12, kBefore);
    std::fill_n(d_k, 15, kBefore);
    std::fill_n(d_v, 15, kBefore);
    OpenKernel open(kernel);
    ASSERT_EQ(run_gradient(kernel, open)(g, nullptr), QKVET_OK);
    for (int c = 0; c < 3; ++c) {
      EXPECT_NE(d_q[6 + c], kBefore) << kernel->name;
      EXPECT_EQ(d_q[9 + c], kBefore) << kernel->name;
      EXPECT_NE(d_k[9 + c], kBefore) << kernel->name;
      EXPECT_EQ(d_k[12 + c], kBefore) << kernel->name;
      EXPECT_EQ(d_v[12 + c], kBefore) << kernel->name;
    }
  }
}

// Rows of a packed member see keys 0 and 1, or 2 to 4.
TEST(GradientRefused, BiasesOfOtherMembersGetNoGradient) {
  constexpr uint64_t kOptions = QKVET_OPTION_BIAS | QKVET_OPTION_PACKED;
  for (const qkvet_kernel* kernel : gradient_kernels()) {
    if ((kOptions & ~kernel->capabilities->options) != 0) {
      continue;
    }
    Tensors t;
    Gradient g = gradient_call(t, kOptions);
    OpenKernel open(kernel);
    ASSERT_EQ(open.forward(g.forward, nullptr), QKVET_OK);
    ASSERT_EQ(run_gradient(kernel, open)(g, nullptr), QKVET_OK);
    const auto* const d_bias = static_cast<const float*>(g.args.d_bias.data);
    for (int n = 0; n < 2 * 4 * 5; ++n) {
      const bool own = (n / 5 % 4 < 2) == (n % 5 < 2);
      EXPECT_EQ(d_bias[n] != 0, own) << kernel->name << " " << n;
    }
  }
}

// Two pairs of channels, each turned by quarters of a circle: this moves
// numbers without rounding: (x, y) becomes (-y, x).
void turn(const qkvet_tensor& t, bool back) {
  auto* const row = static_cast<float*>(t.data);
  for (int64_t n = 0; n < t.shape[1] * t.shape[2]; ++n) {
    for (int64_t pair = 0; pair < 2; ++pair) {
      float& x = row[4 * n + pair];
      float& y = row[4 * n + pair + 2];
      const float was = x;
      x = back ? y : -y;
      y = back ? -was : was;
    }
  }
}

// The gradients of rotated q and k are the gradients for q and k rotated
// beforehand, turned back.
TEST(GradientRefused, RotationsAreTurnedBack) {
  for (const qkvet_kernel* kernel : gradient_kernels()) {
    if ((kernel->capabilities->options & QKVET_OPTION_ROPE) == 0) {
      continue;
    }
    OpenKernel open(kernel);
    Tensors t;
    std::vector<qkvet_tensor> gradients;
    for (const bool turned_before : {false, true}) {
      Gradient g = {};
      qkvet_forward_args& f = g.forward;
      f.struct_size = sizeof(f);
      f.q = t.make({1, 2, 3, 4});
      f.k = t.make({1, 1, 3, 4});
      f.v = t.make({1, 1, 3, 4});
      f.o = t.make({1, 2, 3, 4});
      f.lse = t.make({1, 2, 3});
      if (turned_before) {
        turn(f.q, /*back=*/false);
        turn(f.k, /*back=*/false);
      } else {
        f.rope = QKVET_ROPE_HALF;
        f.rope_cos = t.make({1, 2});
        f.rope_sin = t.make({1, 2});
        std::fill_n(static_cast<float*>(f.rope_cos.data), 2, 0.0f);
        std::fill_n(static_cast<float*>(f.rope_sin.data), 2, 1.0f);
        f.q_positions = f.k_positions = t.list<int64_t>({0, 0, 0}, {1, 3});
      }
      g.args.struct_size = sizeof(g.args);
      g.args.d_o = t.make({1, 2, 3, 4});
      g.args.d_q = t.make({1, 2, 3, 4});
      g.args.d_k = t.make({1, 1, 3, 4});
      g.args.d_v = t.make({1, 1, 3, 4});
      ASSERT_EQ(open.forward(f, nullptr), QKVET_OK) << kernel->name;
      ASSERT_EQ(run_gradient(kernel, open)(g, nullptr), QKVET_OK);
      if (turned_before) {
        turn(g.args.d_q, /*back=*/true);
        turn(g.args.d_k, /*back=*/true);
      }
      gradients.insert(gradients.end(), {g.args.d_q, g.args.d_k, g.args.d_v});
    }
    for (size_t n = 0; n < 3; ++n) {
      const auto* const one = static_cast<const float*>(gradients[n].data);
      const auto* const other =
          static_cast<const float*>(gradients[n + 3].data);
      for (int64_t c = 0; c < 12 * gradients[n].shape[1]; ++c) {
        EXPECT_EQ(one[c], other[c]) << kernel->name << " " << n << " " << c;
      }
    }
  }
}

}  // namespace
}  // namespace qkvet::impl::gradient_refused_test
