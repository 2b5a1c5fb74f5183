// SPDX-License-Identifier: Apache-2.0
// Finds what all wrong elements of one output have in common: the first
// description that holds for all of them, or for the finite ones.
#ifndef QKVET_DIAGNOSIS_INSTEAD_OUTPUT_SEARCH_H_
#define QKVET_DIAGNOSIS_INSTEAD_OUTPUT_SEARCH_H_

#include <fmt/core.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "diagnosis/instead/claims.h"
#include "diagnosis/instead/collector.h"
#include "diagnosis/instead/instead.h"
#include "diagnosis/instead/wrong_layer.h"
#include "diagnosis/where/vocabulary.h"

namespace qkvet::diagnosis {

// Elements that are clearly wrong; fewer get no description.
inline constexpr int kFewestTelling = 6;
// Multiplications (work_of) of all readings of all cases of one output: half a
// second for a reference that takes some ten nanoseconds each, with its bound.
inline constexpr int64_t kMostReadingWork = 45'000'000;

class OutputSearch {
 public:
  explicit OutputSearch(const EvidencePool& pool)
      : kernel_(pool.kernel), time_(pool.time) {}

  // Nullopt: no single description fits.
  std::optional<Claim> claim_of_empty_rows(const Wrongs& wrongs) {
    for (const auto& claims : {claims_of_one_number(wrongs), claims_of_means()})
      for (const Claim& one : claims)
        if (is_true_of_all(one, wrongs)) return one;
    return std::nullopt;
  }

  std::optional<Claim> claim(TensorName name, const Wrongs& wrongs) {
    if (auto one = claim_of_all(name, wrongs)) return one;
    const auto search = [&](const Wrongs& of) {
      return claim_of_all(name, of);
    };
    if (auto one = claim_where_finite(wrongs, search)) return one;
    const auto last = [&](const Wrongs& of) {
      auto one = claim_of_places(of);
      return one || name != TensorName::kO ? one : claim_of_means(of);
    };
    if (auto one = last(wrongs)) return one;
    if (auto one = claim_where_finite(wrongs, last)) return one;
    return claim_without_option(wrongs, search);
  }
  bool has_ended() const { return work_ > kMostReadingWork; }

  // Tries cases with an option, or without it: what most of them have in
  // common, the fewest cases left out first.
  template <class Search>
  static std::optional<Claim> claim_without_option(const Wrongs& wrongs,
                                                   Search search) {
    constexpr size_t kMostSearches = 4;
    std::vector<Split> splits = splits_by_option(wrongs);
    for (size_t n = 0; n < std::min(splits.size(), kMostSearches); ++n) {
      auto claim = search(splits[n].most);
      if (!claim || claim->is_about != nullptr) continue;
      const Term& option = vocabulary()[splits[n].term];
      const bool is_given = splits[n].is_given;
      // NaN caused by a missing option belongs to the stage that reads the
      // option or uses it.
      if (!is_given && claim->text == kNoNumber)
        claim->stage =
            stage_of_option(splits[n].term, *splits[n].most[0].first);
      claim->text = fmt::format("{} where {}", claim->text,
                                is_given ? option.yes : option.no);
      // With many options, one may fit by chance.
      claim->is_cheap = true;
      claim->is_about = [term = splits[n].term,
                         is_given](const WrongAnswer& answer) {
        return (term_values(answer.value())[term] != 0) == is_given;
      };
      return claim;
    }
    return std::nullopt;
  }

  // A formula without a value gives NaN.
  template <class Search>
  static std::optional<Claim> claim_where_finite(const Wrongs& wrongs,
                                                 Search search) {
    std::deque<WrongOutput> outputs;
    Wrongs finite;
    size_t all = 0, left = 0;
    for (const auto& [answer, output] : wrongs) {
      outputs.push_back(where_finite(*output));
      all += output->wrong.size();
      left += outputs.back().wrong.size();
      if (!outputs.back().wrong.empty())
        finite.push_back({answer, &outputs.back()});
    }
    if (left == all || finite.size() < kFewestCases) return std::nullopt;
    const auto one = search(finite);
    if (!one) return std::nullopt;
    return Claim{"where it is finite, " + one->text,
                 [is_true_of = one->is_true_of](const WrongAnswer& answer,
                                                const WrongOutput& output) {
                   return is_true_of(answer, where_finite(output));
                 },
                 one->stage,
                 one->is_cheap,
                 one->of_other_scores,
                 one->of_most};
  }

 private:
  // Cases that agree in an option, at least half of all.
  struct Split {
    size_t term;
    bool is_given;
    Wrongs most;
  };

  // The stage of the term's option.
  static Stage stage_of_option(size_t term, const WrongAnswer& without) {
    for (const StageOfOption& one : stages_of_options()) {
      Case value = without.value();
      if (one.give != nullptr) one.give(value);
      if (term_values(value)[term] != 0) return one.stage;
    }
    return Stage::kUnknown;
  }

  // By names of options alone, and each set of cases once.
  static std::vector<Split> splits_by_option(const Wrongs& wrongs) {
    std::vector<TermValues> values;
    for (const auto& [answer, output] : wrongs)
      values.push_back(term_values(answer->value()));
    std::vector<Split> splits;
    std::set<Wrongs> known;
    for (size_t term = 0; term < vocabulary().size(); ++term) {
      const Term& option = vocabulary()[term];
      if (option.kind != Term::Kind::kFlag || option.cost > 0) continue;
      for (const bool is_given : {false, true}) {
        Wrongs most;
        for (size_t n = 0; n < wrongs.size(); ++n)
          if ((values[n][term] != 0) == is_given) most.push_back(wrongs[n]);
        const size_t left = wrongs.size() - most.size();
        if (left == 0 || left > most.size() || most.size() < kFewestCases ||
            !known.insert(most).second)
          continue;
        splits.push_back({term, is_given, std::move(most)});
      }
    }
    std::stable_sort(splits.begin(), splits.end(),
                     [](const Split& a, const Split& b) {
                       return a.most.size() > b.most.size();
                     });
    return splits;
  }

