// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/stage/further_stage.h"

#include <algorithm>
#include <cmath>

#include "diagnosis/evidence/nearby.h"
#include "diagnosis/instead/collector.h"
#include "diagnosis/instead/probe.h"
#include "properties/judging/subject.h"

namespace qkvet::diagnosis {
namespace {

constexpr int kMostFurtherCases = 24;

Case without_set(Case value, TensorName tensor) {
  std::erase_if(value.set,
                [&](const SetValue& one) { return one.tensor == tensor; });
  return value;
}

Case with_values(const Case& value, RecipeKind kind) {
  Case out = without_set(value, TensorName::kV);
  out.v = make_recipe(kind);
  return out;
}

bool are_finite(const WrongOutput& output) {
  return std::all_of(output.wrong.begin(), output.wrong.end(),
                     [&](size_t n) { return std::isfinite(output.actual[n]); });
}

bool are_finite(const WrongAnswer& answer) {
  return std::all_of(answer.outputs.begin(), answer.outputs.end(),
                     [](const WrongOutput& one) { return are_finite(one); });
}

class FurtherProbes {
 public:
  FurtherProbes(std::vector<WrongAnswer> answers, Witness& witness)
      : answers_(std::move(answers)), witness_(witness) {
    std::erase_if(answers_, [](const WrongAnswer& one) {
      return one.find(TensorName::kO) == nullptr;
    });
  }

  bool are_enough() const { return answers_.size() >= kFewestProbed; }

  Stage stage() {
    if (is_made_of_nothing()) return Stage::kValues;
    if (is_stored_elsewhere() || is_stored_outside()) return Stage::kOutput;
    if (is_healed_by_a_sink()) return Stage::kSoftmax;
    return stage_of_the_finite();
  }

 private:
  bool has_wrong_lse() const {
    return std::any_of(answers_.begin(), answers_.end(),
                       [](const WrongAnswer& one) {
                         return one.find(TensorName::kLse) != nullptr;
                       });
  }

  // With V = 0, o is 0 for any weights. Other numbers come from the product
  // with V, or from memory that is used instead of it.
  bool is_made_of_nothing() {
    if (has_wrong_lse()) return false;
    size_t asked = 0;
    for (const WrongAnswer& answer : answers_) {
      if (asked == kMostProbed) break;
      if (answer.value().values_in_keys) continue;
      const Probed of_none =
          probed(with_values(answer.value(), RecipeKind::kZero), witness_);
      if (of_none.came == Came::kUnknown) continue;
      if (!of_none.is_wrong() ||
          !are_finite(*of_none.answer->find(TensorName::kO)))
        return false;
      ++asked;
    }
    return asked >= kFewestProbed;
  }

  // Whether an element of another row and another channel was stored here. A
  // query that is read elsewhere keeps the channel, and a value keeps the row.
  static bool is_of_another_row_and_channel(const WrongOutput& o, size_t n,
                                            bool* is_known) {
    const auto width = static_cast<size_t>(o.extents[3]);
    bool crosses = false, stays = false;
    for (size_t m = 0; m < o.right.size(); ++m) {
      if (!is_near(o.actual[n], o.right[m], o.bound[n], o.dtype)) continue;
      const bool other_row = m / width != n / width;
      const bool other_channel = m % width != n % width;
      (other_row && other_channel ? crosses : stays) = true;
    }
    *is_known = crosses || stays;
    return crosses && !stays;
  }

  bool is_stored_elsewhere() const {
    if (has_wrong_lse()) return false;
    constexpr size_t kMostElements = 4096;  // all are compared with all
    size_t crossing = 0;
    for (const WrongAnswer& answer : answers_) {
      const WrongOutput& o = *answer.find(TensorName::kO);
      if (o.right.size() > kMostElements) continue;
      bool crosses = false;
      for (const size_t n : o.wrong) {
        if (std::isnan(o.actual[n])) continue;  // unwritten, or a gap
        bool is_known = false;
        crosses |= is_of_another_row_and_channel(o, n, &is_known);
        if (!is_known) return false;
      }
      crossing += crosses;
    }
    return crossing >= kFewestProbed;
  }

