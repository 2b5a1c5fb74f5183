// SPDX-License-Identifier: Apache-2.0
#include "cli/hunt/fault_verdict.h"

#include <algorithm>

#include "properties/judging/law.h"

namespace qkvet::cli {
namespace {

double at_share(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  const auto last = static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<size_t>(share * last + 0.5)];
}

void add_times(FaultSummary& summary) {
  std::vector<double> seconds;
  for (const FaultVerdict& verdict : summary.verdicts) {
    if (verdict.first == nullptr) continue;
    seconds.push_back(verdict.first->seconds);
    if (summary.slowest_name.empty() ||
        verdict.first->seconds > summary.slowest) {
      summary.slowest = verdict.first->seconds;
      summary.slowest_name = verdict.fault->name;
    }
  }
  std::sort(seconds.begin(), seconds.end());
  summary.median = at_share(seconds, 0.5);
  summary.percentile95 = at_share(seconds, 0.95);
}

}  // namespace

// Empty. A row is a fault and, in a sentence, why no law can see it.
std::span<const NearEquivalent> near_equivalents() { return {}; }

bool is_agreement(const Law& law) {
  const std::string_view id = law.id;
  return id == "agrees_with_oracle" || id == "cache_agrees_with_history" ||
         id == "layer_agrees_with_oracle" ||
         id == "backward_agrees_with_oracle";
}

FaultVerdict verdict_on(const HuntedFault& fault,
                        std::span<const NearEquivalent> known) {
  FaultVerdict verdict;
  verdict.fault = &fault;
  for (const FaultPair& pair : fault.pairs) {
    if (pair.outsides > 0) verdict.outside.push_back(&pair);
    if (!pair.kill) {
      if (pair.named) verdict.silent.push_back(&pair);
      continue;
    }
    ++verdict.killers;
    verdict.killed_without_agreement |= !is_agreement(*pair.law);
    if (verdict.first == nullptr ||
        pair.kill->number < verdict.first->kill->number)
      verdict.first = &pair;
  }
  const bool excused = std::any_of(
      known.begin(), known.end(),
      [&](const NearEquivalent& one) { return one.fault == fault.name; });
  verdict.fate = verdict.first != nullptr ? Fate::kKilled
                 : !fault.triggered       ? Fate::kNeverTriggered
                 : excused                ? Fate::kNearEquivalent
                                          : Fate::kSurvived;
  return verdict;
}

FaultSummary sum_up(const Hunt& hunt, bool named,
                    std::span<const NearEquivalent> known) {
  FaultSummary summary;
  for (const HuntedFault& fault : hunt.faults) {
    const FaultVerdict& verdict =
        summary.verdicts.emplace_back(verdict_on(fault, known));
    summary.killed += verdict.fate == Fate::kKilled;
    summary.survived += verdict.fate == Fate::kSurvived;
    summary.never_triggered += verdict.fate == Fate::kNeverTriggered;
    summary.near_equivalent += verdict.fate == Fate::kNearEquivalent;
    summary.outside += std::ssize(verdict.outside);
    summary.silent += std::ssize(verdict.silent);
    if (verdict.first != nullptr && !verdict.killed_without_agreement)
      summary.agreement_alone.push_back(fault.name);
  }
  add_times(summary);
  if (summary.survived > 0 || summary.outside > 0 ||
      (named && summary.silent > 0))
    summary.exit = kLawFailed;
  else if (summary.never_triggered > 0 || hunt.faults.empty())
    summary.exit = kNothingChecked;
  return summary;
}

}  // namespace qkvet::cli
