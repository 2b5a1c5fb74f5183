// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/where/asked_cases.h"

#include <algorithm>
#include <utility>

#include "diagnosis/evidence/nearby.h"

namespace qkvet::diagnosis {
namespace {

// Multiplications of all cases (work_of) after which no further case is run,
// the same on every machine: ten seconds for emulated kernels.
constexpr int64_t kMostWorkInAll = 40'000'000;
// A third of the time of calls is for finding a sentence, and the rest for
// fresh cases, without which a sentence is worth nothing: kernels that crash
// use up the first part soon.
constexpr double kPartsOfTime = 1.5;
constexpr double kMostTimeToFind = 1.0 / 3;
constexpr double kMostWorkToFind = 3.0 / 5;
// If less than this would be left, no sentence can be believed anyway.
constexpr double kLeastToFind = 0.1;
// Half of the fresh cases should fail, and failing cases may be more expensive.
constexpr double kRoomForFresh = 1.2;

}  // namespace

AskedCases::AskedCases(const EvidencePool& pool)
    : witness_(pool, kMostWhereCases * kCallsOfCase, kPartsOfTime) {}

bool AskedCases::is_over() const {
  return stopped_ || std::ssize(asked_) >= most_cases_ ||
         witness_.calls_left() < kCallsOfCase || work_ >= kMostWorkInAll ||
         witness_.is_too_slow();
}

bool AskedCases::has_room() const {
  return !is_over() && std::ssize(asked_) + kFreshCases < most_cases_ &&
         witness_.calls_left() > kCallsOfCase * kFreshCases &&
         is_left_for_fresh(share_of_work(), kMostWorkToFind) &&
         is_left_for_fresh(witness_.share_of_time(), kMostTimeToFind);
}

double AskedCases::share_of_work() const {
  return static_cast<double>(work_) / static_cast<double>(kMostWorkInAll);
}

// Whether no more than `most` of a limited resource is used before a sentence
// is checked against fresh cases; less if the fresh cases that are needed to
// believe it cost more.
bool AskedCases::is_left_for_fresh(double used, double most) const {
  if (asked_.empty()) return used < most;
  const double of_one = used / static_cast<double>(asked_.size());
  const double left = 1 - of_one * kFreshCases * kRoomForFresh;
  return used < (left < kLeastToFind ? most : std::min(left, most));
}

std::optional<bool> AskedCases::ask(const Case& value) {
  const std::string text = to_string(value);
  const auto [at, is_new] = verdicts_.try_emplace(text);
  if (!is_new || is_over()) return at->second;
  const auto evidence = answer_to(value, is_each_alone_);
  if (evidence == nullptr) return std::nullopt;
  // For a story, work_of() covers all its commands.
  work_ +=
      work_of(value) * (value.story.empty() ? std::ssize(evidence->calls) : 1);
  if (may_leave_damage(*evidence)) return ask_again_alone(value);
  stopped_ |= witness_.has_hung_long();
  if (evidence->is_empty_handed()) return std::nullopt;
  at->second = evidence->failed();
  asked_.push_back({value, text});
  samples_.push_back({setting_->values(value), evidence->failed()});
  return at->second;
}

std::unique_ptr<Evidence> AskedCases::answer_to(const Case& value,
                                                bool new_process) {
  return new_process ? witness_.ask(setting_->law(), value, begin_new_process)
                     : witness_.ask(setting_->law(), value);
}

// A cache that ends its process has written out of bounds, and may have done so
// before in its own memory. Later stories then fail that are right by
// themselves.
bool AskedCases::may_leave_damage(const Evidence& evidence) const {
  return !is_each_alone_ && !evidence.value().story.empty() &&
         evidence.judgement.kind == FailureKind::kCrash && evidence.failed();
}

bool AskedCases::fails_by_damage(const Case& value, const Case& failing) {
  if (is_each_alone_ || value.story.empty() || is_over()) return false;
  const auto failed = [this](const Case& one) {
    const auto evidence = answer_to(one, /*new_process=*/true);
    return evidence != nullptr && evidence->failed();
  };
  return !failed(value) && failed(failing);
}

std::optional<bool> AskedCases::ask_again_alone(const Case& value) {
  is_each_alone_ = true;
  const std::vector<Asked> before = std::move(asked_);
  forget();
  for (auto& [sentence, verdicts] : verdicts_of_) verdicts = {};
  for (const Asked& one : before)
    if (has_room()) ask(one.value);
  return ask(value);
}

void AskedCases::forget() {
  asked_.clear();
  samples_.clear();
  verdicts_.clear();
}

void AskedCases::begin_anew(int most_cases) {
  forget();
  verdicts_of_.clear();
  most_cases_ = most_cases;
}

std::vector<Case> AskedCases::failing() const {
  std::vector<Case> out;
  for (size_t n = 0; n < samples_.size(); ++n)
    if (samples_[n].failed) out.push_back(asked_[n].value);
  return out;
}

}  // namespace qkvet::diagnosis