  // With more channels, a misplaced write leaves the tensor.
  bool is_stored_outside() {
    const bool has_own_width = (witness_.kernel().info.capabilities.options &
                                QKVET_OPTION_VALUE_WIDTH) != 0;
    size_t outside = 0;
    for (const WrongAnswer& answer : answers_) {
      if (outside == kMostProbed) break;
      Case wider = answer.value();
      wider.set.clear();
      wider.shape.dv += 5;
      if (!has_own_width) wider.shape.d = wider.shape.dv;
      if (!invalid_reason(wider).empty()) continue;
      const auto evidence =
          witness_.ask(agreement_about(Subject::kAttention), wider);
      if (evidence == nullptr || !evidence->failed()) continue;
      const auto tensor = touched_outside(*evidence);
      if (!tensor) continue;
      if (*tensor != TensorName::kO) return false;
      ++outside;
    }
    return outside >= kFewestProbed;
  }

  // A sink changes only the maximum and the sum. The probe uses few keys, so
  // that later ones do not undo the effect of the sink. A bias of 0 is also an
  // option, and must not help.
  bool is_healed_by_a_sink() {
    constexpr uint64_t kBoth = QKVET_OPTION_SINK | QKVET_OPTION_BIAS;
    constexpr int64_t kFewKeys = 2;
    if ((witness_.kernel().info.capabilities.options & kBoth) != kBoth)
      return false;
    size_t healed = 0, ill = 0;
    for (const WrongAnswer& answer : answers_) {
      if (healed + ill == kMostProbed) break;
      Case plain = answer.value();
      plain.sink.reset();
      plain.score_bias.reset();
      if (plain.kv_len.empty() && plain.cu_k.empty() &&
          plain.paging.size == 0 && plain.append == 0)
        plain.shape.Tk = std::min(plain.shape.Tk, kFewKeys);
      if (plain.shape.Tk > kFewKeys) continue;
      plain.set.clear();
      Case with_sink = plain, with_bias = plain;
      with_sink.sink = make_recipe(RecipeKind::kZero);
      with_bias.score_bias = make_recipe(RecipeKind::kZero);
      if (!probed(plain, witness_).is_wrong()) continue;
      const Probed sink = probed(with_sink, witness_);
      if (sink.came == Came::kUnknown) continue;
      if (!probed(with_bias, witness_).is_wrong()) return false;
      ++(sink.is_right() ? healed : ill);
    }
    // With large scores, two keys may undo it as well.
    return healed >= kFewestProbed && ill <= healed / kFewestProbed;
  }

  // A kernel that reads a gap between rows returns NaN for every probe, so only
  // answers without NaN are probed.
  Stage stage_of_the_finite() {
    const size_t all = answers_.size();
    std::erase_if(answers_,
                  [](const WrongAnswer& one) { return !are_finite(one); });
    return answers_.size() == all || !are_enough()
               ? Stage::kUnknown
               : probed_stage(answers_, witness_);
  }

