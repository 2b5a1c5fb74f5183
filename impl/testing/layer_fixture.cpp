// SPDX-License-Identifier: Apache-2.0
#include "impl/testing/layer_fixture.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace qkvet::impl {
namespace {

void fill_random(AnyTensor* to, Storage type, uint64_t seed) {
  uint64_t index = 0;
  const std::vector<int64_t>& n = to->shape();
  for (int64_t a = 0; a < n[0]; ++a) {
    for (int64_t b = 0; b < n[1]; ++b) {
      for (int64_t c = 0; c < n[2]; ++c) {
        for (int64_t d = 0; d < n[3]; ++d) {
          to->set(a, b, c, d, any_value(type, seed, ++index));
        }
      }
    }
  }
}

// x W + b as [B, heads, T, width].
std::vector<double> project(const LayerTensors& call, const AnyTensor& w,
                            const AnyTensor& bias, int64_t heads,
                            int64_t width) {
  const LayerProblem& p = call.problem;
  std::vector<double> to;
  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t t = 0; t < p.tokens; ++t) {
        for (int64_t c = 0; c < width; ++c) {
          const int64_t column = h * width + c;
          double sum = p.biases ? double(bias.get(0, 0, 0, column)) : 0;
          for (int64_t i = 0; i < p.model_width; ++i) {
            sum +=
                double(call.x.get(0, b, t, i)) * double(w.get(0, 0, i, column));
          }
          to.push_back(sum);
        }
      }
    }
  }
  return to;
}

struct Heads {
  const std::vector<double>& data;  // [B, heads, T, width]
  int64_t heads, tokens, width;
  double at(int64_t b, int64_t h, int64_t t, int64_t c) const {
    return data[size_t(((b * heads + h) * tokens + t) * width + c)];
  }
};

void attend_row(const LayerProblem& p, const Heads& q, const Heads& k,
                const Heads& v, const int64_t (&at)[3], LayerTruth* out) {
  const auto [b, h, t] = at;
  const int64_t kv = h / (p.heads / p.kv_heads);
  const int64_t keys = p.is_causal() ? t + 1 : p.tokens;
  std::vector<double> w;
  double max = -std::numeric_limits<double>::infinity(), sum = 0;
  for (int64_t j = 0; j < keys; ++j) {
    double dot = 0;
    for (int64_t c = 0; c < p.width; ++c) {
      dot += q.at(b, h, t, c) * k.at(b, kv, j, c);
    }
    w.push_back(dot * double(p.effective_scale()));
    max = std::max(max, w.back());
  }
  for (double& x : w) {
    sum += x = std::exp(x - max);
  }
  for (int64_t j = 0; p.weights && j < p.tokens; ++j) {
    out->weights.push_back(j < keys ? w[size_t(j)] / sum : 0);
  }
  for (int64_t c = 0; c < p.value_width; ++c) {
    double o = 0;
    for (int64_t j = 0; j < keys; ++j) {
      o += w[size_t(j)] / sum * v.at(b, kv, j, c);
    }
    out->attended.push_back(o);
  }
}

// [batch, heads, tokens, width]
void turn(const RopeTables& rope, const LayerProblem& p,
          std::vector<double>* rows) {
  const std::vector<double> from = *rows;
  for (size_t n = 0; n < from.size(); ++n) {
    const auto row = int64_t(n) / p.width;
    (*rows)[n] = rope.turned(
        kFirstPosition + row % p.tokens, int64_t(n) % p.width,
        [&](int64_t channel) { return from[size_t(row * p.width + channel)]; });
  }
}

}  // namespace

float LayerProblem::effective_scale() const {
  return scale_given ? scale : static_cast<float>(1 / std::sqrt(double(width)));
}

std::vector<const qkvet_kernel*> layers(bool faulty) {
  return kernels_that(faulty, [](const qkvet_kernel& kernel) {
    return kernel.layer != nullptr && OpenKernel(&kernel).status() == QKVET_OK;
  });
}

Storage stage_type(const qkvet_kernel* kernel, Storage type) {
  return kernel->layer->stage.bits == 0 ? type : Storage::kF32;
}

