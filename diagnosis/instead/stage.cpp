// SPDX-License-Identifier: Apache-2.0
// Finds the stage at which a row goes wrong: by the parts of failing answers
// that are right, and by calls that make one stage visible. Evidence follows
// the order in which a row is computed: if lse is right, everything before it
// is right, and if the weights add up to 1, the softmax is right.
#include <algorithm>
#include <cmath>
#include <limits>

#include "diagnosis/evidence/nearby.h"
#include "diagnosis/instead/instead.h"
#include "diagnosis/instead/probe.h"
#include "diagnosis/instead/weights_row.h"
#include "properties/conventions/domain.h"
#include "properties/judging/subject.h"

namespace qkvet::diagnosis {
namespace {

constexpr int64_t kLargestElement = 8;  // bytes

Case with_data(Case value, TensorName tensor, RecipeKind kind) {
  (tensor == TensorName::kQ ? value.q : value.v) = make_recipe(kind);
  std::erase_if(value.set,
                [&](const SetValue& one) { return one.tensor == tensor; });
  return value;
}

// All rows of its tensors are given, and no value is also a key.
bool has_plain_rows(const Case& value) {
  return value.cu_q.empty() && value.cu_k.empty() && value.q_len.empty() &&
         value.kv_len.empty() && value.paging.size == 0 && value.append == 0 &&
         !value.values_in_keys;
}

int worth_asking(const WrongAnswer& answer) {
  const Case& value = answer.value();
  return has_plain_rows(value) ? 1 + (value.shape.Tk > 1) : 0;
}

// Wide enough for the output to show all weights.
Case with_weights_shown(const Case& value, const JudgedKernel& kernel) {
  Case shown = with_data(value, TensorName::kV, RecipeKind::kOnehotN);
  Shape& s = shown.shape;
  if (s.dv >= s.Tk) return shown;
  s.dv = s.Tk;
  if ((kernel.info.capabilities.options & QKVET_OPTION_VALUE_WIDTH) == 0)
    s.d = s.dv;
  return shown;
}

// Whether lse or the weights are returned, and right, next to a wrong o.
enum class Beside : uint8_t { kUnknown, kRight, kWrong };

class StageProbes {
 public:
  StageProbes(std::vector<const WrongAnswer*> asked, Witness& witness,
              bool of_other_scores)
      : asked_(std::move(asked)),
        witness_(witness),
        of_other_scores_(of_other_scores),
        lse_(beside(TensorName::kLse)),
        weights_(beside(TensorName::kWeights)) {}

  Stage stage() {
    const Stage seen = seen_stage();
    return seen == Stage::kSoftmax && have_rows_behind() ? Stage::kUnknown
                                                         : seen;
  }

 private:
  Stage seen_stage() {
    if (is_unwritten()) return Stage::kOutput;
    if (are_as_without_keys()) return Stage::kUnknown;
    without_scores_ = with_data_of(TensorName::kQ, RecipeKind::kZero);
    of_ones_ = with_data_of(TensorName::kV, RecipeKind::kOne);
    if (lse_ == Beside::kRight || weights_ == Beside::kRight)
      return lse_ == Beside::kWrong || weights_ == Beside::kWrong
                 ? behind_the_sum()
                 : behind_the_weights();
    if (without_scores_.are_all_right()) {
      if (of_ones_.are_all_wrong()) return Stage::kSoftmax;
      if (!of_ones_.are_all_right()) return Stage::kUnknown;
      if (are_in_tiles()) return Stage::kSoftmax;
      // Means of the visible values are no answers of another row.
      if (of_other_scores_ && lse_ == Beside::kWrong) return Stage::kScores;
      // Rows in each other's place are right if all scores are equal, like rows
      // of wrong scores; if all rows have the same query, they stay right.
      return with_data_of(TensorName::kQ, RecipeKind::kEqual).wrong >=
                     kFewestProbed
                 ? Stage::kScores
                 : Stage::kUnknown;
    }
    if (const Stage stage = by_weights(); stage != Stage::kUnknown)
      return stage;
    if (const Stage stage = by_sums(); stage != Stage::kUnknown) return stage;
    if (const Stage stage = by_options(); stage != Stage::kUnknown)
      return stage;
    return are_by_other_scores() ? Stage::kScores : Stage::kUnknown;
  }

