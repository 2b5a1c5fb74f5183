// SPDX-License-Identifier: Apache-2.0
#include "cli/judge/recorded_call.h"

#include "cli/reproduce/plan_calls.h"
#include "cli/reproduce/plan_kernel.h"
#include "core/base/half.h"
#include "core/door/call_plan.h"
#include "golden/check/verify.h"
#include "properties/judging/compare.h"
#include "properties/judging/subject.h"

namespace qkvet::cli {
namespace {

// A number that was written down in f64 and that the case stores in another
// type is rounded once more, which makes no right one wrong.
std::vector<std::byte> in_storage(const RecordedOutput& output, Dtype dtype) {
  return output.dtype == dtype
             ? output.bytes
             : stored_as(dtype, as_doubles(output.bytes, output.dtype));
}

bool has_output(const Recording& recording, std::string_view name) {
  return recording.outputs.find(name) != recording.outputs.end();
}

}  // namespace

std::string recorded_kernel(const Recording& recording, const std::string& name,
                            const std::string& dialect, JudgedKernel* kernel) {
  std::string error;
  PlanKernel words;
  words.name = name;
  words.options = parse_plan_options("all", &error);
  words.dialect = dialect;
  if (error.empty()) error = declared_kernel(words, kernel);
  if (!error.empty()) return error;
  KernelInfo& info = kernel->info;
  const Case& value = recording.value;
  info.has_forward = value.subject() == Subject::kAttention;
  info.has_layer = value.subject() == Subject::kLayer;
  info.layer_options &= ~QKVET_LAYER_STAGES;
  info.capabilities.options = ~uint64_t{0};
  if (!has_output(recording, "lse"))
    info.capabilities.options &= ~QKVET_OPTION_LSE;
  if (!has_output(recording, "weights"))
    info.capabilities.options &= ~QKVET_OPTION_WEIGHTS;
  info.capabilities.dtype_count = 1;
  info.capabilities.dtypes[0] = {dtype_to_abi(value.q_dtype),
                                 dtype_to_abi(value.kv_dtype),
                                 dtype_to_abi(value.o_dtype)};
  return "";
}

std::string RecordedCalls::add(const Recording& recording,
                               const JudgedKernel& kernel) {
  infos_ = {kernel.info};
  TimeUse time;
  CaseWork work(agreement_about(recording.value.subject()), recording.value,
                /*with_twin=*/false, time);
  if (work.settled(kernel)) return "";  // which the judge will report
  PlanCall asked;
  const std::vector<KernelCall> calls = work.calls_for(kernel);
  const std::string why = plan_call_of(calls[0], kernel.info, &asked);
  if (!why.empty()) return why;
  CallOutcome& outcome = answers_[asked.digest];
  outcome.asked_kernel = true;
  for (const auto& [text, output] : recording.outputs) {
    const TensorName name = parse_output_name(text)->tensor;
    outcome.*output_member(name) =
        in_storage(output, output_dtype(recording.value, name));
  }
  return "";
}

std::vector<CallOutcome> RecordedCalls::run(int,
                                            std::span<const KernelCall> calls) {
  std::vector<CallOutcome> outcomes;
  for (const KernelCall& call : calls) {
    PlanCall asked;
    CallOutcome outcome;
    outcome.status = CallStatus::kNotRun;
    outcome.text = "the call was not recorded";
    if (plan_call_of(call, infos_[0], &asked).empty())
      if (const auto found = answers_.find(asked.digest);
          found != answers_.end())
        outcome = found->second;
    outcomes.push_back(std::move(outcome));
  }
  return outcomes;
}

}  // namespace qkvet::cli
