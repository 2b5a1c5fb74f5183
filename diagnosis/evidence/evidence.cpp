// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/evidence/evidence.h"

#include "properties/judging/subject.h"

namespace qkvet::diagnosis {

const Law& law_of_answers(const Case& value) {
  return value.subject() == Subject::kAttention && value.dropout
             ? *find_law("dropout_agrees_with_oracle")
             : agreement_about(value.subject());
}

std::unique_ptr<Evidence> Witness::prepare(const Law& law, const Case& value) {
  auto evidence = std::make_unique<Evidence>();
  evidence->law = &law;
  evidence->work =
      std::make_unique<CaseWork>(law, value, /*with_twin=*/false, *time_);
  if (evidence->work->settled(*kernel_)) return nullptr;
  evidence->calls = evidence->work->calls_for(*kernel_);
  if (std::ssize(evidence->calls) > left_) return nullptr;
  return evidence;
}

std::unique_ptr<Evidence> Witness::ask_with_finite_memory(const Law& law,
                                                          const Case& value) {
  constexpr uint8_t kFinite = 0x3f;  // 0.75 in f32, and small in all types
  auto prepared = prepare(law, value);
  if (prepared != nullptr)
    for (KernelCall& call : prepared->calls)
      call.fresh_memory = call.around_inputs = kFinite;
  return ask(std::move(prepared));
}

std::unique_ptr<Evidence> Witness::ask(std::unique_ptr<Evidence> prepared) {
  if (prepared == nullptr || std::ssize(prepared->calls) > left_ ||
      is_too_slow())
    return nullptr;
  double taken = 0;
  {
    const Stopwatch watch(time_->kernel);
    const double before = executor_->cpu_seconds();
    prepared->outcomes = executor_->run(index_, prepared->calls);
    taken = executor_->cpu_seconds() - before;
  }
  left_ -= static_cast<int>(prepared->calls.size());
  made_ += static_cast<int>(prepared->calls.size());
  prepared->judgement = prepared->work->judge(*kernel_, prepared->outcomes);
  if (prepared->judgement.kind == FailureKind::kHang && !expects_hangs_) {
    expects_hangs_ = executor_->expect_hangs(index_);
    has_hung_long_ = !expects_hangs_;
    // The first was waited for, as none that follow will be.
    if (expects_hangs_) taken = 0;
  }
  cpu_seconds_ += taken;
  const Verdict verdict = prepared->judgement.verdict;
  if (verdict != Verdict::kPassed && verdict != Verdict::kFailed)
    return nullptr;
  return prepared;
}

}  // namespace qkvet::diagnosis