  // Rows are means of the visible values, and no probe contradicts that.
  bool are_by_other_scores() {
    if (!of_other_scores_ || lse_ != Beside::kWrong) return false;
    if (of_ones_.right < of_ones_.wrong && !has_no_number()) return false;
    const auto without_bias =
        std::count_if(asked_.begin(), asked_.end(),
                      [](const WrongAnswer* one) { return !is_biased(one); });
    return without_bias >= static_cast<ptrdiff_t>(kFewestProbed) &&
           !are_in_tiles();
  }

  Beside beside(TensorName name) const {
    size_t right = 0, wrong = 0;
    for (const WrongAnswer* answer : asked_) {
      if (answer->has(name)) ++(answer->find(name) == nullptr ? right : wrong);
    }
    return right + wrong < kFewestProbed ? Beside::kUnknown
           : wrong == 0                  ? Beside::kRight
           : right == 0                  ? Beside::kWrong
                                         : Beside::kUnknown;
  }

  template <class Change>
  ProbedCounts with(Change change) {
    ProbedCounts probe;
    for (const WrongAnswer* answer : asked_)
      probe.add(probed(change(answer->value()), witness_));
    return probe;
  }
  ProbedCounts with_data_of(TensorName tensor, RecipeKind kind) {
    return with(
        [=](const Case& value) { return with_data(value, tensor, kind); });
  }

  // Memory around a tensor looks unwritten when it is read, but hardly in every
  // head. A kernel that widens to f32 and back may leave anything.
  bool is_unwritten() const {
    int flagged = 0;
    bool has_heads = false;
    for (const WrongAnswer* answer : asked_) {
      const Case& value = answer->value();
      if (value.o_dtype != Dtype::kF32 || value.layout != Layout::kBhtd ||
          !value.kv_len.empty() || !value.q_len.empty())
        continue;
      const WrongOutput& o = *answer->find(TensorName::kO);
      if (!answer->evidence->outcomes[0].unwritten ||
          !std::all_of(o.wrong.begin(), o.wrong.end(),
                       [&](size_t n) { return std::isnan(o.actual[n]); }))
        return false;
      has_heads |= value.shape.B * value.shape.H > 1;
      ++flagged;
    }
    return has_heads && flagged > 1;
  }

  // Partial sums that are rescaled wrongly between tiles give means with
  // weights that are in proportion within each tile.
  bool are_in_tiles() {
    constexpr int64_t kFewestKeys = 12;
    const bool are_long =
        std::all_of(asked_.begin(), asked_.end(), [](const WrongAnswer* one) {
          return one->value().shape.Tk >= kFewestKeys;
        });
    return are_long && are_rescaled_by_tiles(with_weights().answers);
  }

  // One of lse and the weights is right and the other is not: the sum is right
  // but not used as the divisor, or the other way round.
  Stage behind_the_sum() const {
    return weights_ == Beside::kWrong ? Stage::kSoftmax : Stage::kUnknown;
  }

  // Everything that is known before the product with V is right.
  Stage behind_the_weights() {
    if (of_ones_.are_all_right()) return Stage::kValues;
    // A right, positive sum does not change a sign.
    if (are_turned()) return Stage::kValues;
    if (are_zero())
      return are_weights_zero() ? Stage::kSoftmax : Stage::kUnknown;
    // A row that is right up to a factor may lack its division, or be stored
    // that way; a row that belongs elsewhere may just be stored here.
    const ProbedCounts shown = with_weights();
    if (!shown.are_all_wrong()) return Stage::kUnknown;
    const bool is_other_product =
        said_of_rows(shown.answers, /*of_output=*/true) ==
            RowOfWeights::kOneMissing ||
        (of_ones_.are_all_wrong() && are_of_no_row(shown.answers) &&
         !are_rescaled_by_tiles(shown.answers) &&
         are_of_keys(shown.answers, with_weights(/*of_key=*/1).answers));
    return is_other_product ? Stage::kValues : Stage::kUnknown;
  }

