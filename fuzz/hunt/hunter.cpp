// SPDX-License-Identifier: Apache-2.0
#include "fuzz/hunt/hunter.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "properties/judging/compare.h"
#include "properties/run/shrink.h"

namespace qkvet::fuzz {
namespace {

constexpr int kMostHangs = 2;

}  // namespace

Hunter::Hunter(const FuzzTarget& target, InputRules rules,
               const std::vector<KernelUnderTest>& kernels,
               std::vector<Executor*> executors, Guide guide,
               HuntProgress& progress, std::function<void(const Found&)> tell)
    : target_(target),
      rules_(std::move(rules)),
      kernels_(kernels),
      executors_(std::move(executors)),
      guide_(guide),
      progress_(progress),
      tell_(std::move(tell)),
      hangs_(kernels.size()),
      alive_(kernels.size()) {}

void Hunter::record(size_t kernel, const FuzzInput& input,
                    const Judgement& judgement) {
  if (judgement.kind == FailureKind::kHang && ++hangs_[kernel] == kMostHangs)
    --alive_;
  const Law* law = &failed_law(*input.law, judgement);
  const auto n = static_cast<uint64_t>(++failures_[{kernel, law}]);
  if (!std::has_single_bit(n)) return;
  // In this order: who watches may end the process at the count.
  tell_({kernel, input, &judgement, progress_.executions});
  ++progress_.found;
}

std::vector<CallOutcome> Hunter::call(size_t kernel, CaseWork& work) {
  const KernelUnderTest& under_test = kernels_[kernel];
  const std::vector<KernelCall> calls = work.calls_for(under_test.judged);
  progress_.kernel = static_cast<int32_t>(kernel);
  std::vector<CallOutcome> outcomes =
      executors_[under_test.library]->run(under_test.index, calls);
  progress_.kernel = -1;
  return outcomes;
}

// The distance between the first two kernels, in units of what both may be off.
void Hunter::hold_against(const FuzzInput& input, size_t law_number,
                          CaseWork& work,
                          std::span<const std::vector<CallOutcome>> outcomes) {
  for (const auto& calls : outcomes)
    if (calls.empty() || calls[0].status != CallStatus::kDone) return;
  const Dtype dtype = input.value.o_dtype;
  const std::vector<double> a = as_doubles(outcomes[0][0].o, dtype);
  const std::vector<double> b = as_doubles(outcomes[1][0].o, dtype);
  const JudgedKernel& first = kernels_[0].judged;
  const JudgedKernel& second = kernels_[1].judged;
  const std::vector<double> allowed =
      work.bounds(first, 0, first.model).of(TensorName::kO);
  const std::vector<double> more =
      work.bounds(second, 0, second.model).of(TensorName::kO);
  double worst = 0;
  for (size_t n = 0; n < std::min(a.size(), allowed.size()); ++n) {
    const double ratio = std::fabs(a[n] - b[n]) / (allowed[n] + more[n]);
    if (ratio > worst) worst = ratio;
  }
  // A block of its own: the target has one law, and this is no law's ratio.
  guide_.judged(law_number + 1, 0, worst);
}

void Hunter::run_on(size_t kernel, const FuzzInput& input, size_t law_number,
                    CaseWork& work) {
  const JudgedKernel& judged = kernels_[kernel].judged;
  if (hangs_[kernel] >= kMostHangs || work.settled(judged)) return;
  const std::vector<CallOutcome> outcomes = call(kernel, work);
  const Judgement judgement = work.judge(judged, outcomes);
  const bool failed = judgement.verdict == Verdict::kFailed;
  if (judgement.compared > 0 || failed) ++progress_.checked;
  guide_.judged(law_number, kernel, judgement.worst_ratio);
  if (failed) return record(kernel, input, judgement);
  if (judgement.worst_ratio > closest_.ratio)
    closest_ = {judgement.worst_ratio, kernel, input};
  if (!target_.differential || kernel != 1) return;
  const std::vector<CallOutcome> both[] = {call(0, work), outcomes};
  hold_against(input, law_number, work, both);
}

void Hunter::run(const FuzzInput& input) {
  const auto& laws = rules_.laws;
  const auto law_number = static_cast<size_t>(
      std::find(laws.begin(), laws.end(), input.law) - laws.begin());
  CaseWork work(*input.law, input.value, /*with_twin=*/false, time_);
  guide_.look_at(input, law_number, work.own_inputs());
  for (size_t kernel = 0; kernel < kernels_.size(); ++kernel)
    run_on(kernel, input, law_number, work);
}

void Hunter::run(std::span<const uint8_t> bytes) {
  ++progress_.executions;
  const size_t size = std::min(bytes.size(), progress_.input.size());
  std::copy_n(bytes.begin(), size, progress_.input.begin());
  progress_.input_size = static_cast<uint32_t>(size);
  run(decode_input(bytes, rules_));
}

}  // namespace qkvet::fuzz
