// SPDX-License-Identifier: Apache-2.0
#include "properties/judging/answer.h"

#include "core/call/option_numbers.h"
#include "core/case/key_lists.h"
#include "properties/judging/twin_check.h"
#include "properties/judging/visibility.h"
#include "reference/options/rope.h"

namespace qkvet::properties {
namespace {

enum : int { kSoftcapAfterBias = 1, kSinkNotInLse = 2, kRangesInWindow = 4 };

template <class T>
const T* data_or_null(const std::vector<T>& values) {
  return values.empty() ? nullptr : values.data();
}

}  // namespace

int reading_of(const Case& value, const qkvet_dialect& dialect) {
  int reading = 0;
  if (value.softcap > 0 && (value.score_bias || value.slopes) &&
      dialect.softcap_order == QKVET_SOFTCAP_AFTER_MASK)
    reading |= kSoftcapAfterBias;
  if (value.sink && dialect.sink_in_lse == QKVET_SINK_NOT_IN_LSE)
    reading |= kSinkNotInLse;
  if (value.fields.ranges > 0 && value.window && ranges_in_window(dialect))
    reading |= kRangesInWindow;
  return reading;
}

Oracle truth_of(const Case& value, Oracle oracle) {
  const bool f64 = value.o_dtype == Dtype::kF64;
  return f64 && oracle == plain_forward ? twin_forward : oracle;
}

OwnedProblem::OwnedProblem(const Case& value, const Inputs& inputs, int reading)
    : mask_(full_mask(value, inputs)),
      bias_(full_bias(value, inputs)),
      problem_(make_problem(value.shape, value.causal, value.scale,
                            inputs.q.data(), inputs.k.data(),
                            inputs.v.data())) {
  problem_.window = value.window;
  problem_.mask = data_or_null(mask_);
  problem_.bias = data_or_null(bias_);
  problem_.slopes = data_or_null(inputs.slopes);
  problem_.member_slopes = value.member_slopes;
  problem_.places = data_or_null(inputs.token_places);
  copy_numbers(value, problem_);
  problem_.sink = data_or_null(inputs.sink);
  problem_.q_len = data_or_null(value.q_len);
  problem_.kv_len = data_or_null(value.kv_len);
  problem_.cu_q = data_or_null(value.cu_q);
  problem_.cu_k = data_or_null(value.cu_k);
  problem_.members =
      value.cu_q.empty() ? 0 : static_cast<int64_t>(value.cu_q.size()) - 1;
  problem_.rotation = {value.rope.style,
                       rope_channels(value),
                       data_or_null(inputs.rope_cos),
                       data_or_null(inputs.rope_sin),
                       data_or_null(inputs.q_positions),
                       data_or_null(inputs.k_positions)};
  if (value.listed.block > 1) {
    Case of_keys = value;
    expanded_.key_indices = inputs.key_indices;
    expanded_.topk_length = inputs.topk_length;
    expand_key_blocks(of_keys, expanded_);
    list_keys(of_keys, expanded_);
  } else {
    list_keys(value, inputs);
  }
  problem_.fields = {
      data_or_null(inputs.segments_q),  data_or_null(inputs.segments_k),
      data_or_null(inputs.full_ranges), value.fields.ranges,
      (reading & kRangesInWindow) != 0, value.chunk,
      data_or_null(inputs.tree_mask)};
  problem_.softcap_after_bias = (reading & kSoftcapAfterBias) != 0;
  problem_.sink_in_lse = (reading & kSinkNotInLse) == 0;
}

void OwnedProblem::list_keys(const Case& value, const Inputs& inputs) {
  if (value.listed.entries > 0)
    problem_.listed = {data_or_null(inputs.key_indices),
                       data_or_null(inputs.topk_length), value.listed.entries,
                       list_heads(value)};
}

LayerProblem layer_problem(const Case& value, const Inputs& inputs) {
  const auto data = [&](TensorName name) {
    const std::vector<double>& values = inputs.values(name);
    return values.empty() ? nullptr : values.data();
  };
  LayerProblem problem;
  problem.shape = value.shape;
  problem.causal = value.causal;
  problem.scale_given = value.scale.has_value();
  problem.scale = scale_of(value);
  problem.x = data(TensorName::kX);
  problem.w_q = data(TensorName::kWq);
  problem.w_k = data(TensorName::kWk);
  problem.w_v = data(TensorName::kWv);
  problem.w_o = data(TensorName::kWo);
  problem.b_q = data(TensorName::kBq);
  problem.b_k = data(TensorName::kBk);
  problem.b_v = data(TensorName::kBv);
  problem.b_o = data(TensorName::kBo);
  if (value.rope.style != RopeStyle::kNone)
    problem.rotation = {value.rope.style,          rope_channels(value),
                        inputs.rope_cos.data(),    inputs.rope_sin.data(),
                        inputs.q_positions.data(), nullptr};
  return problem;
}

Answer::Answer(const Problem& problem, Oracle oracle, bool with_twin,
               const InputErrors& errors)
    : problem_(problem), errors_(errors), oracle_(oracle(problem)) {
  if (!with_twin) return;
  if (oracle == twin_forward) {
    twin_disagrees_ =
        twin_disagreement(problem, plain_forward(problem), oracle_);
  } else {
    twin_disagrees_ =
        twin_disagreement(problem, oracle_, twin_forward(problem));
  }
}

const BoundFacts& Answer::facts_for(const PrecisionModel& model) {
  const bool turns = problem_.rotation.style != RopeStyle::kNone;
  if (facts_ && (!turns || *facts_of_ == model)) return *facts_;
  if (turns) {
    facts_ = rotated_facts(problem_, oracle_, model, errors_);
    facts_of_ = model;
  } else {
    facts_.emplace(problem_, oracle_, errors_);
  }
  return *facts_;
}

const Truth& Answer::truth_for(const KernelInfo& kernel,
                               const PrecisionModel& model, bool want_weights) {
  const bool base2 = kernel.dialect.lse_base == QKVET_LSE_BASE2;
  for (const auto& known : known_)
    if (known->model == model && known->with_weights >= want_weights &&
        known->base2 == base2)
      return known->truth;
  auto known = std::make_unique<Known>();
  known->model = model;
  known->with_weights = want_weights;
  known->base2 = base2;
  const BoundFacts& facts = facts_for(model);
  known->bound = compute_bound(facts, model, want_weights);
  known->reach = facts.reach();
  known->truth.oracle = oracle_;
  for (size_t n = 0; base2 && n < oracle_.lse.size(); ++n) {
    double& bound = known->bound.lse[n];
    bound = lse_bound_in_base2(oracle_.lse[n], bound, model);
    known->truth.oracle.lse[n] = lse_in_base2(oracle_.lse[n]);
  }
  known->truth.bound = &known->bound;
  known->truth.reach = &known->reach;
  known_.push_back(std::move(known));
  return known_.back()->truth;
}

}  // namespace qkvet::properties