  bool are_zero() const {
    return std::all_of(
        asked_.begin(), asked_.end(), [](const WrongAnswer* one) {
          const WrongOutput& o = *one->find(TensorName::kO);
          return std::all_of(o.wrong.begin(), o.wrong.end(),
                             [&](size_t n) { return o.actual[n] == 0; });
        });
  }

  // A kernel that skips a row gives the same answer as one that sees none of
  // its keys.
  bool are_as_without_keys() const {
    return weights_ != Beside::kRight && lse_ != Beside::kRight && are_zero() &&
           std::none_of(asked_.begin(), asked_.end(),
                        [](const WrongAnswer* one) {
                          const WrongOutput* lse = one->find(TensorName::kLse);
                          return lse != nullptr && has_number(*lse);
                        });
  }

  static bool has_number(const WrongOutput& output) {
    return std::any_of(output.wrong.begin(), output.wrong.end(), [&](size_t n) {
      return output.actual[n] != -std::numeric_limits<double>::infinity();
    });
  }

  // A kernel that multiplies values by 0 returns NaN if they are NaN. One that
  // returns 0 skips the product, or its result.
  bool are_weights_zero() {
    size_t multiplied = 0, left_out = 0;
    for (const WrongAnswer* answer : asked_) {
      const auto has_nan = answers_nan_to_nan(*answer);
      if (has_nan) ++(*has_nan ? multiplied : left_out);
    }
    return multiplied >= kFewestProbed && left_out == 0 &&
           weights_ != Beside::kRight;
  }

  // With NaN for all values; nullopt: the call returns no numbers.
  std::optional<bool> answers_nan_to_nan(const WrongAnswer& answer) {
    const Case& value = answer.value();
    if (!has_plain_rows(value)) return std::nullopt;
    const Shape& s = value.shape;
    // All bits set is NaN in every type of floating point.
    const std::vector<std::byte> nan(
        static_cast<size_t>(s.B * s.Hkv * s.Tk * s.dv * kLargestElement),
        std::byte{0xff});
    const auto evidence = witness_.ask(
        agreement_about(Subject::kAttention), value,
        [&](std::vector<KernelCall>& calls) { calls.front().v = nan.data(); });
    if (evidence == nullptr || evidence->outcomes.size() != 1 ||
        evidence->outcomes[0].status != CallStatus::kDone)
      return std::nullopt;
    const std::vector<double> o =
        as_doubles(evidence->outcomes[0].o, value.o_dtype);
    const WrongOutput& wrong = *answer.find(TensorName::kO);
    if (o.size() != wrong.actual.size()) return std::nullopt;
    return std::any_of(wrong.wrong.begin(), wrong.wrong.end(),
                       [&](size_t n) { return std::isnan(o[n]); });
  }

  bool are_turned() const {
    return std::all_of(
        asked_.begin(), asked_.end(), [](const WrongAnswer* one) {
          const WrongOutput& o = *one->find(TensorName::kO);
          return std::all_of(o.wrong.begin(), o.wrong.end(), [&](size_t n) {
            return is_near(o.actual[n], -o.right[n], o.bound[n], o.dtype);
          });
        });
  }

  // `of_key`: the key with its weight in the first channel.
  ProbedCounts with_weights(int64_t of_key = 0) {
    return with([&](const Case& value) {
      Case shown = with_weights_shown(value, witness_.kernel());
      shown.v.parameter = of_key;
      return shown;
    });
  }

