// SPDX-License-Identifier: Apache-2.0
#include "properties/run/tally.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <tuple>
#include <utility>

#include "properties/cases/generate.h"

namespace qkvet::properties {
namespace {

void keep_first(NumberedText& kept, const NumberedText& other) {
  if (other.text.empty()) return;
  if (!kept.text.empty() && kept.number <= other.number) return;
  kept = other;
}

void keep_lower(std::optional<std::pair<int64_t, Case>>& kept,
                std::pair<int64_t, Case> other) {
  if (!kept || other.first < kept->first) kept = std::move(other);
}

// The first one, but refusals of undeclared cases only if there is no other
// reason, such as a machine that cannot run the kernel.
void keep_telling(NumberedText& kept, const NumberedText& other) {
  if (other.text.empty()) return;
  const auto order = [](const NumberedText& one) {
    return std::pair(one.about == About::kDeclaration, one.number);
  };
  if (!kept.text.empty() && order(kept) <= order(other)) return;
  kept = other;
}

// NaN is no smaller than infinity here: it is an error, too.
int power_of(double ratio) {
  if (!(ratio < INFINITY)) return kMostPower;
  return std::clamp(std::ilogb(ratio), -kMostPower, kMostPower);
}

// The elements that decide whether the bound is informative. Sums over
// thousands of keys have no bound in half, and one long case has the elements
// of a hundred small ones: if few are long, as in every plan, the others
// decide. Among a dozen cases, one may be as large as all others together: it
// does not decide alone.
Elements trusted_by(const Tally& tally) {
  constexpr int64_t kFew = 4;  // at most one in this many
  constexpr int64_t kDozen = 12;
  Elements said = tally.elements;
  int64_t cases = tally.checked;
  if (kFew * tally.long_cases <= tally.checked) {
    said -= tally.of_long;
    cases -= tally.long_cases;
    if (cases >= kDozen) said -= tally.emptiest;
  }
  return said;
}

// If two are equally uninformative it keeps the larger, so that their order
// does not matter.
void keep_emptiest(Elements& kept, const Elements& other) {
  if (std::tie(other.vacuous, other.compared, other.both_nan) >
      std::tie(kept.vacuous, kept.compared, kept.both_nan))
    kept = other;
}

// The verdict of a cell that has no failure.
Verdict quiet_verdict(const Tally& tally, const std::string& mistrust,
                      NumberedText& reason) {
  reason = tally.reason;
  if (tally.checked == 0 && tally.unsupported > 0) {
    // Cases by which no kernel can be judged are no reason.
    reason = tally.unsupported_for;
    return Verdict::kUnsupported;
  }
  if (tally.checked == 0) return Verdict::kGaveUp;
  const Elements said = trusted_by(tally);
  const int64_t all = said.compared + said.vacuous;
  if (static_cast<double>(said.vacuous) >
      kMostVacuous * static_cast<double>(all)) {
    const bool of_nan = 2 * said.both_nan > said.vacuous;
    reason = {};
    reason.text =
        of_nan
            ? "both calls answer NaN for " + std::to_string(said.both_nan)
            : "the bound is uninformative for " + std::to_string(said.vacuous);
    reason.text += " of " + std::to_string(all) + " elements";
    return Verdict::kMistrusted;
  }
  if (!mistrust.empty()) {
    reason = {mistrust};
    return Verdict::kMistrusted;
  }
  return Verdict::kPassed;
}

}  // namespace

Elements& Elements::operator-=(const Elements& other) {
  compared -= other.compared;
  vacuous -= other.vacuous;
  both_nan -= other.both_nan;
  return *this;
}

Elements& Elements::operator+=(const Elements& other) {
  compared += other.compared;
  vacuous += other.vacuous;
  both_nan += other.both_nan;
  return *this;
}

void add_judgement(Tally& tally, int64_t number, const Case& value,
                   const Judgement& judgement, double seconds, bool added) {
  tally.seconds += seconds;
  tally.worst_ratio = std::max(tally.worst_ratio, judgement.worst_ratio);
  if (judgement.compared > 0) ++tally.checked;
  if (judgement.compared > 0 && judgement.worst_ratio != 0)
    ++tally.ratios[power_of(judgement.worst_ratio)];
  if (!is_stress(value) && !added) {
    const Elements one = {judgement.compared, judgement.vacuous,
                          judgement.both_nan};
    tally.elements += one;
    if (is_long(value)) {
      tally.of_long += one;
      ++tally.long_cases;
    } else {
      keep_emptiest(tally.emptiest, one);
    }
  }
  if (judgement.verdict == Verdict::kUnsupported) {
    ++tally.unsupported;
    // Added cases do not count towards the plan's number, also if refused.
    tally.refused += judgement.about == About::kKernel && !added;
    if (judgement.about == About::kKernel)
      keep_lower(tally.refused_case, {number, value});
    keep_first(tally.refusal, {judgement.reason, number});
    keep_telling(tally.unsupported_for,
                 {judgement.reason, number, judgement.about});
  }
  if (judgement.verdict == Verdict::kGaveUp) ++tally.not_applicable;
  keep_telling(tally.reason, {judgement.reason, number, judgement.about});
  tally.warned += judgement.warning.empty() ? 0 : 1;
  keep_first(tally.warning, {judgement.warning, number});
}

void keep_first(std::optional<Candidate>& kept,
                std::optional<Candidate>& other) {
  if (other && (!kept || other->number < kept->number)) kept = std::move(other);
}

void merge(Tally& sum, Tally& part) {
  sum.planned += part.planned;
  sum.checked += part.checked;
  sum.unsupported += part.unsupported;
  sum.refused += part.refused;
  if (part.refused_case) keep_lower(sum.refused_case, *part.refused_case);
  sum.not_applicable += part.not_applicable;
  sum.elements += part.elements;
  sum.of_long += part.of_long;
  keep_emptiest(sum.emptiest, part.emptiest);
  sum.long_cases += part.long_cases;
  sum.worst_ratio = std::max(sum.worst_ratio, part.worst_ratio);
  sum.seconds += part.seconds;
  for (const auto& [power, cases] : part.ratios) sum.ratios[power] += cases;
  merge(sum.sharpness, part.sharpness);
  keep_telling(sum.reason, part.reason);
  keep_first(sum.refusal, part.refusal);
  keep_telling(sum.unsupported_for, part.unsupported_for);
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

int64_t lacking_cases(const Tally& tally, int64_t share) {
  if (tally.unsupported == 0) return 0;
  return std::max<int64_t>(share - tally.checked - tally.not_applicable, 0);
}

Cell cell_of(const Tally& tally, std::vector<Failure> failures,
             const std::string& mistrust) {
  Cell cell;
  cell.planned = tally.planned;
  cell.checked = tally.checked;
  cell.unsupported = tally.unsupported;
  cell.refused = tally.refused;
  cell.not_applicable = tally.not_applicable;
  cell.elements = tally.elements;
  cell.of_long = tally.of_long;
  cell.emptiest = tally.emptiest;
  cell.long_cases = tally.long_cases;
  cell.ratios = tally.ratios;
  cell.sharpness = tally.sharpness;
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
  NumberedText reason;
  cell.verdict =
      cell.failure ? Verdict::kFailed : quiet_verdict(tally, mistrust, reason);
  cell.reason = reason.text;
  cell.about = reason.about;
  return cell;
}

}  // namespace qkvet::properties
