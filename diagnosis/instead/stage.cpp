// SPDX-License-Identifier: Apache-2.0
// The stage at which a row goes wrong, by calls that make one stage visible.
#include <algorithm>
#include <cmath>

#include "diagnosis/instead/instead.h"
#include "properties/conventions/domain.h"
#include "properties/judging/subject.h"

namespace qkvet::diagnosis {
namespace {

constexpr size_t kMostProbed = 6;
constexpr size_t kFewestProbed = 3;
// A weight of which it can be told that it is missing, in units of its bound.
constexpr double kClearly = 64;

Case with_data(Case value, TensorName tensor, RecipeKind kind) {
  (tensor == TensorName::kQ ? value.q : value.v) = make_recipe(kind);
  std::erase_if(value.set,
                [&](const SetValue& one) { return one.tensor == tensor; });
  return value;
}

// How o came out of the same question asked otherwise, case by case.
struct Counts {
  int right = 0, wrong = 0, unknown = 0;

  bool are_all_right() const {
    return right >= static_cast<int>(kFewestProbed) && wrong + unknown == 0;
  }
  bool are_all_wrong() const {
    return wrong >= static_cast<int>(kFewestProbed) && right + unknown == 0;
  }
};

const Law& agreement() { return agreement_about(Subject::kAttention); }

std::optional<WrongAnswer> ask(const Case& value, Witness& witness,
                               Counts& counts) {
  std::unique_ptr<Evidence> evidence;
  if (invalid_reason(value).empty()) evidence = witness.ask(agreement(), value);
  if (evidence == nullptr || evidence->judgement.compared == 0) {
    ++counts.unknown;
    return std::nullopt;
  }
  if (!evidence->failed()) {
    ++counts.right;
    return std::nullopt;
  }
  auto wrong = wrong_answer(std::move(evidence), witness.kernel());
  if (!wrong)
    ++counts.unknown;
  else
    ++(wrong->find(TensorName::kO) != nullptr ? counts.wrong : counts.right);
  return wrong;
}

// One row of weights, read off an output of one-hot values. It is wrong with
// equal scores, too. Nothing of a row that has no weights left, say for want of
// its only key.
std::optional<Stage> stage_of_row(const WrongAnswer& answer,
                                  const WrongOutput& o, int64_t row) {
  const Shape& s = answer.value().shape;
  const OracleOutput& right = answer.truth->oracle;
  double sum = 0, least = INFINITY, most = 0;
  bool shows_hidden = false, lacks_seen = false, others_are_right = true;
  for (int64_t j = 0; j < s.Tk; ++j) {
    const auto at = static_cast<size_t>(row * s.dv + j);
    const double actual = o.actual[at], weight = o.right[at];
    if (!std::isfinite(actual)) return std::nullopt;
    if (actual < 0) return Stage::kUnknown;
    sum += actual;
    const bool is_seen = right.sees[static_cast<size_t>(row * s.Tk + j)] != 0;
    const bool is_wrong =
        std::binary_search(o.wrong.begin(), o.wrong.end(), at);
    if (!is_seen) {
      shows_hidden |= is_wrong;
    } else if (actual == 0 && weight > kClearly * o.bound[at]) {
      lacks_seen = true;
    } else if (weight > kClearly * o.bound[at]) {
      least = std::min(least, actual / weight);
      most = std::max(most, actual / weight);
      others_are_right &= !is_wrong;
    }
  }
  constexpr double kSame = 1e-3;
  const bool is_one = std::fabs(sum - 1) < kSame;
  const bool in_proportion = least <= most && most - least < kSame * most;
  if (least > most && !shows_hidden) return std::nullopt;
  if (shows_hidden || lacks_seen) {
    if (is_one && in_proportion && !answer.value().sink) return Stage::kKeys;
    if (!shows_hidden && others_are_right) return Stage::kValues;
    return Stage::kUnknown;
  }
  if (in_proportion && !is_one)
    return answer.find(TensorName::kLse) != nullptr ? Stage::kSoftmax
                                                    : Stage::kUnknown;
  if (is_one && !in_proportion &&
      (answer.value().score_bias || answer.value().slopes))
    return Stage::kBias;
  return Stage::kUnknown;
}

// What all wrong rows of all answers say, if they agree.
Stage stage_of_weights(const std::vector<WrongAnswer>& answers) {
  std::optional<Stage> stage;
  for (const WrongAnswer& answer : answers) {
    const WrongOutput* o = answer.find(TensorName::kO);
    if (o == nullptr) return Stage::kUnknown;
    int64_t last = -1;
    for (const size_t n : o->wrong) {
      const int64_t row = static_cast<int64_t>(n) / answer.value().shape.dv;
      if (row == last) continue;
      last = row;
      const auto here = stage_of_row(answer, *o, row);
      if (!here) continue;
      if (stage && *stage != *here) return Stage::kUnknown;
      stage = *here;
    }
  }
  return stage.value_or(Stage::kUnknown);
}

// Wide enough for the output to be all weights.
Case with_weights_shown(const Case& value, const JudgedKernel& kernel) {
  Case shown = with_data(value, TensorName::kV, RecipeKind::kOnehotN);
  Shape& s = shown.shape;
  if (s.dv >= s.Tk) return shown;
  s.dv = s.Tk;
  if ((kernel.info.capabilities.options & QKVET_OPTION_VALUE_WIDTH) == 0)
    s.d = s.dv;
  return shown;
}

Stage stage_by_weights(const std::vector<const WrongAnswer*>& answers,
                       Witness& witness) {
  Counts counts;
  std::vector<WrongAnswer> shown;
  bool is_wider = false;
  for (const WrongAnswer* answer : answers) {
    const Case value = with_weights_shown(answer->value(), witness.kernel());
    is_wider |= value.shape.dv != answer->value().shape.dv;
    auto wrong = ask(value, witness, counts);
    if (wrong && wrong->find(TensorName::kO) != nullptr)
      shown.push_back(std::move(*wrong));
  }
  // The weights are right, and so is what becomes of them one by one.
  if (counts.are_all_right() && !is_wider) return Stage::kValues;
  return counts.are_all_wrong() ? stage_of_weights(shown) : Stage::kUnknown;
}

// Rows that answer for each other are right where all scores are equal, like
// rows of wrong scores; with one query for all they stay so.
bool is_of_scores(const std::vector<const WrongAnswer*>& answers,
                  Witness& witness) {
  Counts counts;
  for (const WrongAnswer* answer : answers)
    ask(with_data(answer->value(), TensorName::kQ, RecipeKind::kEqual), witness,
        counts);
  return counts.are_all_wrong();
}

}  // namespace

Stage probed_stage(const std::vector<WrongAnswer>& answers, Witness& witness) {
  std::vector<const WrongAnswer*> asked;
  for (const WrongAnswer& answer : answers)
    if (answer.find(TensorName::kO) != nullptr && asked.size() < kMostProbed)
      asked.push_back(&answer);
  // Each of them is wrong in o or in lse.
  if (asked.empty()) return Stage::kLse;
  if (asked.size() < kFewestProbed) return Stage::kUnknown;
  Counts without_scores, of_ones;
  for (const WrongAnswer* answer : asked) {
    ask(with_data(answer->value(), TensorName::kQ, RecipeKind::kZero), witness,
        without_scores);
    ask(with_data(answer->value(), TensorName::kV, RecipeKind::kOne), witness,
        of_ones);
  }
  if (without_scores.are_all_right()) {
    if (of_ones.are_all_right())
      return is_of_scores(asked, witness) ? Stage::kScores : Stage::kUnknown;
    if (of_ones.are_all_wrong()) return Stage::kSoftmax;
    return Stage::kUnknown;
  }
  return without_scores.are_all_wrong() ? stage_by_weights(asked, witness)
                                        : Stage::kUnknown;
}

}  // namespace qkvet::diagnosis
