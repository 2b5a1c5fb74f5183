// SPDX-License-Identifier: Apache-2.0
#include "properties/conditions/situation.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/case/option_data.h"
#include "properties/judging/answer.h"
#include "properties/sequences/played_story.h"

namespace qkvet::properties {
namespace {

// How many tokens sequences share, and how often one that shared some of them
// was changed.
class SharedTokens {
 public:
  void play(const Snapshot& snapshot) {
    const StoryCommand& command = snapshot.command;
    if (!snapshot.illegal.empty() || command.verb == StoryVerb::kAttend) return;
    const bool reorders = command.verb == StoryVerb::kReorder;
    const int64_t changed = changed_sequence(command);
    for (int64_t s = 0; s < held_.sequences(); ++s) {
      const auto letter = static_cast<char>('a' + s);
      if (reorders ? command.parents.find(letter) == std::string::npos
                   : s == changed)
        disturb_those_beside(s);
    }
    held_.play(snapshot);
    const std::vector<int64_t> before = disturbed_;
    disturbed_.resize(static_cast<size_t>(held_.sequences()));
    for (size_t s = 0; s < disturbed_.size(); ++s)
      disturbed_[s] =
          at(before, parent_sequence(command, static_cast<int64_t>(s)));
    if (!reorders && snapshot.history.empty())
      disturbed_[static_cast<size_t>(changed)] = 0;
  }

  int64_t disturbed(int64_t sequence) const { return at(disturbed_, sequence); }

  int64_t shared(int64_t sequence) const {
    int64_t most = 0;
    for (int64_t s = 0; s < held_.sequences(); ++s)
      if (s != sequence) most = std::max(most, in_common(sequence, s));
    return most;
  }

 private:
  static int64_t at(const std::vector<int64_t>& all, int64_t sequence) {
    const auto s = static_cast<size_t>(sequence);
    return s < all.size() ? all[s] : 0;
  }
  int64_t in_common(int64_t one, int64_t other) const {
    const std::vector<Token>&a = held_.of(one), &b = held_.of(other);
    return std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first -
           a.begin();
  }
  // Those that share tokens with the one that is changed now.
  void disturb_those_beside(int64_t changed) {
    for (int64_t s = 0; s < held_.sequences(); ++s)
      if (s != changed)
        disturbed_[static_cast<size_t>(s)] += in_common(changed, s) > 0 ? 1 : 0;
  }

  TokensHeld held_;
  std::vector<int64_t> disturbed_;  // [held_.sequences()]
};

std::vector<CommandAt> commands_of(const std::vector<Snapshot>& snapshots,
                                   const CacheForm& form) {
  std::vector<CommandAt> commands;
  SharedTokens tokens;
  std::vector<PagesOfStory> pages;
  for (size_t care = 0; care < kPageCares; ++care)
    pages.emplace_back(static_cast<PageCare>(care), form);
  std::vector<int64_t> lengths;
  const auto length = [](const std::vector<int64_t>& all, int64_t sequence) {
    const auto s = static_cast<size_t>(sequence);
    return s < all.size() ? all[s] : 0;
  };
  for (const Snapshot& snapshot : snapshots) {
    const int64_t sequence = snapshot.command.sequence;
    commands.push_back({snapshot,
                        length(lengths, sequence),
                        length(snapshot.lengths, sequence),
                        tokens.shared(sequence),
                        tokens.disturbed(sequence),
                        {},
                        {}});
    for (size_t care = 0; care < kPageCares; ++care)
      commands.back().needs_care[care] = pages[care].play(snapshot);
    commands.back().pages = pages[0].taken();
    lengths = snapshot.lengths;
    tokens.play(snapshot);
  }
  return commands;
}

}  // namespace

Situation::Situation(const Case& value) : value_(value) {
  if (!value.story.empty())
    commands_ = commands_of(snapshots_of(value), value.cache);
}

Situation::Situation(const Case& value, const PlannedCall& call)
    : value_(call.variant.value_or(value)),
      own_(&value),
      call_(&call),
      threads_(call.threads),
      lse_(call.want_lse),
      mistake_(call.mistake) {}

Situation::Situation(const Case& value, const std::vector<PlannedCall>& calls)
    : value_(value) {
  std::vector<Snapshot> snapshots;
  for (const PlannedCall& call : calls) {
    if (!call.snapshot) continue;
    snapshots.push_back(*call.snapshot);
    lse_ |= call.want_lse;
    if (call.mistake != Mistake::kNone) mistake_ = call.mistake;
  }
  commands_ = commands_of(snapshots, value.cache);
}

const Visibility& Situation::visibility() const {
  if (visibility_) return *visibility_;
  if (!has_edit()) return visibility_.emplace(value_);
  return visibility_.emplace(value_, edited_inputs());
}

bool Situation::has_edit() const {
  return call_ != nullptr && call_->edit != nullptr;
}

// The edit may have written a mask.
Inputs Situation::edited_inputs() const {
  Inputs inputs = make_inputs(*own_);
  call_->edit(*own_, call_->argument, inputs);
  return inputs;
}

double Situation::largest_score(int64_t b, int64_t h, int64_t i) const {
  if (!scores_) scores_ = largest_scores();
  const Shape& s = value_.shape;
  return (*scores_)[static_cast<size_t>((b * s.H + h) * s.Tq + i)];
}

bool Situation::has_plain_scores() const {
  const Recipe normal = make_recipe(RecipeKind::kNormal);
  return !has_edit() && value_.q == normal && value_.k == normal &&
         value_.score_bias.value_or(normal) == normal && !value_.scale &&
         value_.set.empty() && value_.file == 0;
}

// A weight is the exponential of its score less lse, the sink's share included.
std::vector<double> Situation::largest_scores() const {
  const Inputs inputs = has_edit() ? edited_inputs() : make_inputs(value_);
  const OwnedProblem owned(value_, inputs, /*reading=*/0);
  const OracleOutput out = plain_forward(owned.problem());
  std::vector<double> scores = out.lse;
  const auto keys = static_cast<size_t>(value_.shape.Tk);
  for (size_t row = 0; row < scores.size() && keys > 0; ++row) {
    const auto first = out.weights.begin() + static_cast<ptrdiff_t>(row * keys);
    const double most = *std::max_element(first, first + value_.shape.Tk);
    scores[row] += std::log(out.visible[row] > 0 ? most : 0);
  }
  return scores;
}

FieldFacts Situation::facts_of(int64_t b, int64_t i) const {
  if (value_.fields == MaskFields{}) return {};
  if (!facts_) {
    Inputs inputs;
    if (has_edit())
      inputs = edited_inputs();
    else
      fill_option_data(value_, inputs);
    facts_ = field_facts(value_, inputs);
  }
  return (*facts_)[static_cast<size_t>(b * value_.shape.Tq + i)];
}

std::vector<Situation> situations_of(const Case& value, const Plan& plan) {
  std::vector<Situation> all;
  all.emplace_back(value);
  const bool story =
      std::any_of(plan.calls.begin(), plan.calls.end(),
                  [](const PlannedCall& call) { return call.snapshot; });
  if (story) all.emplace_back(value, plan.calls);
  // Edits may write outside of a case to which the law does not apply.
  if (!plan.not_applicable.empty()) return all;
  for (const PlannedCall& call : plan.calls)
    if (!call.snapshot) all.emplace_back(value, call);
  return all;
}

}  // namespace qkvet::properties