LayerTensors::LayerTensors(const LayerProblem& p, Storage stage)
    : problem(p),
      x(p.type, {1, p.batch, p.tokens, p.model_width}, p.layout),
      w_q(p.type, {1, 1, p.model_width, p.heads * p.width}, p.layout),
      w_k(p.type, {1, 1, p.model_width, p.kv_heads * p.width}, p.layout),
      w_v(p.type, {1, 1, p.model_width, p.kv_heads * p.value_width}, p.layout),
      w_o(p.type, {1, 1, p.heads * p.value_width, p.model_width}, p.layout),
      b_q(p.type, {1, 1, 1, p.heads * p.width}),
      b_k(p.type, {1, 1, 1, p.kv_heads * p.width}),
      b_v(p.type, {1, 1, 1, p.kv_heads * p.value_width}),
      b_o(p.type, {1, 1, 1, p.model_width}),
      y(p.type, {1, p.batch, p.tokens, p.model_width}, p.layout),
      q(stage, {p.batch, p.heads, p.tokens, p.width}, p.layout),
      k(stage, {p.batch, p.kv_heads, p.tokens, p.width}, p.layout),
      v(stage, {p.batch, p.kv_heads, p.tokens, p.value_width}, p.layout),
      attended(stage, {p.batch, p.heads, p.tokens, p.value_width}, p.layout),
      rope(p.rope, kFirstPosition + p.tokens, p.width),
      w_qkv(p.type,
            {1, 1, p.model_width,
             p.heads * p.width + p.kv_heads * (p.width + p.value_width)}),
      b_qkv(p.type, {1, 1, 1, w_qkv.shape()[3]}),
      weights(p.type, {p.batch, p.heads, p.tokens, p.tokens}, p.layout) {
  uint64_t seed = 16 * p.seed;
  for (AnyTensor* tensor :
       {&x, &w_q, &w_k, &w_v, &w_o, &b_q, &b_k, &b_v, &b_o}) {
    fill_random(tensor, p.type, ++seed);
  }
}

void LayerTensors::fuse(qkvet_layer_args* args) {
  constexpr const char* kOrders[] = {"",    "qkv", "qvk", "kqv",
                                     "kvq", "vqk", "vkq"};
  args->fused = problem.fused;
  args->w_qkv = w_qkv.tensor(2);
  args->b_qkv = problem.biases ? b_qkv.tensor(1) : qkvet_tensor{};
  int64_t first = 0;
  for (const char* part = kOrders[problem.fused]; *part != 0; ++part) {
    const size_t n = *part == 'q' ? 0 : *part == 'k' ? 1 : 2;
    const AnyTensor* const from[][2] = {
        {&w_q, &b_q}, {&w_k, &b_k}, {&w_v, &b_v}};
    qkvet_tensor* const to[][2] = {{&args->w_q, &args->b_q},
                                   {&args->w_k, &args->b_k},
                                   {&args->w_v, &args->b_v}};
    const int64_t columns = from[n][0]->shape()[3];
    for (int64_t c = 0; c < columns; ++c) {
      b_qkv.set(0, 0, 0, first + c, from[n][1]->get(0, 0, 0, c));
      for (int64_t i = 0; i < problem.model_width; ++i) {
        w_qkv.set(0, 0, i, first + c, from[n][0]->get(0, 0, i, c));
      }
    }
    part_shapes_[n][0] = problem.model_width;
    part_shapes_[n][1] = columns;
    *to[n][0] = args->w_qkv;
    *to[n][1] = args->b_qkv;
    for (const size_t bias : {size_t{0}, size_t{1}}) {
      to[n][bias]->shape = part_shapes_[n] + bias;
      to[n][bias]->byte_offset += uint64_t(first * bytes_of(problem.type));
    }
    first += columns;
  }
  for (qkvet_tensor* const bias : {&args->b_q, &args->b_k, &args->b_v}) {
    *bias = problem.biases ? *bias : qkvet_tensor{};
  }
}

qkvet_layer_args LayerTensors::args() {
  for (AnyTensor* tensor : {&y, &q, &k, &v, &attended, &weights}) {
    tensor->fill(std::numeric_limits<float>::quiet_NaN());
  }
  const int32_t rank = problem.unbatched ? 2 : 3;
  qkvet_layer_args args = {};
  args.struct_size = sizeof(args);
  args.heads = problem.heads;
  args.kv_heads = problem.kv_heads;
  args.x = x.tensor(rank);
  args.w_q = w_q.tensor(2);
  args.w_k = w_k.tensor(2);
  args.w_v = w_v.tensor(2);
  args.w_o = w_o.tensor(2);
  if (problem.biases) {
    args.b_q = b_q.tensor(1);
    args.b_k = b_k.tensor(1);
    args.b_v = b_v.tensor(1);
    args.b_o = b_o.tensor(1);
  }
  args.y = y.tensor(rank);
  args.q = q.tensor();
  args.k = k.tensor();
  args.v = v.tensor();
  args.attended = attended.tensor();
  if (problem.fused != QKVET_FUSED_NONE) {
    fuse(&args);
  }
  if (problem.context > 0) {
    mask.clear();
    for (int64_t n = 0; n < problem.context * problem.context; ++n) {
      mask.push_back(n % problem.context <= n / problem.context);
    }
    mask_shape_[0] = mask_shape_[1] = mask_strides_[0] = problem.context;
    mask_strides_[1] = 1;
    args.mask_buffer = args.x;
    args.mask_buffer.data = mask.data();
    args.mask_buffer.byte_offset = 0;
    args.mask_buffer.ndim = 2;
    args.mask_buffer.dtype = {QKVET_DTYPE_UINT, 8, 1};
    args.mask_buffer.shape = mask_shape_;
    args.mask_buffer.strides = mask_strides_;
  }
  if (problem.weights) {
    args.weights = weights.tensor();
  }
  args.scale = problem.scale;
  args.scale_given = problem.scale_given;
  args.causal = problem.causal;
  args.rope = rope.style();
  args.rope_cos = rope.cos();
  args.rope_sin = rope.sin();
  if (problem.rope != QKVET_ROPE_NONE) {
    args.positions =
        rope.positions(problem.batch, problem.tokens, kFirstPosition);
  }
  return args;
}

