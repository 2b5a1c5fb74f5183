// SPDX-License-Identifier: Apache-2.0
#include "cli/identify/asking.h"

#include <algorithm>
#include <limits>

#include "core/base/half.h"
#include "core/capability/declaration.h"
#include "properties/judging/compare.h"
#include "properties/judging/subject.h"
#include "reference/arithmetic/precision.h"

namespace qkvet::cli {
namespace {

// Tried one by one: compared with everything in bf16 at once, hardly anything
// is wrong.
const std::vector<PrecisionModel>& coarse_models() {
  static const std::vector<PrecisionModel> all = [] {
    std::vector<PrecisionModel> models;
    for (const char* text :
         {"preset = cuda_fast\ntile = 1\n",
          "operand_dtype = bf16\np_dtype = bf16\ntile = 1\nftz = 1\n",
          "score_dtype = bf16\np_dtype = bf16\np_normalised = 1\n",
          "softmax_dtype = bf16\np_dtype = bf16\n",
          "softmax_dtype = f16\ndot_sum_dtype = f16\nvalue_sum_dtype = f16\n"
          "tile = 1\n",
          "dot_sum_dtype = bf16\nvalue_sum_dtype = bf16\ntile = 1\n",
          "exp_error = 0.00390625\nlog_error = 0.00390625\ntile = 1\n"
          "lse_dtype = bf16\nsink_dtype = bf16\nexp_floor = 1e-30\n"}) {
      qkvet_precision declared{};
      parse_precision("", text, declared);
      models.push_back(reference::resolve_precision(declared).model);
    }
    return models;
  }();
  return all;
}

const PrecisionModel& generic() {
  static const PrecisionModel model = reference::resolve_precision({}).model;
  return model;
}

Answered answered_by(const CallOutcome& outcome) {
  if (outcome.status == CallStatus::kDone) return Answered::kWrong;
  return outcome.status >= CallStatus::kFault ? Answered::kDied
                                              : Answered::kRefused;
}

std::string how_wrong(const Judgement& judgement) {
  if (!judgement.finding) return judgement.reason;
  const Finding& finding = *judgement.finding;
  // From the memory law: the element that was touched, or never written.
  if (judgement.kind != FailureKind::kLaw) return finding.actual;
  return finding.where + " is " + finding.actual + ", not " + finding.expected;
}

}  // namespace

Asker::Asker(Executor& executor, int kernel)
    : executor_(&executor), kernel_(kernel) {}

const KernelInfo& Asker::info() const {
  return executor_->kernels()[static_cast<size_t>(kernel_)];
}

JudgedKernel Asker::judge_with(uint64_t outputs,
                               const PrecisionModel& model) const {
  JudgedKernel judged;
  judged.info = info();
  judged.info.dialect = dialect;
  judged.info.capabilities.options &=
      ~(QKVET_OPTION_LSE | QKVET_OPTION_WEIGHTS) | outputs;
  judged.model = model;
  return judged;
}

bool Asker::is_explained(CaseWork& work, uint64_t outputs,
                         std::span<const CallOutcome> outcomes) const {
  const auto explains = [&](const PrecisionModel& model) {
    const JudgedKernel kernel = judge_with(outputs, model);
    work.calls_for(kernel);
    return work.judge(kernel, outcomes).verdict == Verdict::kPassed;
  };
  return std::any_of(coarse_models().begin(), coarse_models().end(), explains);
}

Reply Asker::ask(const Case& value, const InputEdit& edit, bool want_lse) {
  Reply reply;
  reply.inputs = make_inputs(value);
  if (edit) {
    edit(reply.inputs);
    store_inputs(value, reply.inputs);
  }
  KernelCall call = call_of(value, reply.inputs, Operation::kForward);
  call.want_lse = want_lse;
  ++calls_;
  reply.outcome = std::move(executor_->run(kernel_, {&call, 1})[0]);
  reply.said = reply.outcome.text;
  reply.answered = answered_by(reply.outcome);
  reply.o = as_doubles(reply.outcome.o, value.o_dtype);
  reply.lse = as_doubles(reply.outcome.lse, lse_dtype(value.o_dtype));
  return reply;
}

Reply Asker::judged(const Case& value, uint64_t outputs) {
  Reply reply;
  const JudgedKernel usual = judge_with(outputs, generic());
  CaseWork work(agreement_about(Subject::kAttention), value,
                /*with_twin=*/false, time_);
  if (const auto settled = work.settled(usual)) {
    reply.said = settled->reason;
    return reply;
  }
  const std::vector<KernelCall> calls = work.calls_for(usual);
  calls_ += static_cast<int64_t>(calls.size());
  std::vector<CallOutcome> outcomes = executor_->run(kernel_, calls);
  const Judgement judgement = work.judge(usual, outcomes);
  reply.answered = answered_by(outcomes[0]);
  reply.said = outcomes[0].text;
  if (reply.answered == Answered::kWrong) {
    reply.o = as_doubles(outcomes[0].o, value.o_dtype);
    reply.lse = as_doubles(outcomes[0].lse, lse_dtype(value.o_dtype));
    reply.off = judgement.worst_ratio;
    reply.compared = judgement.compared;
    if (judgement.verdict == Verdict::kPassed ||
        is_explained(work, outputs, outcomes))
      reply.answered = Answered::kAgrees;
    else
      reply.said = how_wrong(judgement);
    if (judgement.verdict != Verdict::kPassed)
      reply.off = std::max(reply.off, 1.0 + kNearer);
  }
  reply.outcome = std::move(outcomes[0]);
  return reply;
}

double Asker::off_from(const Reply& reply, const Case& other,
                       const diagnosis::Edit& edit) {
  constexpr double kNot = std::numeric_limits<double>::infinity();
  if (!reply.done()) return kNot;
  diagnosis::Room room(other);
  CaseWork work = diagnosis::work_as(
      edit, room, agreement_about(Subject::kAttention), other, time_);
  const JudgedKernel usual = judge_with(/*outputs=*/0, generic());
  if (work.settled(usual)) return kNot;
  CallOutcome outcome = reply.outcome;
  outcome.lse.clear();
  outcome.weights.clear();
  work.calls_for(usual);
  const Judgement judgement = work.judge(usual, {&outcome, 1});
  // Rows that see no key have no number.
  return 2 * judgement.compared >= reply.compared &&
                 judgement.worst_ratio < reply.off / kNearer &&
                 (judgement.verdict == Verdict::kPassed ||
                  is_explained(work, /*outputs=*/0, {&outcome, 1}))
             ? judgement.worst_ratio
             : kNot;
}

std::string Asker::computed_instead(const Reply& reply, const Case& value) {
  std::string text;
  double nearest = reply.off / kNearer;
  for (diagnosis::OtherReading& one :
       diagnosis::readings_of_attention(info())) {
    const double off = off_from(reply, value, one.edit);
    if (off >= nearest) continue;
    nearest = off;
    text = std::move(one.text);
  }
  return text;
}

double stored(double value, Dtype dtype) {
  switch (dtype) {
    case Dtype::kF16:
      return f16_to_double(f16_from_double(value));
    case Dtype::kBf16:
      return bf16_to_double(bf16_from_double(value));
    case Dtype::kF32:
      return static_cast<double>(static_cast<float>(value));
    default:
      return value;
  }
}

}  // namespace qkvet::cli
