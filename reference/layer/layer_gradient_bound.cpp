// SPDX-License-Identifier: Apache-2.0
// The bound of the gradient of a layer that returns no stages: each stage's
// bound becomes the uncertainty of what the next one reads (bounds.md, "The
// gradient of a layer").
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "reference/layer/layer_gradient_stages.h"
#include "reference/options/rope.h"

namespace qkvet::reference {
namespace {

// Stands for an infinite error where it may be multiplied by zero.
constexpr double kHopeless = 1e200;

class LayerGradients {
 public:
  LayerGradients(const LayerGradientProblem& problem,
                 const LayerOutput& forward, const PrecisionModel& model,
                 Dtype stage)
      : problem_(problem),
        layer_(problem.forward),
        shape_(layer_.shape),
        forward_(forward),
        model_(model),
        stage_(stage),
        tokens_(shape_.B * shape_.Tq),
        stages_(layer_gradient_stages(problem, forward)) {}

  LayerGradientBound run(const LayerGradientOutput& truth);

 private:
  std::vector<double> stored(const std::vector<double>& x,
                             const std::vector<double>& bound) const {
    return stage_error(x, bound, stage_);
  }
  std::vector<double> projected(Projection which,
                                const std::vector<double>& x) const {
    return stored(x, projected_stage(layer_, which, model_, stage_).bound);
  }
  void attention();
  void turn_back(std::vector<double>& q, std::vector<double>& k) const;
  // [B,heads,T,width] to [heads width,B T]: x^T of a weight's gradient.
  std::vector<double> columns(Projection which,
                              const std::vector<double>& heads) const {
    return transposed(rows_of(shape_, which, heads), tokens_,
                      static_cast<int64_t>(heads.size()) / tokens_);
  }

  const LayerGradientProblem& problem_;
  const LayerProblem& layer_;
  const Shape& shape_;
  const LayerOutput& forward_;
  const PrecisionModel& model_;
  Dtype stage_;
  int64_t tokens_;
  LayerGradientStages stages_;
  // In heads.
  std::vector<double> o_off_;
  std::vector<double> d_q_off_, d_k_off_, d_v_off_;
};

void LayerGradients::attention() {
  const std::vector<double> q = projected(Projection::kQ, forward_.q);
  const std::vector<double> k = projected(Projection::kK, forward_.k);
  const std::vector<double> v = projected(Projection::kV, forward_.v);
  std::vector<double> w;
  const LinearProblem d_o = d_o_stage(problem_, w);
  const LinearBound rows = linear_bound(d_o, plain_linear(d_o), model_);
  const std::vector<double> d_o_off =
      stored(stages_.d_o, split_heads(shape_, Projection::kO, rows.bound));
  GradientProblem call;
  call.forward = attention_stage(layer_, forward_.q.data(), forward_.k.data(),
                                 forward_.v.data());
  call.d_o = stages_.d_o.data();
  call.o = forward_.attended.o.data();
  call.lse = forward_.attended.lse.data();
  GradientErrors errors;
  errors.inputs = {q.data(), k.data(), v.data()};
  const BoundFacts facts(call.forward, forward_.attended, errors.inputs);
  o_off_ = stored(forward_.attended.o,
                  compute_bound(facts, model_, /*want_weights=*/false).o);
  errors.d_o = d_o_off.data();
  errors.o = o_off_.data();
  const GradientBound bound =
      backward_bound(call, facts, stages_.attention, model_, errors);
  d_v_off_ = stored(stages_.attention.v, bound.v);
  d_q_off_ = stored(stages_.attention.q, bound.q);
  d_k_off_ = stored(stages_.attention.k, bound.k);
  if (layer_.rotation.style != RopeStyle::kNone) turn_back(d_q_off_, d_k_off_);
}

void LayerGradients::turn_back(std::vector<double>& q,
                               std::vector<double>& k) const {
  Problem before;
  before.shape = shape_;
  before.rotation = layer_.rotation;
  before.rotation.k_positions = before.rotation.q_positions;
  before.q = stages_.attention.q.data();
  before.k = stages_.attention.k.data();
  for (auto* off : {&q, &k}) {
    for (double& x : *off) x = std::min(x, kHopeless);
  }
  RotationErrors errors = rotation_errors(
      before, model_, {q.data(), k.data(), nullptr}, TurnWay::kBack);
  q = stored(stages_.d_q, errors.q);
  k = stored(stages_.d_k, errors.k);
}

LayerGradientBound LayerGradients::run(const LayerGradientOutput& truth) {
  attention();
  using Out = LayerGradientOutput;
  using Values = std::vector<double>;
  LayerGradientBound out;
  const auto keep = [&out](LinearBound of, Values Out::*member) {
    out.bound.*member = std::move(of.bound);
    out.reach.*member = std::move(of.reach);
  };
  const Values& d_v = stages_.attention.v;
  const Values ones(tokens_, 1.0);
  const struct {
    Projection which;
    const Values& dy;
    const Values& dy_off;
    Values Out::*w;
    Values Out::*b;
  } parts[] = {
      {Projection::kQ, stages_.d_q, d_q_off_, &Out::w_q, &Out::b_q},
      {Projection::kK, stages_.d_k, d_k_off_, &Out::w_k, &Out::b_k},
      {Projection::kV, d_v, d_v_off_, &Out::w_v, &Out::b_v},
  };
  // d_W^T = dy^T x and d_b = dy^T 1, of an uncertain dy.
  for (const auto& [which, dy, dy_off, w, b] : parts) {
    const int64_t width = static_cast<int64_t>(dy.size()) / tokens_;
    const Values value = columns(which, dy);
    const Values off = columns(which, dy_off);
    const LinearBound of_w = linear_bound(
        {width, tokens_, shape_.D, value.data(), layer_.x, nullptr},
        transposed(truth.*w, shape_.D, width), model_, off.data());
    keep({transposed(of_w.bound, width, shape_.D),
          transposed(of_w.reach, width, shape_.D)},
         w);
    keep(linear_bound({width, tokens_, 1, value.data(), ones.data(), nullptr},
                      truth.*b, model_, off.data()),
         b);
  }
  const Values merged = columns(Projection::kO, forward_.attended.o);
  const Values off = columns(Projection::kO, o_off_);
  keep(linear_bound({shape_.H * shape_.dv, tokens_, shape_.D, merged.data(),
                     problem_.d_y, nullptr},
                    truth.w_o, model_, off.data()),
       &Out::w_o);
  keep(linear_bound({1, tokens_, shape_.D, ones.data(), problem_.d_y, nullptr},
                    truth.b_o, model_),
       &Out::b_o);
  const InputStage last = d_x_stage(layer_, stages_.d_q, stages_.d_k, d_v);
  const Values x_off = side_by_side(layer_, d_q_off_, d_k_off_, d_v_off_);
  keep(linear_bound(last.problem, truth.x, model_, x_off.data()), &Out::x);
  return out;
}

}  // namespace

LayerGradientBound layer_backward_bound(const LayerGradientProblem& problem,
                                        const LayerOutput& forward,
                                        const LayerGradientOutput& truth,
                                        const PrecisionModel& model,
                                        Dtype stage) {
  return LayerGradients(problem, forward, model, stage).run(truth);
}

}  // namespace qkvet::reference
