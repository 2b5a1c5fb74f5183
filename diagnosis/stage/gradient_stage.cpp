// SPDX-License-Identifier: Apache-2.0
// The stage of gradients: P = exp(s - lse), dv = P^T dO, dP = dO V^T, delta =
// rowsum(dO o), dS = P (dP - delta), dq = scale dS K, dk = scale dS^T Q (Dao,
// "FlashAttention-2", 3.1.2). The set of wrong gradients among dq, dk and dv
// leaves few of these. One of them is then made visible: with one-hot keys, dq
// is the rows of dS; with one-hot queries, dk is; and with one-hot dO, dv is
// the weights.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "diagnosis/instead/collector.h"
#include "diagnosis/instead/probe.h"
#include "diagnosis/stage/further_stage.h"
#include "properties/judging/answer.h"
#include "properties/judging/subject.h"

namespace qkvet::diagnosis {
namespace {

constexpr int kMostGradientCases = 24;
constexpr int64_t kWidestShown = 128;  // keys or rows that channels represent
// A departure that is clearly no rounding error, in units of its bound.
constexpr double kClear = 64;
constexpr double kAlike = 1e-3;  // of the largest

// The output that shows a number per pair of a row and a key: dS, or P.
enum class View : uint8_t {
  kByKeys,     // one-hot keys: dq[i, c = j]
  kByQueries,  // one-hot queries: dk[j, c = i]
  kByD_O       // one-hot dO: dv[j, c = i]
};

// How a row of pairs departs from the right one.
enum class Departs : uint8_t {
  kNowhere,
  kByShare,   // by the same multiple of each weight: a number shared by a row
  kByFactor,  // all pairs are the right ones times a number
  kHidden,    // a hidden pair counts, or a visible one does not
  kOtherwise
};

TensorName tensor_of(View view) {
  return view == View::kByKeys      ? TensorName::kDQ
         : view == View::kByQueries ? TensorName::kDK
                                    : TensorName::kDV;
}

bool has_own_value_width(const Witness& witness) {
  return (witness.kernel().info.capabilities.options &
          QKVET_OPTION_VALUE_WIDTH) != 0;
}

// One head for each, so that a pair is one number, and as many channels as
// there are pairs in a row or a column.
std::optional<Case> shown(Case value, View view, bool has_own_width) {
  Shape& s = value.shape;
  s.Hkv = s.H;
  value.share = 0;
  value.values_in_keys = false;
  value.softcap = 0;
  value.rope = {};
  value.dropout.reset();
  value.set.clear();
  const int64_t pairs = view == View::kByKeys ? s.Tk : s.Tq;
  if (pairs > kWidestShown) return std::nullopt;
  int64_t& width = view == View::kByD_O ? s.dv : s.d;
  width = std::max(width, pairs);
  if (!has_own_width) s.d = s.dv = width;
  (view == View::kByKeys      ? value.k
   : view == View::kByQueries ? value.q
                              : value.d_o) = make_recipe(RecipeKind::kOnehotN);
  if (!invalid_reason(value).empty()) return std::nullopt;
  return value;
}

// The weights of all pairs of an answer, and the place of each pair's number.
class Pairs {
 public:
  Pairs(const WrongAnswer& answer, View view, const KernelInfo& kernel)
      : answer_(answer),
        view_(view),
        s_(answer.value().shape),
        output_(*answer.find(tensor_of(view))) {
    const OwnedProblem owned(answer.value(), *answer.inputs,
                             reading_of(answer.value(), kernel.dialect));
    forward_ = plain_forward(owned.problem());
  }

  // All rows that depart do so in the same way; else kOtherwise.
  Departs departs() const {
    Departs all = Departs::kNowhere;
    for (int64_t row = 0; row < s_.B * s_.H * s_.Tq; ++row) {
      const Departs here = of_row(row);
      if (here == Departs::kNowhere) continue;
      if (here == Departs::kHidden) return here;
      all =
          all == Departs::kNowhere || all == here ? here : Departs::kOtherwise;
    }
    return all;
  }

  // Whether the weights of a row add up to something else.
  bool has_another_sum() const {
    for (int64_t row = 0; row < s_.B * s_.H * s_.Tq; ++row) {
      double apart = 0, allowed = 0;
      for (int64_t j = 0; j < s_.Tk; ++j) {
        const size_t n = at(row, j);
        apart += output_.actual[n] - output_.right[n];
        allowed += kClear * output_.bound[n];
      }
      if (std::fabs(apart) > allowed + kAlike) return true;
    }
    return false;
  }

 private:
  size_t at(int64_t row, int64_t j) const {
    const int64_t head = row / s_.Tq, i = row % s_.Tq;
    if (view_ == View::kByKeys) return static_cast<size_t>(row * s_.d + j);
    const int64_t width = view_ == View::kByD_O ? s_.dv : s_.d;
    return static_cast<size_t>((head * s_.Tk + j) * width + i);
  }

