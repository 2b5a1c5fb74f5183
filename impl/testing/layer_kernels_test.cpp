// SPDX-License-Identifier: Apache-2.0
// Every correct layer: by hand, against doubles, against its own stages, and on
// calls that it must refuse. That these questions can fail is what
// layer_faults_test.cpp shows.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "impl/testing/layer_fixture.h"

namespace qkvet::impl::layer_kernels_test {
namespace {

TEST(LayerKernels, AreThereAndAreNothingElse) {
  EXPECT_GE(layers(/*faulty=*/false).size(), 3u);
  for (const qkvet_kernel* kernel : layers(/*faulty=*/false)) {
    EXPECT_EQ(kernel->forward, nullptr) << kernel->name;
    EXPECT_EQ(kernel->cache, nullptr) << kernel->name;
  }
  const qkvet_dtype none = {};
  EXPECT_TRUE(
      is_same(find_kernel("controls/layer_half_stages")->layer->stage, none));
  EXPECT_TRUE(is_same(find_kernel("scalar/layer")->layer->stage, kF32));
}

// Two heads of width 1. W_Q = 0: every key weighs alike. W_V keeps x, so that
// head h averages channel h; W_O exchanges the heads, b_O adds (1, 2).
void by_hand(LayerTensors* call) {
  for (AnyTensor* tensor : {&call->w_q, &call->w_k, &call->w_v, &call->w_o,
                            &call->b_q, &call->b_k, &call->b_v}) {
    tensor->fill(0);
  }
  constexpr float kX[3][2] = {{1, 8}, {2, 4}, {6, 0}};
  for (int64_t t = 0; t < 3; ++t) {
    for (int64_t i = 0; i < 2; ++i) {
      call->x.set(0, 0, t, i, kX[t][i]);
    }
  }
  for (int64_t i = 0; i < 2; ++i) {
    call->w_k.set(0, 0, i, i, 1);
    call->w_v.set(0, 0, i, i, 1);
    call->w_o.set(0, 0, i, 1 - i, 1);
    call->b_o.set(0, 0, 0, i, static_cast<float>(i + 1));
  }
}

TEST(LayerKernels, ComputeASmallLayerByHand) {
  for (const Storage type : kAllStorages) {
    for (const bool unbatched : {false, true}) {
      for (const qkvet_kernel* kernel : layers(/*faulty=*/false)) {
        LayerTensors call({.tokens = 3,
                           .model_width = 2,
                           .heads = 2,
                           .kv_heads = 2,
                           .type = type,
                           .unbatched = unbatched},
                          stage_type(kernel, type));
        by_hand(&call);
        LayerAnswer answer = run_layer(kernel, &call);
        ASSERT_EQ(answer.status, QKVET_OK) << answer.reason;
        EXPECT_EQ(answer.q, std::vector<float>(6, 0));
        EXPECT_EQ(answer.k, (std::vector<float>{1, 2, 6, 8, 4, 0}));
        EXPECT_EQ(answer.v, (std::vector<float>{1, 2, 6, 8, 4, 0}));
        EXPECT_EQ(answer.attended, (std::vector<float>{3, 3, 3, 4, 4, 4}));
        EXPECT_EQ(answer.y, (std::vector<float>{5, 5, 5, 5, 5, 5}));

        call.problem.causal = QKVET_CAUSAL_TOP_LEFT;
        answer = run_layer(kernel, &call);
        EXPECT_EQ(answer.attended, (std::vector<float>{1, 1.5, 3, 8, 6, 4}));
        EXPECT_EQ(answer.y, (std::vector<float>{9, 3, 7, 3.5, 5, 5}))
            << kernel->name;
      }
    }
  }
}

std::vector<LayerProblem> problems() {
  return {{},
          {.tokens = 5,
           .model_width = 8,
           .heads = 2,
           .kv_heads = 2,
           .width = 4,
           .value_width = 4},
          {.batch = 2,
           .tokens = 4,
           .model_width = 6,
           .heads = 4,
           .kv_heads = 2,
           .width = 3,
           .value_width = 5,
           .biases = false,
           .causal = QKVET_CAUSAL_BOTTOM_RIGHT,
           .layout = Layout::kBthd},
          {.batch = 3,
           .tokens = 2,
           .model_width = 5,
           .heads = 3,
           .kv_heads = 1,
           .width = 2,
           .value_width = 1,
           .causal = QKVET_CAUSAL_TOP_LEFT,
           .scale_given = true,
           .scale = -0.25f,
           .layout = Layout::kGaps},
          {.tokens = 7,
           .model_width = 4,
           .heads = 2,
           .kv_heads = 1,
           .width = 8,
           .value_width = 2,
           .unbatched = true,
           .layout = Layout::kBhdt}};
}

TEST(LayerKernels, AgreeWithDoubles) {
  for (const Storage type : kAllStorages) {
    for (LayerProblem p : problems()) {
      p.type = type;
      for (const qkvet_kernel* kernel : layers(/*faulty=*/false)) {
        const Storage stage = stage_type(kernel, type);
        LayerTensors call(p, stage);
        const LayerAnswer answer = run_layer(kernel, &call);
        ASSERT_EQ(answer.status, QKVET_OK) << answer.reason;
        EXPECT_LE(layer_error(answer, truth_of(call), p, stage), 1)
            << kernel->name << " D " << p.model_width << " T " << p.tokens;
      }
    }
  }
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Attention on q, k and v as controls/naive has it, whose arithmetic is that of
// the readable layers, on what the stages say.
std::vector<float> attend_again(const LayerProblem& p,
                                const LayerAnswer& answer) {
  Call call({.batch = p.batch,
             .heads = p.heads,
             .kv_heads = p.kv_heads,
             .queries = p.tokens,
             .keys = p.tokens,
             .width = p.width,
             .value_width = p.value_width,
             .causal = p.causal,
             .scale_given = p.scale_given,
             .scale = p.scale});
  std::copy(answer.q.begin(), answer.q.end(), call.q.begin());
  std::copy(answer.k.begin(), answer.k.end(), call.k.begin());
  std::copy(answer.v.begin(), answer.v.end(), call.v.begin());
  OpenKernel open(find_kernel("controls/naive"));
  EXPECT_EQ(open.forward(call.args()), QKVET_OK);
  return {call.o.begin(), call.o.begin() + call.o.count()};
}

// The last projection of what the stage says, in the order that is declared.
std::vector<float> project_again(const LayerTensors& call,
                                 const LayerAnswer& answer) {
  const LayerProblem& p = call.problem;
  std::vector<float> y;
  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t t = 0; t < p.tokens; ++t) {
      for (int64_t column = 0; column < p.model_width; ++column) {
        float sum = 0;
        for (int64_t h = 0; h < p.heads; ++h) {
          for (int64_t c = 0; c < p.value_width; ++c) {
            const auto at =
                size_t(((b * p.heads + h) * p.tokens + t) * p.value_width + c);
            sum += answer.attended[at] *
                   call.w_o.get(0, 0, h * p.value_width + c, column);
          }
        }
        sum = p.biases ? sum + call.b_o.get(0, 0, 0, column) : sum;
        y.push_back(round_to(p.type, sum));
      }
    }
  }
  return y;
}

// The stages are what the next stage reads, bit by bit.
TEST(LayerKernels, ReturnTheStagesThatTheyUse) {
  for (const char* name : {"scalar/layer", "controls/layer_half_stages"}) {
    const qkvet_kernel* const kernel = find_kernel(name);
    for (const Storage type : kAllStorages) {
      for (LayerProblem p : problems()) {
        p.type = type;
        const Storage stage = stage_type(kernel, type);
        LayerTensors call(p, stage);
        const LayerAnswer answer = run_layer(kernel, &call);
        std::vector<float> attended = attend_again(p, answer);
        for (float& value : attended) {
          value = round_to(stage, value);
        }
        EXPECT_TRUE(same_bits(answer.attended, attended)) << name;
        EXPECT_TRUE(same_bits(answer.y, project_again(call, answer))) << name;
      }
    }
  }
}

// Half stages are not f32 stages that were rounded on their way out: y differs.
TEST(LayerKernels, HalfStagesReachY) {
  LayerProblem p = problems()[1];
  for (const Storage type : kAllStorages) {
    p.type = type;
    const LayerAnswer wide = answer_of(find_kernel("scalar/layer"), p);
    const LayerAnswer half =
        answer_of(find_kernel("controls/layer_half_stages"), p);
    EXPECT_EQ(same_bits(wide.q, half.q), type == Storage::kF32);
    EXPECT_EQ(same_bits(wide.y, half.y), type == Storage::kF32);
  }
}

TEST(LayerKernels, StagesAreOptional) {
  for (const qkvet_kernel* kernel : layers(/*faulty=*/false)) {
    LayerTensors call(problems()[2]);
    const LayerAnswer with = run_layer(kernel, &call);
    qkvet_layer_args args = call.args();
    args.q = args.k = args.v = args.attended = {};
    EXPECT_EQ(run_layer(kernel, args).status, QKVET_OK);
    EXPECT_TRUE(same_bits(call.y.values(), with.y)) << kernel->name;
  }
}

struct Mistake {
  const char* reason;  // a part of it
  std::function<void(qkvet_layer_args&, LayerTensors&)> make;
};

// In a layer with D = 6, H = 4, Hkv = 2, d = 3, dv = 5; `other` has D = 7,
// d = 4 and dv = 6.
std::vector<Mistake> mistakes() {
  using A = qkvet_layer_args;
  using O = LayerTensors;
  return {
      {"w_q has 7 rows, 6 are needed",
       [](A& a, O& o) { a.w_q = o.w_q.tensor(2); }},
      {"w_k has 7 rows, 6 are needed",
       [](A& a, O& o) { a.w_k = o.w_k.tensor(2); }},
      {"w_v has 7 rows, 6 are needed",
       [](A& a, O& o) { a.w_v = o.w_v.tensor(2); }},
      {"w_o has 24 rows, 20 are needed",
       [](A& a, O& o) { a.w_o = o.w_o.tensor(2); }},
      {"w_k has 10 columns, 6 are needed", [](A& a, O&) { a.w_k = a.w_v; }},
      {"w_o has 6 rows, 20 are needed", [](A& a, O&) { a.w_o = a.w_q; }},
      {"w_q has 12 columns", [](A& a, O&) { a.heads = 5, a.kv_heads = 1; }},
      {"3 kv_heads do not divide 4 heads", [](A& a, O&) { a.kv_heads = 3; }},
      {"0 kv_heads", [](A& a, O&) { a.kv_heads = 0; }},
      {"-4 heads", [](A& a, O&) { a.heads = -4; }},
      {"w_k has 6 columns, 12 are needed", [](A& a, O&) { a.kv_heads = 4; }},
      {"b_q has 16 elements, 12 are needed",
       [](A& a, O& o) { a.b_q = o.b_q.tensor(1); }},
      {"b_k has 8 elements, 6 are needed",
       [](A& a, O& o) { a.b_k = o.b_k.tensor(1); }},
      {"b_v has 12 elements, 10 are needed",
       [](A& a, O& o) { a.b_v = o.b_v.tensor(1); }},
      {"b_o has 7 elements, 6 are needed",
       [](A& a, O& o) { a.b_o = o.b_o.tensor(1); }},
      {"y has 7 columns, 6 are needed",
       [](A& a, O& o) { a.y = o.y.tensor(3); }},
      {"y: a tensor has the wrong rank", [](A& a, O&) { a.y.ndim = 2; }},
      {"w_o: a required tensor is absent", [](A& a, O&) { a.w_o = {}; }},
      {"x: a required tensor is absent", [](A& a, O&) { a.x = {}; }},
      {"k: a required tensor is absent", [](A& a, O&) { a.k = {}; }},
      {"q has 4 channels, 3 are needed",
       [](A& a, O& o) { a.q = o.q.tensor(); }},
      {"attended has 6 channels, 5 are needed",
       [](A& a, O& o) { a.attended = o.attended.tensor(); }},
      {"v has 4 heads, 2 are needed", [](A& a, O&) { a.v = a.attended; }},
      {"v: is not of the declared type", [](A& a, O&) { a.v.dtype = kBf16; }},
  };
}

TEST(LayerKernels, RefuseContradictionsByNameAndWriteNothing) {
  const LayerProblem right = {.batch = 2,
                              .tokens = 4,
                              .model_width = 6,
                              .heads = 4,
                              .kv_heads = 2,
                              .width = 3,
                              .value_width = 5};
  LayerProblem wrong = right;
  wrong.model_width = 7;
  wrong.width = 4;
  wrong.value_width = 6;
  LayerTensors call(right), other(wrong);
  for (const qkvet_kernel* kernel : layers(/*faulty=*/false)) {
    for (const Mistake& mistake : mistakes()) {
      qkvet_layer_args args = call.args();
      mistake.make(args, other);
      const LayerAnswer answer = run_layer(kernel, args);
      EXPECT_EQ(answer.status, QKVET_INVALID_ARGUMENT)
          << kernel->name << " " << mistake.reason;
      EXPECT_NE(answer.reason.find(mistake.reason), std::string::npos)
          << answer.reason << " | " << mistake.reason;
      EXPECT_EQ(answer.reason.find('\n'), std::string::npos);
      for (const AnyTensor* out :
           {&call.y, &call.q, &call.k, &call.v, &call.attended}) {
        for (const float value : out->values()) {
          ASSERT_TRUE(std::isnan(value)) << mistake.reason;
        }
      }
    }
    EXPECT_EQ(run_layer(kernel, &call).status, QKVET_OK);
  }
}

TEST(LayerKernels, RefuseWhatTheyDoNotKnow) {
  for (const qkvet_kernel* kernel : layers(/*faulty=*/false)) {
    LayerTensors call(problems()[1]);
    qkvet_layer_args args = call.args();
    args.causal = QKVET_CAUSAL_BOTTOM_RIGHT + 1;
    EXPECT_EQ(run_layer(kernel, args).status, QKVET_UNSUPPORTED);
    args = call.args();
    args.w_v.dtype = kF16;
    EXPECT_EQ(run_layer(kernel, args).status, QKVET_UNSUPPORTED);
    struct Newer {
      qkvet_layer_args args;
      uint64_t field;
    } newer = {call.args(), 1};
    newer.args.struct_size = sizeof(newer);
    EXPECT_EQ(run_layer(kernel, newer.args).status, QKVET_UNSUPPORTED);
    newer.field = 0;
    EXPECT_EQ(run_layer(kernel, newer.args).status, QKVET_OK);
  }
}

}  // namespace
}  // namespace qkvet::impl::layer_kernels_test