LayerAnswer run_layer(const qkvet_kernel* kernel,
                      const qkvet_layer_args& args) {
  LayerAnswer answer;
  Reason reason;
  answer.status =
      kernel->layer->forward(kernel, nullptr, &args, nullptr, &reason.text);
  answer.reason = reason.room;
  return answer;
}

LayerAnswer run_layer(const qkvet_kernel* kernel, LayerTensors* call) {
  LayerAnswer answer = run_layer(kernel, call->args());
  answer.y = call->y.values();
  answer.q = call->q.values();
  answer.k = call->k.values();
  answer.v = call->v.values();
  answer.attended = call->attended.values();
  if (call->problem.weights) {
    answer.weights = call->weights.values();
  }
  return answer;
}

LayerAnswer answer_of(const qkvet_kernel* kernel, const LayerProblem& problem) {
  LayerTensors call(problem, stage_type(kernel, problem.type));
  return run_layer(kernel, &call);
}

LayerTruth truth_of(const LayerTensors& call) {
  const LayerProblem& p = call.problem;
  LayerTruth truth;
  truth.q = project(call, call.w_q, call.b_q, p.heads, p.width);
  truth.k = project(call, call.w_k, call.b_k, p.kv_heads, p.width);
  truth.v = project(call, call.w_v, call.b_v, p.kv_heads, p.value_width);
  turn(call.rope, p, &truth.q);
  turn(call.rope, p, &truth.k);
  const Heads q = {truth.q, p.heads, p.tokens, p.width};
  const Heads k = {truth.k, p.kv_heads, p.tokens, p.width};
  const Heads v = {truth.v, p.kv_heads, p.tokens, p.value_width};
  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t h = 0; h < p.heads; ++h) {
      for (int64_t t = 0; t < p.tokens; ++t) {
        attend_row(p, q, k, v, {b, h, t}, &truth);
      }
    }
  }
  const Heads attended = {truth.attended, p.heads, p.tokens, p.value_width};
  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t t = 0; t < p.tokens; ++t) {
      for (int64_t column = 0; column < p.model_width; ++column) {
        double sum = p.biases ? double(call.b_o.get(0, 0, 0, column)) : 0;
        for (int64_t i = 0; i < p.heads * p.value_width; ++i) {
          sum += attended.at(b, i / p.value_width, t, i % p.value_width) *
                 double(call.w_o.get(0, 0, i, column));
        }
        truth.y.push_back(sum);
      }
    }
  }
  return truth;
}

double layer_error(const std::vector<float>& actual,
                   const std::vector<double>& expected, double allowed) {
  double worst = actual.size() == expected.size()
                     ? 0
                     : std::numeric_limits<double>::infinity();
  for (size_t n = 0; n < std::min(actual.size(), expected.size()); ++n) {
    const double error = std::fabs(double(actual[n]) - expected[n]) / allowed;
    worst = error <= worst ? worst : error;
    worst = std::isnan(worst) ? std::numeric_limits<double>::infinity() : worst;
  }
  return worst;
}

double layer_error(const LayerAnswer& answer, const LayerTruth& truth,
                   const LayerProblem& p, Storage stage) {
  // Elements of x and of matrices are below 1: a column of a projection is at
  // most D + 1, a score moves by twice its relative error, y adds H dv terms.
  const double f32 = 0x1p-24;
  const double u = stage == Storage::kF32 ? 8 * f32 : 2 * unit_of(stage);
  const double d_model = double(p.model_width) + 1;
  const double projected = 4 * u * d_model;
  const double score = std::fabs(double(p.effective_scale())) *
                       double(p.width) * d_model * d_model;
  const double attended = 4 * u * d_model * (2 + score);
  const double y =
      attended * double(p.heads * p.value_width + 1) +
      unit_of(p.type) * d_model * double(p.heads * p.value_width + 1);
  return std::max(
      {layer_error(answer.q, truth.q, projected),
       layer_error(answer.k, truth.k, projected),
       layer_error(answer.v, truth.v, projected),
       layer_error(answer.attended, truth.attended, attended),
       layer_error(answer.weights, truth.weights, attended + unit_of(p.type)),
       layer_error(answer.y, truth.y, y)});
}

}  // namespace qkvet::impl