  struct Spread {
    double least = INFINITY, most = -INFINITY, unsure = 0;
    int count = 0;

    void add(double value, double by) {
      least = std::min(least, value);
      most = std::max(most, value);
      unsure = std::max(unsure, by);
      ++count;
    }
    bool is_one() const {
      const double size = std::max(std::fabs(least), std::fabs(most));
      return most - least <= 2 * unsure + kAlike * size;
    }
    bool is_clear() const {
      return std::max(std::fabs(least), std::fabs(most)) > 4 * unsure;
    }
  };

  Departs of_row(int64_t row) const {
    Spread shares, factors;
    bool departs = false;
    for (int64_t j = 0; j < s_.Tk; ++j) {
      const size_t n = at(row, j);
      const auto pair = static_cast<size_t>(row * s_.Tk + j);
      const double apart = output_.actual[n] - output_.right[n];
      // The bounds are those before the rounding to storage.
      const double unsure = output_.bound[n] + unit_roundoff(output_.dtype) *
                                                   std::fabs(output_.right[n]) /
                                                   kClear;
      const bool is_clear = std::fabs(apart) > kClear * unsure;
      if (forward_.sees[pair] == 0) {
        if (is_clear) return Departs::kHidden;
        continue;
      }
      if (!std::isfinite(apart)) return Departs::kOtherwise;
      departs |= is_clear;
      const double weight = forward_.weights[pair];
      if (view_ == View::kByD_O && output_.actual[n] == 0 &&
          weight > kClear * unsure)
        return Departs::kHidden;
      if (weight > 0) shares.add(apart / weight, kClear * unsure / weight);
      if (std::fabs(output_.right[n]) > kClear * unsure)
        factors.add(output_.actual[n] / output_.right[n],
                    unsure / std::fabs(output_.right[n]));
    }
    // A single pair always fits.
    if (!departs || shares.count < 2) return Departs::kNowhere;
    if (factors.count > 2 && factors.is_one()) return Departs::kByFactor;
    if (!shares.is_clear()) return Departs::kNowhere;
    if (shares.is_one()) return Departs::kByShare;
    // Two shares with sum 0, right or wrong, are always in proportion.
    return shares.count < 3 ? Departs::kNowhere : Departs::kOtherwise;
  }

  const WrongAnswer& answer_;
  View view_;
  const Shape& s_;
  const WrongOutput& output_;
  OracleOutput forward_;
};

class GradientProbes {
 public:
  GradientProbes(std::vector<WrongAnswer> answers, Witness& witness)
      : answers_(std::move(answers)), witness_(witness) {}

  Stage stage() {
    if (answers_.size() < kFewestProbed) return Stage::kUnknown;
    const bool q = is_wrong(TensorName::kDQ), k = is_wrong(TensorName::kDK),
               v = is_wrong(TensorName::kDV);
    if (!q && !k && !v) return stage_of_rest();
    if (!q && is_of_heads()) return Stage::kGradientHeads;
    if (v && q) return stage_of_weights();
    if (v && k) return Stage::kUnknown;
    if (v) return Stage::kGradientDV;
    if (q && k) return stage_of_scores();
    if (q && are_rows_without_a_key()) return Stage::kEmptyRows;
    // A kernel with separate loops over rows and keys computes delta in each.
    const View view = q ? View::kByKeys : View::kByQueries;
    if (common(view) == Departs::kByShare) return Stage::kGradientDelta;
    return q ? Stage::kGradientDQ : Stage::kGradientDK;
  }

 private:
  bool is_wrong(TensorName name) const {
    return std::any_of(
        answers_.begin(), answers_.end(),
        [&](const WrongAnswer& one) { return one.find(name) != nullptr; });
  }

  // Whether dq is wrong only in rows without a visible key.
  bool are_rows_without_a_key() const {
    return std::all_of(
        answers_.begin(), answers_.end(), [&](const WrongAnswer& one) {
          const WrongOutput* dq = one.find(TensorName::kDQ);
          if (dq == nullptr) return true;
          const OwnedProblem owned(
              one.value(), *one.inputs,
              reading_of(one.value(), witness_.kernel().info.dialect));
          const OracleOutput forward = plain_forward(owned.problem());
          const auto width = static_cast<size_t>(one.value().shape.d);
          return std::all_of(dq->wrong.begin(), dq->wrong.end(), [&](size_t n) {
            return forward.visible[n / width] == 0;
          });
        });
  }

  // The gradient of the bias is dS, and that of a sink belongs to no pair.
  Stage stage_of_rest() const {
    const bool bias = is_wrong(TensorName::kDBias);
    const bool sink = is_wrong(TensorName::kDSink);
    return bias == sink ? Stage::kUnknown
           : bias       ? Stage::kGradientDBias
                        : Stage::kGradientDSink;
  }