  std::optional<Claim> claim_of_all(TensorName name, const Wrongs& wrongs) {
    const auto is_true = [&](const Claim& claim) {
      return is_true_of_all(claim, wrongs);
    };
    for (const Claim& one : claims_of_one_number(wrongs))
      if (is_true(one)) return one;
    int telling = 0;
    for (const auto& [answer, output] : wrongs) telling += output->telling;
    if (const auto one = claim_of_rounding(wrongs); one && is_true(*one))
      return one;
    if (telling < kFewestTelling) return std::nullopt;
    if (const auto one = by_description(name, wrongs)) return one;
    std::vector<Claim> measured;
    for (const auto& one : {claim_of_factor(wrongs), claim_of_constant(wrongs)})
      if (one) measured.push_back(*one);
    if (name == TensorName::kLse)
      for (Claim& one : claims_of_lse_parts(wrongs))
        measured.push_back(std::move(one));
    for (const Claim& one : measured)
      if (is_true(one)) return one;
    if (name != TensorName::kO && name != TensorName::kLse) return std::nullopt;
    if (wrongs[0].first->truth == nullptr || !wrongs[0].first->kept.empty())
      return std::nullopt;
    if (!has_ended())
      if (auto one = claim_of_measure(wrongs, kernel_.judged, time_,
                                      kMostReadingWork - work_))
        return one;
    return name == TensorName::kO ? claim_of_rows(wrongs) : std::nullopt;
  }

  std::optional<Claim> by_description(TensorName name, const Wrongs& wrongs) {
    const bool has_dropout = !wrongs[0].first->kept.empty();
    const Subject subject = wrongs[0].first->evidence->value().subject();
    std::optional<Claim> found;
    is_open_ = false;
    if (has_dropout && name == TensorName::kO)
      add_true(descriptions_of_dropout(kernel_.judged), wrongs,
               /*costs=*/true, found);
    // These numbers are known already, so they are tried whatever time the
    // others take.
    add_true(descriptions_by_number(name), wrongs, /*costs=*/false, found);
    if (subject == Subject::kLayer)
      add_true(descriptions_of_layers(kernel_.judged, name), wrongs,
               /*costs=*/true, found);
    if (!has_dropout && (name == TensorName::kO || name == TensorName::kLse))
      add_true(descriptions_by_reading(kernel_.judged, time_, subject), wrongs,
               /*costs=*/true, found);
    return found;
  }

  // If several descriptions hold, the first is kept, and its stage only if they
  // agree. One that predicts all numbers is preferred to one that leaves some
  // open.
  void add_true(const std::vector<Description>& all, const Wrongs& wrongs,
                bool costs, std::optional<Claim>& found) {
    for (const Description& one : all) {
      if (costs && has_ended()) return;
      const auto open = open_where_true(one, wrongs, costs);
      const bool is_open = open.value_or(0) > 0;
      if (!open || (found && !is_open_ && is_open)) continue;
      if (found && is_open_ == is_open) {
        if (found->stage != one.stage) found->stage = Stage::kUnknown;
        continue;
      }
      is_open_ = is_open;
      found = claim_of(one);
    }
  }

  // Number of elements without a prediction; nullopt if an answer contradicts
  // it.
  std::optional<size_t> open_where_true(const Description& one,
                                        const Wrongs& wrongs, bool costs) {
    if (!is_told(one, wrongs)) return std::nullopt;
    size_t mostly_open = 0, knowing = 0, all = 0;
    for (const auto& [answer, output] : wrongs) {
      if (costs) work_ += work_of(answer->value());
      LeftOpen open;
      if ((costs && has_ended()) || !fits(one, *answer, *output, &open))
        return std::nullopt;
      all += open.open;
      mostly_open += 2 * open.open > output->wrong.size();
      knowing += open.known > 0;
    }
    if (!one.leaves_open) return 0;
    // An answer may come from unknown memory, as NaN often does. The
    // description must predict numbers in several answers, and must not leave
    // most numbers open in more than one of kMostOpen.
    constexpr size_t kMostOpen = 4;  // one in so many
    const bool is_known =
        kMostOpen * mostly_open <= wrongs.size() && knowing >= kFewestCases;
    return is_known ? std::optional(all) : std::nullopt;
  }

  static bool is_told(const Description& one, const Wrongs& wrongs) {
    constexpr auto kFewestTold = kFewestCases - 1;
    unsigned left = one.alternatives;
    for (const auto& [answer, output] : wrongs)
      if (left != 0) left &= ~one.told_from(*answer);
    return left == 0 &&
           (one.is_told_by == nullptr ||
            std::count_if(wrongs.begin(), wrongs.end(), [&](const auto& wrong) {
              return one.is_told_by(*wrong.first);
            }) >= kFewestTold);
  }

  const KernelUnderTest& kernel_;
  TimeUse& time_;
  int64_t work_ = 0;
  bool is_open_ = false;  // the last claim leaves numbers open
};

}  // namespace qkvet::diagnosis

#endif  // QKVET_DIAGNOSIS_INSTEAD_OUTPUT_SEARCH_H_
