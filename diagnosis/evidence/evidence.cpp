// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/evidence/evidence.h"

namespace qkvet::diagnosis {

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

std::unique_ptr<Evidence> Witness::ask(std::unique_ptr<Evidence> prepared) {
  if (prepared == nullptr || std::ssize(prepared->calls) > left_ ||
      is_too_slow())
    return nullptr;
  {
    const Stopwatch watch(time_->kernel);
    const double before = executor_->cpu_seconds();
    prepared->outcomes = executor_->run(index_, prepared->calls);
    cpu_seconds_ += executor_->cpu_seconds() - before;
  }
  left_ -= static_cast<int>(prepared->calls.size());
  made_ += static_cast<int>(prepared->calls.size());
  prepared->judgement = prepared->work->judge(*kernel_, prepared->outcomes);
  const Verdict verdict = prepared->judgement.verdict;
  if (verdict != Verdict::kPassed && verdict != Verdict::kFailed)
    return nullptr;
  return prepared;
}

}  // namespace qkvet::diagnosis