  Stage by_weights() {
    if (weights_ == Beside::kWrong)
      return stage_of(said_of_rows(asked_, /*of_output=*/false));
    bool is_wider = false;
    for (const WrongAnswer* answer : asked_)
      is_wider |= answer->value().shape.dv < answer->value().shape.Tk;
    const ProbedCounts shown = with_weights();
    // The weights are right, and so is the product with each value.
    if (shown.are_all_right() && !is_wider) return Stage::kValues;
    return shown.are_all_wrong()
               ? stage_of(said_of_rows(shown.answers, /*of_output=*/true))
               : Stage::kUnknown;
  }

  Stage stage_of(RowOfWeights said) {
    switch (said) {
      case RowOfWeights::kOtherKeys:
        return Stage::kKeys;
      case RowOfWeights::kOneMissing:
        return Stage::kValues;
      case RowOfWeights::kImpossible:
        return weights_ == Beside::kWrong || lse_ == Beside::kWrong
                   ? Stage::kSoftmax
                   : Stage::kUnknown;
      case RowOfWeights::kOtherSum:
        // With only o known, the product with V may also have another sum.
        if (weights_ != Beside::kWrong && lse_ != Beside::kWrong)
          return Stage::kUnknown;
        if (has_sink()) return of_another_sum_beside_a_sink();
        return has_keys_of_score_zero() ? Stage::kKeys : Stage::kSoftmax;
      case RowOfWeights::kOtherScores:
        return of_other_scores();
      case RowOfWeights::kNothing:
        break;
    }
    return Stage::kUnknown;
  }

  // Each row is the right one divided by another sum, which is also the sum in
  // lse. A number added to all scores of a row leaves o as it is, or, beside a
  // sink, gives another lse.
  Stage by_sums() const {
    constexpr size_t kFewestRows = 6;
    const bool in_base2 =
        witness_.kernel().info.dialect.lse_base == QKVET_LSE_BASE2;
    size_t rows = 0;
    for (const WrongAnswer* answer : asked_) {
      const WrongOutput& o = *answer->find(TensorName::kO);
      const WrongOutput* lse = answer->find(TensorName::kLse);
      if (lse == nullptr) return Stage::kUnknown;
      const auto width = static_cast<size_t>(o.extents[3]);
      size_t last = o.right.size();
      for (const size_t n : o.wrong) {
        const size_t row = n / width;
        const double apart = lse->right[row] - lse->actual[row];
        const double factor = in_base2 ? std::exp2(apart) : std::exp(apart);
        if (!std::isfinite(factor) ||
            !is_near(o.actual[n], o.right[n] * factor, 4 * o.bound[n], o.dtype))
          return Stage::kUnknown;
        constexpr double kFar = 0.05;
        rows += row != last && std::fabs(factor - 1) > kFar;
        last = row;
      }
    }
    if (rows < kFewestRows) return Stage::kUnknown;
    return has_keys_of_score_zero() ? Stage::kKeys : Stage::kSoftmax;
  }

  bool has_keys_of_score_zero() const {
    const qkvet_dialect& dialect = witness_.kernel().info.dialect;
    return are_keys_of_score_zero(of_ones_.answers,
                                  dialect.lse_base == QKVET_LSE_BASE2);
  }

  static void drop_biases(Case& value) {
    value.score_bias.reset();
    value.slopes.reset();
    value.member_slopes = false;
    std::erase_if(value.set, [](const SetValue& one) {
      return one.tensor == TensorName::kBias ||
             one.tensor == TensorName::kSlopes;
    });
  }

  static bool is_biased(const WrongAnswer* answer) {
    return answer->value().score_bias || answer->value().slopes;
  }

  // NaN hides other errors.
  bool has_no_number() const {
    return std::any_of(
        asked_.begin(), asked_.end(), [](const WrongAnswer* one) {
          const WrongOutput& o = *one->find(TensorName::kO);
          return std::any_of(o.wrong.begin(), o.wrong.end(), [&](size_t n) {
            return !std::isfinite(o.actual[n]);
          });
        });
  }