  std::vector<WrongAnswer> answers_;
  Witness& witness_;
};

// For kernels that fail for scores of hundreds, but are right or return no
// numbers for data of the usual size: only the maximum keeps exponentials from
// overflowing. With scores of 0 all answers are right, and with V = 1 no row is
// a mean.
Stage stage_of_large_scores(const Failure& failure, Witness& witness) {
  constexpr int kMostLarge = 30;
  constexpr int64_t kKeys[] = {1, 8, 2, 16, 3};
  size_t alike = 0;
  for (int n = 0; n < kMostLarge && alike < kMostProbed; ++n) {
    Case value =
        n == 0 ? failure.smallest
               : nearby_case(agreement_about(Subject::kAttention),
                             n % 2 == 0 ? failure.smallest : failure.found, n);
    value.set.clear();
    value.q = value.k = Recipe{RecipeKind::kLargeN, 4};
    value.v = make_recipe(RecipeKind::kNormal);
    value.softcap = 0;
    if (value.kv_len.empty() && value.cu_k.empty() && value.paging.size == 0 &&
        value.append == 0)
      value.shape.Tk = kKeys[static_cast<size_t>(n) % std::size(kKeys)];
    if (!probed(value, witness).is_wrong()) continue;
    Case of_zeros = value;
    of_zeros.q = make_recipe(RecipeKind::kZero);
    if (!probed(of_zeros, witness).is_right() ||
        !probed(with_values(value, RecipeKind::kOne), witness).is_wrong())
      return Stage::kUnknown;
    ++alike;
  }
  return alike >= kFewestProbed ? Stage::kSoftmax : Stage::kUnknown;
}

Stage stage_of_rows(const Failure& failure, const FailsWhere& where,
                    const Instead& instead, Witness& witness) {
  Collector collector(witness, kMostAnswers, kMostFurtherCases);
  collector.ask(failure.smallest);
  collector.ask(failure.found);
  ask_fresh(failure, where, kStageSeed, kMostFurtherCases, collector);
  FurtherProbes probes(collector.take(), witness);
  const Stage stage = probes.are_enough() ? probes.stage() : Stage::kUnknown;
  // Wrong numbers for data of the usual size have been probed already.
  return stage != Stage::kUnknown || !instead.outputs.empty()
             ? stage
             : stage_of_large_scores(failure, witness);
}

// The cause of a wrong lse precedes o as well, unless it is in lse itself. o is
// then wrong without a stage of its own.
Stage stage_of_lse_beside_o(const Instead& instead) {
  Stage stage = Stage::kUnknown;
  bool is_beside_o = false;
  for (const OutputInstead& one : instead.outputs) {
    if (one.of_empty_rows) return Stage::kUnknown;
    if (one.output == TensorName::kLse && one.stage != Stage::kLse)
      stage = one.stage;
    is_beside_o |= one.output == TensorName::kO && one.stage == Stage::kUnknown;
  }
  return is_beside_o ? stage : Stage::kUnknown;
}

}  // namespace

Stage look_further_for_stage(const Failure& failure, const FailsWhere& where,
                             const Instead& instead, const EvidencePool& pool,
                             int* calls, double parts) {
  const Subject subject = failure.law->domain.subject;
  const bool is_story = subject == Subject::kCache;
  if (subject == Subject::kBackward) {
    Witness witness(pool, kMostStageCalls, parts);
    const Stage stage = stage_of_gradients(failure, where, witness);
    *calls += witness.calls_made();
    return stage;
  }
  if (!is_story && subject != Subject::kAttention) return Stage::kUnknown;
  // Dropout has its own probes, and empty rows have their own stage.
  if (failure.smallest.dropout) return Stage::kUnknown;
  if (const Stage told = stage_of_lse_beside_o(instead);
      told != Stage::kUnknown)
    return told;
  Witness witness(pool, kMostStageCalls * (is_story ? kCallsOfStory : 1),
                  parts);
  const Stage stage = is_story
                          ? stage_of_dead_stories(failure, where, witness)
                          : stage_of_rows(failure, where, instead, witness);
  *calls += witness.calls_made();
  // The stage must not contradict a description, except one of o alone next to
  // an unexplained lse.
  const bool is_open =
      std::any_of(instead.outputs.begin(), instead.outputs.end(),
                  [](const OutputInstead& one) {
                    return one.output == TensorName::kLse && one.text.empty();
                  });
  const bool is_denied = std::any_of(
      instead.outputs.begin(), instead.outputs.end(),
      [&](const OutputInstead& one) {
        return !is_open && one.stage != Stage::kUnknown && one.stage != stage;
      });
  return is_denied ? Stage::kUnknown : stage;
}

}  // namespace qkvet::diagnosis
