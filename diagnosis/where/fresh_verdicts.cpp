// SPDX-License-Identifier: Apache-2.0
// The verdict of fresh cases on a sentence, and the text for both.
#include <algorithm>
#include <cmath>

#include "diagnosis/evidence/evidence.h"
#include "diagnosis/where/fails_where.h"
#include "diagnosis/where/fresh_cases.h"

namespace qkvet::diagnosis {

bool FreshVerdicts::are_believable() const {
  constexpr double kWrong = 0.05, kBelieved = 0.1;
  // The probability of exactly n misses, from n = 0 on.
  double chance = std::pow(1 - kWrong, all), sum = 0;
  for (int n = 0; n <= all - right; ++n) {
    sum += chance;
    chance *= kWrong / (1 - kWrong) * (all - n) / (n + 1);
  }
  return failing > 0 && sum <= kBelieved;
}

bool FreshVerdicts::are_better_than(const FreshVerdicts& other) const {
  if (are_believable() != other.are_believable()) return are_believable();
  return int64_t{right} * other.all >= int64_t{other.right} * all;
}

FreshVerdicts predict_fresh(const FailsWhere& where, uint64_t seed, int count,
                            const EvidencePool& pool) {
  FreshVerdicts fresh;
  if (!where.setting) return fresh;
  // A kernel that hangs must still answer all of them.
  constexpr double kPartsOfHangs = 5;
  Witness witness(pool, kCallsOfCase * count, kPartsOfHangs);
  std::vector<Case> failing;
  if (const auto parsed = parse_case(where.nearest_failure); parsed.value)
    failing.push_back(*parsed.value);
  for (const Case& value :
       fresh_cases(where.hypothesis, *where.setting, failing, seed, count,
                   [&witness] { return witness.is_too_slow(); })) {
    const auto evidence = witness.ask(where.setting->law(), value);
    if (evidence == nullptr || evidence->is_empty_handed()) continue;
    fresh.add(where.hypothesis.predicts_failure(where.setting->values(value)),
              evidence->failed());
  }
  return fresh;
}

bool FailsWhere::is_nearly_right() const {
  // If nearly all cases pass, any sentence that is never true is right in
  // nine of ten.
  return is_confirmed && 10 * fresh.right >= 9 * fresh.all &&
         10 * fresh.failing >= fresh.all;
}

bool FailsWhere::is_of_scores() const {
  return is_known() &&
         std::any_of(hypothesis.atoms.begin(), hypothesis.atoms.end(),
                     [](const Atom& atom) {
                       return !atom.is_compound() &&
                              diagnosis::is_of_scores(vocabulary()[atom.term]);
                     });
}

std::string FailsWhere::text() const {
  if (!setting || fresh.all == 0) return "";
  std::string data = setting->data_text();
  const std::string counts =
      std::to_string(fresh.right) + " of " + std::to_string(fresh.all);
  if (!data.empty()) data = ", on " + data;
  const std::string cases = is_recorded
                                ? " recorded answers that it was not made of"
                                : " fresh cases";
  std::string out;
  if (!is_known()) {
    out = "no short sentence describes where.";
    if (is_nearly_right())
      out += " The nearest: " +
             (hypothesis.is_always() ? "" : std::string("where ")) +
             hypothesis.sentence() + data + ", which is right in " + counts +
             cases + (fresh.right == fresh.all ? ", too few to tell." : ".");
  } else if (hypothesis.is_always()) {
    out = (fresh.right == fresh.all ? "for every input"
                                    : "for nearly every input") +
          data + ": " + counts + cases + " fail.";
  } else {
    out = "where " + hypothesis.sentence() + data + ": right in " + counts +
          cases + ".";
  }
  if (!difference.empty() && !hypothesis.is_always() &&
      (is_known() || is_nearly_right()))
    out += " Nearest: " + difference + ".";
  if (!left_out.empty()) out += " The search ended early: " + left_out + ".";
  return out;
}

}  // namespace qkvet::diagnosis
