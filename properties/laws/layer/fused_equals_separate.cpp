// SPDX-License-Identifier: Apache-2.0
// One matrix for q, k and v, or three: the columns are the same. A matrix cut
// out of a fused one at the wrong place is another projection.
#include "properties/calls/call_pairs.h"
#include "properties/calls/layer_calls.h"
#include "properties/judging/compare.h"
#include "properties/judging/law.h"

namespace qkvet::properties {
namespace of_fused_equals_separate {

Case constrain(Case value) {
  if (value.fused == FusedOrder::kNone) value.fused = FusedOrder::kQkv;
  return constrain_layer(std::move(value));
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan;
  uint64_t orders = 0;
  for (int order = 1; order < kFusedOrderCount; ++order)
    orders |= fused_option(static_cast<FusedOrder>(order));
  if ((kernel.layer_options & orders) == 0) {
    plan.unsupported = "the layer takes no fused projections";
    return plan;
  }
  plan.calls = {layer_call(kernel), layer_call(kernel)};
  plan.calls[1].variant = value;
  plan.calls[1].variant->fused = FusedOrder::kNone;
  return plan;
}

// One output of both calls. `bound` is that of each of them.
struct Pair {
  std::vector<double> fused, separate, bound, reach;
  Dtype dtype;
  std::function<std::string(int64_t)> name;
};

void compare(const Pair& pair, bool bitwise, Judgement& judgement) {
  for (size_t n = 0; n < pair.fused.size(); ++n) {
    auto finding =
        bitwise ? compare_exactly(pair.fused[n], pair.separate[n], pair.dtype,
                                  judgement)
                : compare_two_ways(
                      {pair.fused[n], pair.separate[n], 2 * pair.bound[n],
                       pair.reach[n], pair.dtype, "in one matrix", "in three"},
                      judgement);
    if (!finding) continue;
    finding->where = pair.name(static_cast<int64_t>(n));
    finding->looks = "w_qkv is cut at the wrong columns";
    add_failure(judgement, std::move(*finding));
    return;
  }
}

void compare_stages(const JudgeInput& input, const LayerProblem& problem,
                    bool bitwise, Judgement& judgement) {
  constexpr Projection kProjections[] = {Projection::kQ, Projection::kK,
                                         Projection::kV};
  const Dtype dtype = stage_dtype(input);
  const std::vector<Stage> fused = read_stages(input, input.calls[0]);
  const std::vector<Stage> separate = read_stages(input, input.calls[1]);
  for (size_t i = 0; i < fused.size(); ++i) {
    ProjectedStage stage;
    if (!bitwise)
      stage = projected_stage(problem, kProjections[i],
                              for_storage(input.model, dtype, dtype), dtype);
    compare(
        {fused[i].values, separate[i].values, stage.bound, stage.reach, dtype,
         [&](int64_t n) { return fused[i].layout.name(fused[i].name, n); }},
        bitwise, judgement);
  }
}

void compare_output(const JudgeInput& input, const LayerProblem& problem,
                    bool bitwise, Judgement& judgement) {
  const Dtype dtype = input.value.o_dtype, stage = stage_dtype(input);
  LayerBound bound;
  if (!bitwise)
    bound = layer_bound(problem, plain_layer(problem),
                        for_storage(input.model, stage, dtype), stage);
  compare({as_doubles(input.calls[0].outcome->y, dtype),
           as_doubles(input.calls[1].outcome->y, dtype), bound.y, bound.reach,
           dtype,
           [&](int64_t n) {
             return element_name(TensorName::kY, problem.shape, n);
           }},
          bitwise, judgement);
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const LayerProblem problem =
      layer_problem(input.value, *input.calls[0].inputs);
  const bool bitwise =
      claims_same_bits(input.kernel, QKVET_FLAG_LAYOUT_INVARIANT);
  if (returns_stages(input.kernel))
    compare_stages(input, problem, bitwise, judgement);
  if (judgement.verdict != Verdict::kFailed &&
      (bitwise || !returns_stages(input.kernel)))
    compare_output(input, problem, bitwise, judgement);
  return judgement;
}

}  // namespace of_fused_equals_separate

extern constinit const Law fused_equals_separate{
    "fused_equals_separate",
    "W_Q, W_K and W_V side by side in one matrix give what they give apart.",
    "layer(w_qkv, order) = layer(w_q, w_k, w_v)",
    "fused projections; with stages these are compared",
    "A column of the fused matrix is a column of one of the three.",
    "Bit for bit where the kernel declares that the layout changes nothing; "
    "else each side is within its own bound of the same number.",
    "(c) it sets one path of a kernel against another",
    60,
    Domain{.subject = Subject::kLayer, .allows = kLayerOptions},
    of_fused_equals_separate::constrain,
    of_fused_equals_separate::plan,
    of_fused_equals_separate::judge};

}  // namespace qkvet::properties