  // The weights are of other scores, with q = 0 as well: the bias is wrong, or,
  // if there is none, the scores are replaced.
  Stage of_other_scores() {
    if (std::none_of(asked_.begin(), asked_.end(), is_biased))
      return lse_ != Beside::kWrong || !of_ones_.are_all_right()
                 ? Stage::kUnknown
             : are_in_tiles() ? Stage::kSoftmax
                              : Stage::kScores;
    if (!std::all_of(asked_.begin(), asked_.end(), is_biased))
      return Stage::kUnknown;
    return with([](Case value) {
             drop_biases(value);
             return value;
           }).are_all_right()
               ? Stage::kBias
               : Stage::kUnknown;
  }

  // Rows past the length, or in an unwritten page, are keys of any score if
  // they are visible.
  bool have_rows_behind() const {
    return std::all_of(asked_.begin(), asked_.end(),
                       [](const WrongAnswer* answer) {
                         const Case& value = answer->value();
                         return value.paging.size > 0 || !value.kv_len.empty();
                       });
  }

  bool has_sink() const {
    return std::any_of(asked_.begin(), asked_.end(),
                       [](const WrongAnswer* answer) {
                         return answer->value().sink.has_value();
                       });
  }

  // A number added to all scores of a row also changes the share of the sink;
  // it may come from a bias or from the cap.
  Stage of_another_sum_beside_a_sink() {
    const bool is_of_the_sum = with([](Case value) {
                                 drop_biases(value);
                                 value.softcap = 0;
                                 return value;
                               }).are_all_wrong();
    return is_of_the_sum ? Stage::kSoftmax : of_other_scores();
  }

  // The stage of an option that all cases have, if they are right without it.
  Stage by_options() {
    if (!(of_ones_.are_all_right() || has_no_number()) ||
        lse_ == Beside::kRight)
      return Stage::kUnknown;
    Stage stage = Stage::kUnknown;
    for (const StageOfOption& option : stages_of_options()) {
      bool have_all = true;
      for (const WrongAnswer* answer : asked_)
        have_all &= option.row().given(answer->value());
      if (!have_all || !with([&](Case value) {
                          option.row().drop(value);
                          return value;
                        }).are_all_right())
        continue;
      if (stage != Stage::kUnknown && stage != option.stage)
        return Stage::kUnknown;
      stage = option.stage;
    }
    return stage;
  }

