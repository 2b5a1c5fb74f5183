// SPDX-License-Identifier: Apache-2.0
#include "properties/run/tally.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace qkvet::properties {
namespace {

void keep_first(NumberedText& kept, const NumberedText& other) {
  if (other.text.empty()) return;
  if (!kept.text.empty() && kept.number <= other.number) return;
  kept = other;
}

// NaN is no smaller than infinity here: it is an error, too.
int power_of(double ratio) {
  if (!(ratio < INFINITY)) return kMostPower;
  return std::clamp(std::ilogb(ratio), -kMostPower, kMostPower);
}

// The verdict of a cell that has no failure.
Verdict quiet_verdict(const Tally& tally, const std::string& mistrust,
                      std::string& reason) {
  reason = tally.reason.text;
  if (tally.checked == 0) {
    return tally.unsupported > 0 ? Verdict::kUnsupported : Verdict::kGaveUp;
  }
  // One case of ten or more is chance: two in a hundred are long, and sums over
  // 2,000 keys in half have no bound.
  const bool by_chance = tally.vacuous_cases <= 1 && tally.checked >= 10;
  if (tally.weighed_vacuous > kMostVacuous * tally.weighed && !by_chance) {
    const bool of_nan = 2 * tally.both_nan > tally.vacuous;
    reason =
        of_nan ? "both calls answer NaN for " + std::to_string(tally.both_nan)
               : "the bound says nothing for " + std::to_string(tally.vacuous);
    reason +=
        " of " + std::to_string(tally.compared + tally.vacuous) + " elements";
    return Verdict::kMistrusted;
  }
  if (!mistrust.empty()) {
    reason = mistrust;
    return Verdict::kMistrusted;
  }
  return Verdict::kPassed;
}

}  // namespace

void add_judgement(Tally& tally, int64_t number, bool stress,
                   const Judgement& judgement, double seconds) {
  tally.seconds += seconds;
  tally.worst_ratio = std::max(tally.worst_ratio, judgement.worst_ratio);
  if (judgement.compared > 0) ++tally.checked;
  if (judgement.compared > 0 && judgement.worst_ratio != 0)
    ++tally.ratios[power_of(judgement.worst_ratio)];
  if (!stress) {
    tally.compared += judgement.compared;
    tally.vacuous += judgement.vacuous;
    tally.both_nan += judgement.both_nan;
    constexpr double kMostElements = 256;
    const auto all =
        static_cast<double>(judgement.compared + judgement.vacuous);
    const double weight = all > kMostElements ? kMostElements / all : 1;
    tally.weighed += weight * all;
    tally.weighed_vacuous += weight * static_cast<double>(judgement.vacuous);
    if (static_cast<double>(judgement.vacuous) > kMostVacuous * all)
      ++tally.vacuous_cases;
  }
  if (judgement.verdict == Verdict::kUnsupported) {
    ++tally.unsupported;
    keep_first(tally.refusal, {judgement.reason, number});
  }
  if (judgement.verdict == Verdict::kGaveUp) ++tally.not_applicable;
  keep_first(tally.reason, {judgement.reason, number});
  tally.warned += judgement.warning.empty() ? 0 : 1;
  keep_first(tally.warning, {judgement.warning, number});
}

void keep_first(std::optional<Candidate>& kept,
                std::optional<Candidate>& other) {
  if (other && (!kept || other->number < kept->number)) kept = std::move(other);
}

void merge(Tally& sum, Tally& part) {
  sum.checked += part.checked;
  sum.unsupported += part.unsupported;
  sum.not_applicable += part.not_applicable;
  sum.compared += part.compared;
  sum.vacuous += part.vacuous;
  sum.weighed += part.weighed;
  sum.weighed_vacuous += part.weighed_vacuous;
  sum.vacuous_cases += part.vacuous_cases;
  sum.both_nan += part.both_nan;
  sum.worst_ratio = std::max(sum.worst_ratio, part.worst_ratio);
  sum.seconds += part.seconds;
  for (const auto& [power, cases] : part.ratios) sum.ratios[power] += cases;
  keep_first(sum.reason, part.reason);
  keep_first(sum.refusal, part.refusal);
  sum.warned += part.warned;
  keep_first(sum.warning, part.warning);
  std::vector<Candidate> failing;
  std::merge(std::make_move_iterator(sum.failing.begin()),
             std::make_move_iterator(sum.failing.end()),
             std::make_move_iterator(part.failing.begin()),
             std::make_move_iterator(part.failing.end()),
             std::back_inserter(failing),
             [](const Candidate& a, const Candidate& b) {
               return a.number < b.number;
             });
  if (failing.size() > kMostCandidates) failing.resize(kMostCandidates);
  sum.failing = std::move(failing);
  keep_first(sum.own, part.own);
  part = {};
}

bool lacks_cases(const Tally& tally, int64_t share) {
  return tally.unsupported > 0 && tally.checked > 0 &&
         tally.checked + tally.not_applicable < share;
}

Cell cell_of(const Tally& tally, std::vector<Failure> failures,
             const std::string& mistrust) {
  Cell cell;
  cell.checked = tally.checked;
  cell.unsupported = tally.unsupported;
  cell.not_applicable = tally.not_applicable;
  cell.compared = tally.compared;
  cell.vacuous = tally.vacuous;
  cell.both_nan = tally.both_nan;
  cell.ratios = tally.ratios;
  cell.worst_ratio = tally.worst_ratio;
  cell.seconds = tally.seconds;
  cell.warned = tally.warned;
  cell.warning = tally.warning.text;
  cell.warning_number = tally.warning.number;
  cell.refusal = tally.refusal.text;
  if (!failures.empty()) {
    cell.failure = std::move(failures[0]);
    failures.erase(failures.begin());
    cell.others = std::move(failures);
  }
  cell.verdict = cell.failure ? Verdict::kFailed
                              : quiet_verdict(tally, mistrust, cell.reason);
  return cell;
}

}  // namespace qkvet::properties
