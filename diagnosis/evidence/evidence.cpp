// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/evidence/evidence.h"

#include <ctime>
#include <iterator>

#include "properties/judging/subject.h"

namespace qkvet::diagnosis {

const Law& law_of_answers(const Case& value) {
  return value.subject() == Subject::kAttention && value.dropout
             ? *find_law("dropout_agrees_with_oracle")
             : agreement_about(value.subject());
}

void begin_new_process(std::vector<KernelCall>& calls) {
  if (!calls.empty()) calls[0].new_process = true;
}

void use_finite_memory(std::vector<KernelCall>& calls) {
  constexpr uint8_t kFinite = 0x3f;  // 0.75 in f32, and small in all types
  for (KernelCall& call : calls)
    call.fresh_memory = call.around_inputs = kFinite;
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

std::unique_ptr<Evidence> Witness::ask(const Law& law, const Case& value,
                                       const Change& change) {
  if (!invalid_reason(value).empty()) return nullptr;
  auto prepared = prepare(law, value);
  if (prepared != nullptr) change(prepared->calls);
  return ask(std::move(prepared));
}

double Witness::own_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) +
         1e-9 * static_cast<double>(now.tv_nsec);
}

std::vector<CallOutcome> Witness::outcomes_of(
    const std::vector<KernelCall>& calls) {
  std::vector<CallOutcome> outcomes;
  const Stopwatch watch(time_->kernel);
  const double before = executor_->cpu_seconds();
  outcomes = executor_->run(index_, calls);
  cpu_seconds_ += executor_->cpu_seconds() - before;
  left_ -= static_cast<int>(calls.size());
  made_ += static_cast<int>(calls.size());
  return outcomes;
}

std::unique_ptr<Evidence> Witness::judged(std::unique_ptr<Evidence> asked) {
  asked->judgement = asked->work->judge(*kernel_, asked->outcomes);
  const Verdict verdict = asked->judgement.verdict;
  if (verdict != Verdict::kPassed && verdict != Verdict::kFailed)
    return nullptr;
  return asked;
}

std::unique_ptr<Evidence> Witness::ask(std::unique_ptr<Evidence> prepared) {
  if (prepared == nullptr || std::ssize(prepared->calls) > left_ ||
      is_too_slow())
    return nullptr;
  const double before = cpu_seconds_;
  prepared->outcomes = outcomes_of(prepared->calls);
  auto asked = judged(std::move(prepared));
  if (asked != nullptr && asked->judgement.kind == FailureKind::kHang &&
      !expects_hangs_) {
    expects_hangs_ = executor_->expect_hangs(index_);
    has_hung_long_ = !expects_hangs_;
    // The executor waited for the first hang, and will not wait so long for
    // later ones, so this time is not counted.
    if (expects_hangs_) cpu_seconds_ = before;
  }
  return asked;
}

std::unique_ptr<Evidence> Witness::ask_after(const std::vector<Case>& before,
                                             const Law& law,
                                             const Case& value) {
  auto prepared = prepare(law, value);
  if (prepared == nullptr || is_too_slow()) return nullptr;
  std::vector<std::unique_ptr<Evidence>> earlier;  // hold what calls refer to
  std::vector<KernelCall> calls;
  for (const Case& one : before) {
    earlier.push_back(prepare(law_of_answers(one), one));
    if (earlier.back() != nullptr)
      calls.insert(calls.end(), earlier.back()->calls.begin(),
                   earlier.back()->calls.end());
  }
  const auto own = std::ssize(calls);
  calls.insert(calls.end(), prepared->calls.begin(), prepared->calls.end());
  if (std::ssize(calls) > left_) return nullptr;
  for (KernelCall& call : calls) call.same_place = true;
  calls.front().new_process = true;
  std::vector<CallOutcome> outcomes = outcomes_of(calls);
  const bool are_done = std::all_of(
      outcomes.begin(), outcomes.begin() + own, [](const CallOutcome& one) {
        return one.status == CallStatus::kDone ||
               one.status == CallStatus::kUnsupported;
      });
  if (!are_done) return nullptr;
  prepared->outcomes.assign(std::make_move_iterator(outcomes.begin() + own),
                            std::make_move_iterator(outcomes.end()));
  return judged(std::move(prepared));
}

}  // namespace qkvet::diagnosis
