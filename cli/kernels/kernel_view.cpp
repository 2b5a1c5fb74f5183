// SPDX-License-Identifier: Apache-2.0
#include "cli/kernels/kernel_view.h"

#include <algorithm>

#include "cli/kernels/recovered_weights.h"
#include "properties/calls/layer_stages.h"
#include "properties/judging/compare.h"
#include "properties/judging/outcome.h"
#include "properties/judging/subject.h"

namespace qkvet::cli {
namespace {

Judgement in_doubt(const std::string& reason) {
  Judgement judgement;
  judgement.verdict = Verdict::kGaveUp;
  judgement.reason = reason;
  return judgement;
}

KernelStage against_truth(const JudgeInput& input, TensorName tensor) {
  KernelStage stage{tensor_name(tensor), {}};
  compare_with_truth(input, input.calls[0], tensor, stage.judgement);
  return stage;
}

void view_attention(const JudgeInput& input, const JudgedKernel& kernel,
                    Executor& executor, int index, int64_t member,
                    AskForWeights ask, KernelView& view) {
  const Case& value = input.value;
  const CallOutcome& outcome = *input.calls[0].outcome;
  const Shape& s = value.shape;
  view.output = as_doubles(outcome.o, value.o_dtype);
  if (!outcome.lse.empty())
    view.stages.push_back(against_truth(input, TensorName::kLse));
  // A call with an empty extent has no weights, and no member that they are of.
  const bool has_weights = s.weights_elements() > 0;
  if (!outcome.weights.empty()) {
    view.stages.push_back(against_truth(input, TensorName::kWeights));
    const std::vector<double> all = as_doubles(outcome.weights, value.o_dtype);
    const auto from = all.begin() + member * s.H * s.Tq * s.Tk;
    view.weights.assign(from, from + s.H * s.Tq * s.Tk);
    view.weights_from = "as it returns them";
  } else if (ask == AskForWeights::kYes && has_weights) {
    RecoveredWeights asked = ask_attention(value, *input.calls[0].inputs,
                                           kernel, executor, index, member);
    view.weights = std::move(asked.weights);
    view.weights_from = std::move(asked.how);
    if (asked.judgement)
      view.stages.push_back({"weights", std::move(*asked.judgement)});
  }
  view.stages.push_back(against_truth(input, TensorName::kO));
}

void view_layer(const JudgeInput& input, const JudgedKernel& kernel,
                Executor& executor, int index, int64_t member,
                AskForWeights ask, KernelView& view) {
  view.output = as_doubles(input.calls[0].outcome->y, input.value.o_dtype);
  for (StageJudgement& stage : judge_layer_stages(input, WrongStage::kGoesOn))
    view.stages.push_back({stage.name, std::move(stage.judgement)});
  if (ask == AskForWeights::kNo) return;
  RecoveredWeights asked = ask_layer(input.value, *input.calls[0].inputs,
                                     kernel, executor, index, member);
  view.weights = std::move(asked.weights);
  view.weights_from = std::move(asked.how);
  if (asked.judgement)
    view.stages.push_back({"weights", std::move(*asked.judgement)});
}

}  // namespace

const KernelStage* KernelView::parts_at() const {
  const auto found =
      std::find_if(stages.begin(), stages.end(), [](const KernelStage& stage) {
        return stage.judgement.verdict == Verdict::kFailed;
      });
  return found == stages.end() ? nullptr : &*found;
}

// 4 > 1 > 3 > 0.
ExitCode KernelView::exit_code() const {
  const auto died = [](const Judgement& judgement) {
    return judgement.verdict == Verdict::kFailed &&
           (judgement.kind == FailureKind::kCrash ||
            judgement.kind == FailureKind::kHang);
  };
  if (ended)
    return died(*ended)                         ? kKernelDied
           : ended->verdict == Verdict::kFailed ? kLawFailed
                                                : kNothingChecked;
  for (const KernelStage& stage : stages)
    if (died(stage.judgement)) return kKernelDied;
  if (parts_at() != nullptr) return kLawFailed;
  int64_t compared = 0;
  for (const KernelStage& stage : stages) {
    compared += stage.judgement.compared;
    if (stage.judgement.verdict != Verdict::kPassed) return kNothingChecked;
  }
  return compared > 0 ? kConforms : kNothingChecked;
}

KernelView view_kernel(const Case& value, const Inputs& inputs,
                       const JudgedKernel& kernel, Executor& executor,
                       int index, int64_t member, AskForWeights ask) {
  KernelView view;
  TimeUse time;
  CaseWork work(agreement_about(value.subject()), value, /*with_twin=*/true,
                time);
  work.take_inputs(inputs);
  view.ended = work.settled(kernel);
  if (view.ended) return view;
  const std::vector<KernelCall> calls = work.calls_for(kernel);
  const std::vector<CallOutcome> outcomes = executor.run(index, calls);
  const CaseWork::WholeCall whole = work.whole_call(kernel, 0);
  view.ended = judge_outcome(whole.planned, outcomes[0]);
  if (!view.ended && !whole.twin_disagrees.empty())
    view.ended = in_doubt(whole.twin_disagrees);
  if (view.ended) return view;
  const CallView call{&whole.planned, &whole.inputs, &outcomes[0], whole.truth};
  const JudgeInput input{value, kernel.info, kernel.model, {&call, 1}};
  if (value.subject() == Subject::kLayer)
    view_layer(input, kernel, executor, index, member, ask, view);
  else
    view_attention(input, kernel, executor, index, member, ask, view);
  return view;
}

}  // namespace qkvet::cli
