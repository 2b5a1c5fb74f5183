// SPDX-License-Identifier: Apache-2.0
#include "cli/kernels/recovered_weights.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "properties/calls/layer_calls.h"
#include "properties/judging/compare.h"
#include "properties/judging/outcome.h"
#include "properties/judging/subject.h"

namespace qkvet::cli {
namespace {

int64_t parts(int64_t extent, int64_t width) {
  return width > 0 ? (extent + width - 1) / width : 0;
}

// V with channel c equal to 1 at key first + c. Elements beyond lengths stay
// NaN.
void unit_values(const Case& value, int64_t first, Inputs& inputs) {
  const Shape& s = value.shape;
  for (int64_t n = 0; n < s.v_elements(); ++n) {
    double& v = inputs.v[static_cast<size_t>(n)];
    if (!std::isnan(v)) v = n / s.dv % s.Tk == first + n % s.dv ? 1 : 0;
  }
}

Plan plan_attention(const Case& value, const KernelInfo&) {
  Plan plan;
  for (int64_t first = 0; first < value.shape.Tk; first += value.shape.dv) {
    PlannedCall call;
    call.edit = unit_values;
    call.argument = first;
    call.needs_truth = true;
    plan.calls.push_back(call);
  }
  return plan;
}

// One call to a layer with the identity as x. Its answer covers the keys from
// first_key on and the merged columns from first_column on.
struct LayerQuestion {
  int64_t member, first_key, first_column;
};

int64_t key_parts(const Shape& s) { return parts(s.Tq, s.dv); }
int64_t column_parts(const Shape& s) { return parts(s.H * s.dv, s.D); }

LayerQuestion question_of(const Shape& s, int64_t n) {
  const int64_t columns = column_parts(s);
  return {n / columns / key_parts(s), n / columns % key_parts(s) * s.dv,
          n % columns * s.D};
}

// The first T rows of a matrix of D rows, the others 0.
std::vector<double> as_matrix(const std::vector<double>& rows, int64_t member,
                              const Shape& s, int64_t width) {
  std::vector<double> out(static_cast<size_t>(s.D * width));
  const auto* from = rows.data() + member * s.Tq * width;
  std::copy(from, from + s.Tq * width, out.begin());
  return out;
}

void unit_tokens(const Case& value, int64_t n, Inputs& inputs) {
  const Shape& s = value.shape;
  const LayerQuestion asked = question_of(s, n);
  const LayerProblem problem = layer_problem(value, inputs);
  const std::vector<double> q =
      plain_linear(projection_stage(problem, Projection::kQ, problem.x));
  const std::vector<double> k =
      plain_linear(projection_stage(problem, Projection::kK, problem.x));
  inputs.values(TensorName::kWq) = as_matrix(q, asked.member, s, s.H * s.d);
  inputs.values(TensorName::kWk) = as_matrix(k, asked.member, s, s.Hkv * s.d);
  for (int name = static_cast<int>(TensorName::kBq);
       name <= static_cast<int>(TensorName::kBo); ++name) {
    std::vector<double>& bias = inputs.values(static_cast<TensorName>(name));
    std::fill(bias.begin(), bias.end(), 0.0);
  }
  const auto fill = [&](TensorName name, int64_t width, auto one_at) {
    std::vector<double>& matrix = inputs.values(name);
    for (size_t e = 0; e < matrix.size(); ++e)
      matrix[e] = one_at(static_cast<int64_t>(e) / width,
                         static_cast<int64_t>(e) % width)
                      ? 1
                      : 0;
  };
  fill(TensorName::kX, s.D, [&](int64_t row, int64_t c) {
    return row / s.Tq == asked.member && row % s.Tq == c;
  });
  fill(TensorName::kWv, s.Hkv * s.dv, [&](int64_t row, int64_t c) {
    return row < s.Tq && row == asked.first_key + c % s.dv;
  });
  fill(TensorName::kWo, s.D,
       [&](int64_t row, int64_t c) { return row == asked.first_column + c; });
}

Plan plan_layer(const Case& value, const KernelInfo& kernel) {
  const Shape& s = value.shape;
  Plan plan;
  for (int64_t n = 0; n < s.B * key_parts(s) * column_parts(s); ++n) {
    PlannedCall call = layer_call(kernel);
    call.edit = unit_tokens;
    call.argument = n;
    plan.calls.push_back(call);
  }
  return plan;
}

std::string calls_text(int64_t count) {
  return fmt::format("{} call{}", count, count == 1 ? "" : "s");
}

std::string too_many(int64_t calls, int64_t dv) {
  return fmt::format(
      "it returns no weights, and with dv = {} it would take {} to ask for "
      "them (at most {} are made)",
      dv, calls_text(calls), kMostAsked);
}

// Whether the calls failed; if so, `out` has the reason.
bool has_trouble(std::span<const PlannedCall> planned,
                 const std::vector<CallOutcome>& outcomes,
                 RecoveredWeights& out) {
  for (size_t n = 0; n < outcomes.size(); ++n) {
    auto judgement = judge_outcome(planned[n], outcomes[n]);
    if (!judgement) continue;
    out.how =
        "it returns no weights, and did not answer when asked for them: " +
        (judgement->finding ? judgement->finding->actual : judgement->reason);
    if (judgement->verdict == Verdict::kFailed)
      out.judgement = std::move(judgement);
    return true;
  }
  return false;
}

// "o[b=0,h=0,i=1,c=2]" of a call from key `first` on.
std::string weight_name(std::string where, int64_t first) {
  const size_t at = where.find(",c=");
  if (at == std::string::npos) return where;
  const int64_t key = first + std::stoll(where.substr(at + 3));
  return "weights" + where.substr(1, at - 1) + ",j=" + std::to_string(key) +
         "]";
}

void judge_keys(const JudgeInput& input, const CallView& call, int64_t first,
                Judgement& all) {
  Judgement one;
  compare_with_truth(input, call, TensorName::kO, one);
  all.compared += one.compared;
  all.vacuous += one.vacuous;
  all.worst_ratio = std::max(all.worst_ratio, one.worst_ratio);
  if (!one.finding) return;
  one.finding->where = weight_name(one.finding->where, first);
  add_failure(all, std::move(*one.finding));
}

}  // namespace

RecoveredWeights ask_attention(const Case& value, const Inputs& inputs,
                               const JudgedKernel& kernel, Executor& executor,
                               int index, int64_t member) {
  const Shape& s = value.shape;
  RecoveredWeights out;
  const int64_t count = parts(s.Tk, s.dv);
  if (count > kMostAsked) out.how = too_many(count, s.dv);
  if (count < 1 || count > kMostAsked) return out;
  Law law = agreement_about(Subject::kAttention);
  law.own_plan = plan_attention;
  TimeUse time;
  CaseWork work(law, value, /*with_twin=*/false, time);
  work.take_inputs(inputs);
  const std::vector<KernelCall> calls = work.calls_for(kernel);
  const std::vector<CallOutcome> outcomes = executor.run(index, calls);
  const Plan plan = plan_attention(value, kernel.info);
  if (has_trouble(plan.calls, outcomes, out)) return out;
  out.weights.resize(static_cast<size_t>(s.H * s.Tq * s.Tk));
  out.judgement.emplace();
  for (size_t n = 0; n < outcomes.size(); ++n) {
    const int64_t first = plan.calls[n].argument;
    const std::vector<double> o = as_doubles(outcomes[n].o, value.o_dtype);
    for (int64_t row = 0; row < s.H * s.Tq; ++row)
      for (int64_t c = 0; c < std::min(s.dv, s.Tk - first); ++c)
        out.weights[static_cast<size_t>(row * s.Tk + first + c)] =
            o[static_cast<size_t>((member * s.H * s.Tq + row) * s.dv + c)];
    const CaseWork::WholeCall whole = work.whole_call(kernel, n);
    const CallView view{&whole.planned, &whole.inputs, &outcomes[n],
                        whole.truth};
    judge_keys({value, kernel.info, kernel.model, {&view, 1}}, view, first,
               *out.judgement);
  }
  out.how = "the o of " + calls_text(count) +
            " with V = columns of I, for it returns none";
  return out;
}

RecoveredWeights ask_layer(const Case& value, const Inputs& inputs,
                           const JudgedKernel& kernel, Executor& executor,
                           int index, int64_t member) {
  const Shape& s = value.shape;
  RecoveredWeights out;
  const bool stages = returns_stages(kernel.info);
  const int64_t count = key_parts(s) * (stages ? 1 : column_parts(s));
  if (s.Tq > s.D)
    out.how = fmt::format(
        "a layer returns no weights, and D = {} is too narrow to ask for them "
        "(T = {})",
        s.D, s.Tq);
  else if (count > kMostAsked)
    out.how = too_many(count, s.dv);
  if (count < 1 || !out.how.empty()) return out;
  Law law = agreement_about(Subject::kLayer);
  law.own_plan = plan_layer;
  TimeUse time;
  CaseWork work(law, value, /*with_twin=*/false, time);
  work.take_inputs(inputs);
  const std::vector<KernelCall> all = work.calls_for(kernel);
  const Plan plan = plan_layer(value, kernel.info);
  std::vector<KernelCall> calls;
  std::vector<PlannedCall> planned;
  for (size_t n = 0; n < all.size(); ++n) {
    const LayerQuestion asked = question_of(s, static_cast<int64_t>(n));
    if (asked.member != member || (stages && asked.first_column > 0)) continue;
    calls.push_back(all[n]);
    planned.push_back(plan.calls[n]);
  }
  const std::vector<CallOutcome> outcomes = executor.run(index, calls);
  if (has_trouble(planned, outcomes, out)) return out;
  out.weights.resize(static_cast<size_t>(s.H * s.Tq * s.Tq));
  const Dtype stage = kernel.info.stage_dtype(value.q_dtype);
  for (size_t n = 0; n < outcomes.size(); ++n) {
    const LayerQuestion asked = question_of(s, planned[n].argument);
    const std::vector<double> heads = as_doubles(outcomes[n].attended, stage);
    const std::vector<double> y = as_doubles(outcomes[n].y, value.o_dtype);
    for (int64_t h = 0; h < s.H; ++h)
      for (int64_t i = 0; i < s.Tq; ++i)
        for (int64_t c = 0; c < std::min(s.dv, s.Tq - asked.first_key); ++c) {
          const int64_t column = h * s.dv + c - asked.first_column;
          if (!stages && (column < 0 || column >= s.D)) continue;
          out.weights[static_cast<size_t>((h * s.Tq + i) * s.Tq +
                                          asked.first_key + c)] =
              stages
                  ? heads[static_cast<size_t>(
                        ((member * s.H + h) * s.Tq + i) * s.dv + c)]
                  : y[static_cast<size_t>((member * s.Tq + i) * s.D + column)];
        }
  }
  out.how = "the heads of " + calls_text(count) +
            " with x = I, W_Q = q, W_K = k and W_V = columns of I";
  return out;
}

}  // namespace qkvet::cli