  template <class Change>
  ProbedCounts count(Change change) {
    ProbedCounts counts;
    for (size_t n = 0; n < std::min(answers_.size(), kMostProbed); ++n) {
      Case value = answers_[n].value();
      change(value);
      counts.add(probed(value, witness_));
    }
    return counts;
  }

  // dk and dv are sums over the heads of a group: right if each head has its
  // own keys, or if there is one head.
  bool is_of_heads() {
    const auto all = [&](bool (*has)(const Shape&)) {
      return std::all_of(
          answers_.begin(), answers_.end(),
          [&](const WrongAnswer& one) { return has(one.value().shape); });
    };
    return (all([](const Shape& s) { return s.H > s.Hkv; }) &&
            count([](Case& value) {
              value.shape.Hkv = value.shape.H;
            }).are_right()) ||
           (all([](const Shape& s) { return s.H > 1; }) &&
            count([](Case& value) {
              value.shape.H = value.shape.Hkv = 1;
            }).are_right());
  }

  // How the shown numbers depart in failing cases that are run with this view
  // and a change of their data: kNowhere if too few do, or if they differ.
  template <class Change>
  Departs common(View view, Change change) {
    std::optional<Departs> all;
    size_t alike = 0;
    last_.clear();
    for (const WrongAnswer& answer : answers_) {
      if (alike == kMostProbed) break;
      auto value = shown(answer.value(), view, has_own_value_width(witness_));
      if (!value) continue;
      change(*value);
      const Probed one = probed(*value, witness_);
      if (!one.is_wrong() || one.answer->find(tensor_of(view)) == nullptr)
        continue;
      const Pairs pairs(*one.answer, view, witness_.kernel().info);
      const Departs here = pairs.departs();
      if (here == Departs::kNowhere) continue;
      if (all && *all != here) return Departs::kNowhere;
      all = here;
      last_.push_back(pairs.has_another_sum());
      ++alike;
    }
    return alike < kFewestProbed ? Departs::kNowhere : *all;
  }
  Departs common(View view) {
    return common(view, [](Case&) {});
  }

  // All three are wrong: the weights, or a factor of theirs.
  Stage stage_of_weights() {
    switch (common(View::kByD_O)) {
      case Departs::kHidden:
        return Stage::kKeys;
      case Departs::kByShare:
      case Departs::kByFactor:
      case Departs::kOtherwise:
        break;
      case Departs::kNowhere:
        return Stage::kUnknown;
    }
    // If rows of dO are read elsewhere, weights move to another row and each
    // row keeps its sum; if all rows are equal, nothing moves.
    const bool has_another_sum =
        std::all_of(last_.begin(), last_.end(), [](bool one) { return one; });
    return has_another_sum || count([](Case& value) {
                                value.set.clear();
                                value.d_o = make_recipe(RecipeKind::kOne);
                              }).are_wrong()
               ? Stage::kGradientWeights
               : Stage::kUnknown;
  }

  // dq and dk are wrong and the weights are right: dS is wrong, or one of the
  // two terms of its difference.
  Stage stage_of_scores() {
    const bool is_capped = std::all_of(
        answers_.begin(), answers_.end(),
        [](const WrongAnswer& one) { return one.value().softcap > 0; });
    if (is_capped && count([](Case& value) { value.softcap = 0; }).are_right())
      return Stage::kGradientScores;
    switch (common(View::kByKeys)) {
      case Departs::kByShare:
        return Stage::kGradientDelta;
      case Departs::kByFactor:
        return Stage::kGradientScores;
      case Departs::kHidden:
        return Stage::kKeys;
      case Departs::kNowhere:
        return Stage::kUnknown;
      case Departs::kOtherwise:
        break;
    }
    // If all scores are equal, all weights are, so that differences between
    // pairs do not come from them.
    return common(View::kByKeys,
                  [](Case& value) {
                    value.q = make_recipe(RecipeKind::kZero);
                    value.score_bias.reset();
                    value.slopes.reset();
                    value.member_slopes = false;
                  }) == Departs::kOtherwise
               ? Stage::kGradientDP
               : Stage::kUnknown;
  }

  std::vector<WrongAnswer> answers_;
  Witness& witness_;
  std::vector<bool> last_;  // of the last run: has_another_sum()
};

}  // namespace

Stage stage_of_gradients(const Failure& failure, const FailsWhere& where,
                         Witness& witness) {
  Collector collector(witness, kMostAnswers, kMostGradientCases);
  collector.ask(failure.smallest);
  collector.ask(failure.found);
  ask_fresh(failure, where, kStageSeed, kMostGradientCases, collector);
  return GradientProbes(collector.take(), witness).stage();
}

}  // namespace qkvet::diagnosis