  std::vector<const WrongAnswer*> asked_;
  Witness& witness_;
  bool of_other_scores_;
  Beside lse_, weights_;
  ProbedCounts without_scores_, of_ones_;
};

// If all exponentials have the same wrong factor, weights stay right and lse is
// wrong, although the mistake is not in lse.
bool is_constant_apart(const std::vector<WrongAnswer>& answers) {
  std::optional<double> apart;
  for (const WrongAnswer& answer : answers) {
    const WrongOutput* lse = answer.find(TensorName::kLse);
    if (lse == nullptr || answer.value().sink) continue;
    for (const size_t n : lse->wrong) {
      const double here = lse->actual[n] - lse->right[n];
      if (!std::isfinite(here)) return false;
      if (!apart) apart = here;
      if (!is_near(here, *apart, 2 * lse->bound[n], lse->dtype)) return false;
    }
  }
  return apart.has_value();
}

// If all exponentials of a row have the same wrong factor, o stays right unless
// a sink takes part, which has no such factor.
Stage stage_of_lse_alone(const std::vector<WrongAnswer>& answers,
                         Witness& witness) {
  ProbedCounts probe;
  const bool takes_sink =
      (witness.kernel().info.capabilities.options & QKVET_OPTION_SINK) != 0;
  for (size_t n = 0; takes_sink && n < std::min(answers.size(), kMostProbed);
       ++n) {
    Case value = answers[n].value();
    if (!value.sink) value.sink = make_recipe(RecipeKind::kOne);
    probe.add(probed(value, witness));
  }
  if (probe.are_all_right()) return Stage::kLse;
  if (is_constant_apart(answers)) return Stage::kUnknown;
  return probe.wrong >= kFewestProbed ? Stage::kSoftmax : Stage::kLse;
}

}  // namespace

std::span<const StageOfOption> stages_of_options() {
  static constexpr StageOfOption kOptions[] = {
      {"mask", Stage::kKeys, [](Case& c) { c.mask.kind = MaskKind::kButN; }},
      {"keys", Stage::kKeys},
      {"window", Stage::kKeys},
      {"kvlen", Stage::kKeys},
      {"bias", Stage::kBias,
       [](Case& c) { c.score_bias = make_recipe(RecipeKind::kLattice); }},
      {"alibi", Stage::kBias,
       [](Case& c) { c.slopes = make_recipe(RecipeKind::kOne); }},
#define QKVET_OPTION_NUMBER(name, ...) {#name, Stage::kScores},
#include "core/call/option_numbers.def"
      {"sink", Stage::kSoftmax,
       [](Case& c) { c.sink = make_recipe(RecipeKind::kOne); }}};
  return kOptions;
}

Stage probed_stage(const std::vector<WrongAnswer>& answers, Witness& witness,
                   bool of_other_scores) {
  std::vector<const WrongAnswer*> asked;
  int wrong_lse = 0, wrong_weights = 0;
  for (const WrongAnswer& answer : answers) {
    if (answer.find(TensorName::kO) != nullptr) asked.push_back(&answer);
    wrong_lse += answer.find(TensorName::kLse) != nullptr;
    wrong_weights += answer.find(TensorName::kWeights) != nullptr;
  }
  // Each of them is wrong in o, in lse or in the weights.
  if (asked.empty() && wrong_weights == 0)
    return stage_of_lse_alone(answers, witness);
  if (asked.empty()) return wrong_lse == 0 ? Stage::kOutput : Stage::kUnknown;
  if (asked.size() < kFewestProbed) return Stage::kUnknown;
  // Rows that may not be read are NaN in all probes, and a single key is hardly
  // informative.
  std::stable_sort(asked.begin(), asked.end(),
                   [](const WrongAnswer* a, const WrongAnswer* b) {
                     return worth_asking(*a) > worth_asking(*b);
                   });
  asked.resize(std::min(asked.size(), kMostProbed));
  return StageProbes(std::move(asked), witness, of_other_scores).stage();
}

Stage stage_of_dropout(const Failure& failure, Witness& witness) {
  if (!failure.smallest.dropout) return Stage::kUnknown;
  ProbedCounts probe;
  for (int n = 0; n < static_cast<int>(kMostProbed); ++n) {
    Case value = n == 0 ? failure.smallest
                        : nearby_case(*failure.law, failure.smallest, n);
    value.dropout.reset();
    probe.add(probed(value, witness));
  }
  return probe.are_all_right() ? Stage::kValues : Stage::kUnknown;
}

bool is_moved_around(const WrongOutput& output) {
  std::vector<size_t> order(output.right.size());
  for (size_t n = 0; n < order.size(); ++n) order[n] = n;
  std::erase_if(order,
                [&](size_t n) { return !std::isfinite(output.right[n]); });
  const auto less = [&](size_t a, size_t b) {
    return output.right[a] < output.right[b];
  };
  std::sort(order.begin(), order.end(), less);
  return std::all_of(output.wrong.begin(), output.wrong.end(), [&](size_t n) {
    const double actual = output.actual[n];
    const auto at = std::lower_bound(
        order.begin(), order.end(), actual,
        [&](size_t a, double value) { return output.right[a] < value; });
    const auto is_it = [&](size_t m) {
      return is_near(actual, output.right[m], output.bound[m], output.dtype);
    };
    return (at != order.end() && is_it(*at)) ||
           (at != order.begin() && is_it(*std::prev(at)));
  });
}

}  // namespace qkvet::diagnosis
