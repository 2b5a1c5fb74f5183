// SPDX-License-Identifier: Apache-2.0
// Layers, and gradients of attention and of layers: calls that contradict
// themselves or ask for what a kernel does not know are refused with the name
// of what is wrong, and nothing is written. No law asks this of gradients, and
// mismatched_widths_are_refused asks layers for six mistakes.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "impl/testing/calls.h"

namespace qkvet::impl::gradient_refused_test {
namespace {

constexpr qkvet_status kUnsupported = QKVET_UNSUPPORTED;

// ---- Gradients of attention -------------------------------------------------

// A gradient, and the call that it is of.
struct Gradient {
  size_t struct_size;  // as if it were the arguments
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
  return {{"lse: needed", [](G& g, Tensors&) { g.forward.lse = {}; }},
          {"weights: absent",
           [](G& g, Tensors&) { g.forward.weights = g.args.d_bias; }},
          {"d_o: a required tensor is absent",
           [](G& g, Tensors&) { g.args.d_o = {}; }},
          {"d_o has 9 at axis 2, 4 are needed",
           [](G& g, Tensors& t) {
             g.args.d_o = t.make({2, 2, 9, 3});
           }},
          {"d_q has 9 at axis 2, 4 are needed",
           [](G& g, Tensors& t) {
             g.args.d_q = t.make({2, 2, 9, 3});
           }},
          {"d_k has 2 at axis 1, 1 are needed",
           [](G& g, Tensors& t) {
             g.args.d_k = t.make({2, 2, 5, 3});
           }},
          {"d_v has 7 at axis 3, 3 are needed",
           [](G& g, Tensors& t) {
             g.args.d_v = t.make({2, 1, 5, 7});
           }},
          {"d_v: a tensor has the wrong rank",
           [](G& g, Tensors&) { g.args.d_v.ndim = 3; }},
          {"d_bias has 6 at axis 3, 5 are needed",
           [](G& g, Tensors& t) {
             g.args.d_bias = t.make({2, 2, 4, 6});
           }},
          {"d_bias: is the gradient of a tensor that is absent",
           [](G& g, Tensors&) { g.forward.bias = {}; }},
          {"d_sink: is the gradient of a tensor that is absent",
           [](G& g, Tensors&) { g.forward.sink = {}; }},
          {"a window counts keys",
           [](G& g, Tensors&) {
             g.forward.has_window = 1;
             g.forward.window_left = -2;
           }},
          {"a length is negative or beyond its extent",
           [](G& g, Tensors& t) {
             g.forward.kv_len = t.list<int64_t>({5, 6});
           }},
          {"d_k: has another storage type",
           [](G& g, Tensors&) { g.args.d_k.dtype = kF16; }, kUnsupported},
          {"d_sink: must be f32 or of the type of q",
           [](G& g, Tensors&) { g.args.d_sink.dtype = kBf16; }, kUnsupported},
          {"k_new",
           [](G& g, Tensors&) {
             g.forward.k_new = g.forward.k;
             g.forward.v_new = g.forward.v;
           },
           kUnsupported},
          {"block_table",
           [](G& g, Tensors&) { g.forward.block_table = g.forward.sink; },
           kUnsupported}};
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

// Some take dropout, and none a probability of 1.
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
    // A host that knows neither d_bias nor d_sink; what stands there is noise.
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

// ---- Layers -----------------------------------------------------------------

std::vector<const qkvet_kernel*> layer_kernels() {
  return kernels_that(
      [](const qkvet_kernel& kernel) { return kernel.layer != nullptr; });
}

// D = 6, H = 4, Hkv = 2, d = 3, dv = 5.
qkvet_layer_args layer_call(Tensors& t) {
  qkvet_layer_args a = {};
  a.struct_size = sizeof(a);
  a.heads = 4;
  a.kv_heads = 2;
  a.x = t.make({2, 4, 6});
  a.y = t.make({2, 4, 6});
  a.w_q = t.make({6, 12});
  a.w_k = t.make({6, 6});
  a.w_v = t.make({6, 10});
  a.w_o = t.make({20, 6});
  a.b_q = t.make({12});
  a.b_k = t.make({6});
  a.b_v = t.make({10});
  a.b_o = t.make({6});
  a.q = t.make({2, 4, 4, 3});
  a.k = t.make({2, 2, 4, 3});
  a.v = t.make({2, 2, 4, 5});
  a.attended = t.make({2, 4, 4, 5});
  return a;
}

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
      {"w_k has 7 rows, 6 are needed",
       [](A& a, Tensors& t) {
         a.w_k = t.make({7, 6});
       }},
      {"w_v has 7 rows, 6 are needed",
       [](A& a, Tensors& t) {
         a.w_v = t.make({7, 10});
       }},
      {"w_o has 6 rows, 20 are needed",
       [](A& a, Tensors& t) {
         a.w_o = t.make({6, 6});
       }},
      {"w_q has 12 columns",
       [](A& a, Tensors&) { a.heads = 5, a.kv_heads = 1; }},
      {"3 kv_heads do not divide 4 heads",
       [](A& a, Tensors&) { a.kv_heads = 3; }},
      {"0 kv_heads", [](A& a, Tensors&) { a.kv_heads = 0; }},
      {"-4 heads", [](A& a, Tensors&) { a.heads = -4; }},
      {"b_k has 8 elements, 6 are needed",
       [](A& a, Tensors& t) { a.b_k = t.make({8}); }},
      {"b_v has 12 elements, 10 are needed",
       [](A& a, Tensors& t) { a.b_v = t.make({12}); }},
      {"b_o has 7 elements, 6 are needed",
       [](A& a, Tensors& t) { a.b_o = t.make({7}); }},
      {"y has 7 columns, 6 are needed",
       [](A& a, Tensors& t) {
         a.y = t.make({2, 4, 7});
       }},
      {"y: a tensor has the wrong rank", [](A& a, Tensors&) { a.y.ndim = 2; }},
      {"w_o: a required tensor is absent", [](A& a, Tensors&) { a.w_o = {}; }},
      {"x: a required tensor is absent", [](A& a, Tensors&) { a.x = {}; }},
      {"k: a required tensor is absent", [](A& a, Tensors&) { a.k = {}; }},
      {"q has 4 channels, 3 are needed",
       [](A& a, Tensors& t) {
         a.q = t.make({2, 4, 4, 4});
       }},
      {"attended has 6 channels, 5 are needed",
       [](A& a, Tensors& t) {
         a.attended = t.make({2, 4, 4, 6});
       }},
      {"v has 4 heads, 2 are needed", [](A& a, Tensors&) { a.v = a.attended; }},
      {"v: is not of the declared type",
       [](A& a, Tensors&) { a.v.dtype = kBf16; }},
      {"this causal mode is not supported",
       [](A& a, Tensors&) { a.causal = QKVET_CAUSAL_BOTTOM_RIGHT + 1; },
       kUnsupported},
      {"w_v: has another storage type than x",
       [](A& a, Tensors&) { a.w_v.dtype = kF16; }, kUnsupported}};
}

std::vector<Refusal<qkvet_layer_args>> fused_rows() {
  using A = qkvet_layer_args;
  return {
      {"w_qkv or b_qkv, and no order of its parts",
       [](A& a, Tensors&) { a.fused = QKVET_FUSED_NONE; }},
      {"no order of w_qkv", [](A& a, Tensors&) { a.fused = 7; }},
      {"b_qkv is given with b_q, b_k and b_v, or none of them",
       [](A& a, Tensors&) { a.b_k = {}; }},
      {"mask_buffer and causal: the buffer is the rule alone",
       [](A& a, Tensors&) { a.causal = QKVET_CAUSAL_TOP_LEFT; }},
      {"mask_buffer: is not of bytes",
       [](A& a, Tensors& t) {
         a.mask_buffer = t.make({5, 5});
       }},
      {"mask_buffer: is not the causal mask",
       [](A& a, Tensors&) { static_cast<uint8_t*>(a.mask_buffer.data)[1] = 1; },
       kUnsupported}};
}

TEST(LayerRefused, ContradictionsByNameAndNothingIsWritten) {
  EXPECT_GE(layer_kernels().size(), 3u);
  for (const qkvet_kernel* kernel : layer_kernels()) {
    OpenKernel open(kernel);
    const auto run = [&](const qkvet_layer_args& a, qkvet_text* why) {
      return kernel->layer->forward(kernel, open.context(), &a, nullptr, why);
    };
    // Stages of f32 are of the declared type where x is of f32, too.
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
    // Callers that were built before there were fused matrices.
    qkvet_layer_args older = layer_call(t);
    older.struct_size = offsetof(qkvet_layer_args, w_qkv);
    older.fused = 99;
    EXPECT_EQ(run(older, nullptr), QKVET_OK) << kernel->name;
  }
}

// ---- Gradients of layers ----------------------------------------------------

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
  return {{"y: absent", [](G& g, Tensors&) { g.layer.y = g.layer.x; }},
          {"attended: absent",
           [](G& g, Tensors& t) {
             g.layer.attended = t.make({2, 4, 4, 5});
           }},
          {"d_y: a required tensor is absent",
           [](G& g, Tensors&) { g.args.d_y = {}; }},
          {"d_y has 7 at axis 2, 6 are needed",
           [](G& g, Tensors& t) {
             g.args.d_y = t.make({2, 4, 7});
           }},
          {"d_x: a tensor has the wrong rank",
           [](G& g, Tensors&) { g.args.d_x.ndim = 2; }},
          {"d_w_q has 7 at axis 0, 6 are needed",
           [](G& g, Tensors& t) {
             g.args.d_w_q = t.make({7, 12});
           }},
          {"d_w_v has 6 at axis 1, 10 are needed",
           [](G& g, Tensors&) { g.args.d_w_v = g.args.d_w_k; }},
          {"d_b_k: a required tensor is absent",
           [](G& g, Tensors&) { g.args.d_b_k = {}; }},
          {"d_b_o has 7 at axis 0, 6 are needed",
           [](G& g, Tensors& t) { g.args.d_b_o = t.make({7}); }},
          {"d_b_v: is the gradient of a bias that is absent",
           [](G& g, Tensors&) { g.layer.b_v = {}; }},
          {"w_k has 10 columns, 6 are needed",
           [](G& g, Tensors&) { g.layer.w_k = g.layer.w_v; }},
          {"d_w_v: has another storage type",
           [](G& g, Tensors&) { g.args.d_w_v.dtype = kF16; }, kUnsupported}};
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

// ---- Merges -----------------------------------------------------------------

qkvet_merge_args merge_call(Tensors& t, uint64_t options) {
  const bool ragged = (options & QKVET_MERGE_RAGGED) != 0;
  qkvet_merge_args a = {};
  a.struct_size = sizeof(a);
  a.states = ragged ? t.make({4, 2, 5}) : t.make({4, 3, 2, 5});
  a.states_lse = ragged ? t.make({4, 2}) : t.make({4, 3, 2});
  a.o = t.make({3, 2, 5});
  a.lse = t.make({3, 2});
  if (ragged) a.indptr = t.list<int64_t>({0, 1, 1, 4});
  a.in_place = (options & QKVET_MERGE_IN_PLACE) != 0 ? 1 : 0;
  if ((options & QKVET_MERGE_ROW_MASK) != 0) a.row_mask = t.make({3}, kBool);
  return a;
}

struct MergeRow {
  uint64_t options;
  Refusal<qkvet_merge_args> refusal;
};

std::vector<MergeRow> merge_rows() {
  using A = qkvet_merge_args;
  constexpr uint64_t kInPlace = QKVET_MERGE_IN_PLACE;
  constexpr uint64_t kRagged = QKVET_MERGE_RAGGED;
  return {
      {0,
       {"states, lse and o do not have the same rows, heads and channels",
        [](A& a, Tensors& t) {
          a.o = t.make({3, 2, 6});
        }}},
      {0,
       {"every lse is f32", [](A& a, Tensors&) { a.lse.dtype = kF16; },
        kUnsupported}},
      {kInPlace | QKVET_MERGE_ROW_MASK,
       {"row_mask without in_place", [](A& a, Tensors&) { a.in_place = 0; }}},
      {kInPlace | QKVET_MERGE_ROW_MASK,
       {"row_mask is [T] bytes",
        [](A& a, Tensors& t) { a.row_mask = t.make({4}, kBool); }}},
      {kRagged | kInPlace,
       {"in_place together with indptr", [](A&, Tensors&) {}}},
      {kRagged,
       {"indptr is [T + 1] int64",
        [](A& a, Tensors& t) {
          a.indptr = t.list<int32_t>({0, 1, 1, 4});
        }}},
      {kRagged,
       {"indptr does not begin at 0, or falls",
        [](A& a, Tensors& t) {
          a.indptr = t.list<int64_t>({0, 2, 1, 4});
        }}},
      {kRagged,
       {"indptr does not end at the number of states", [](A& a, Tensors& t) {
          a.indptr = t.list<int64_t>({0, 1, 1, 3});
        }}}};
}

std::vector<const qkvet_kernel*> merge_kernels() {
  return kernels_that([](const qkvet_kernel& kernel) {
    return kernel.merge != nullptr && is_declared(*kernel.capabilities, kF32);
  });
}

TEST(MergeRefused, ContradictionsAndNothingIsWritten) {
  for (const MergeRow& row : merge_rows()) {
    const auto make = [&row](Tensors& t) { return merge_call(t, row.options); };
    int checked = 0;
    for (const qkvet_kernel* kernel : merge_kernels()) {
      const uint64_t has = kernel->merge->options;
      if ((row.options & ~has) != 0 ||
          (has & QKVET_MERGE_LSE_HEADS_FIRST_ONLY) != 0) {
        continue;
      }
      ++checked;
      const auto run = [kernel](const qkvet_merge_args& a, qkvet_text* why) {
        return kernel->merge->merge(kernel, nullptr, &a, nullptr, why);
      };
      EXPECT_EQ(wrong_refusal<qkvet_merge_args>(row.refusal, make, run), "")
          << kernel->name << ": " << row.refusal.reason;
      EXPECT_EQ(wrong_with_newer<qkvet_merge_args>(
                    [](Tensors& t) { return merge_call(t, 0); }, run),
                "")
          << kernel->name;
    }
    EXPECT_GE(checked, 2) << row.refusal.reason;
  }
}

// Also lse as [n, T, H], by the one that takes [n, H, T] alone.
TEST(MergeRefused, FormsThatAreNotDeclared) {
  int refused = 0;
  for (const qkvet_kernel* kernel : merge_kernels()) {
    const uint64_t has = kernel->merge->options;
    for (const uint64_t form :
         {uint64_t{0}, QKVET_MERGE_RAGGED, QKVET_MERGE_IN_PLACE,
          QKVET_MERGE_IN_PLACE | QKVET_MERGE_ROW_MASK}) {
      const bool declared =
          (form & ~has) == 0 && (has & QKVET_MERGE_LSE_HEADS_FIRST_ONLY) == 0;
      refused += declared ? 0 : 1;
      Tensors t;
      const qkvet_merge_args args = merge_call(t, form);
      EXPECT_EQ(kernel->merge->merge(kernel, nullptr, &args, nullptr, nullptr),
                declared ? QKVET_OK : QKVET_UNSUPPORTED)
          << kernel->name << " " << form;
    }
  }
#ifndef QKVET_SANITIZED
  EXPECT_GE(refused, 1);
#endif
}

}  // namespace
}  // namespace qkvet::impl::gradient_refused_test
