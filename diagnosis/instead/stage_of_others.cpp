// SPDX-License-Identifier: Apache-2.0
// Finds the stage at which caches, layers and merges go wrong, by laws on cases
// that make one stage visible: a story that is cut short and read back, the
// first stage of a layer that departs, a merge of states with equal lse.
#include <algorithm>

#include "diagnosis/evidence/nearby.h"
#include "diagnosis/evidence/stories.h"
#include "diagnosis/instead/collector.h"
#include "properties/judging/subject.h"

namespace qkvet::diagnosis {
namespace {

constexpr int kFewestAlike = 3;
constexpr int kMostAlike = 8;

// kDied: without numbers, because an earlier call damaged memory, or because it
// was refused.
enum class StoryCame : uint8_t { kUnknown, kRight, kWrong, kDied };

StoryCame came_out(const Law& law, const Case& value, Witness& witness) {
  const auto evidence = witness.ask(law, value, begin_new_process);
  if (evidence == nullptr || evidence->judgement.compared == 0)
    return StoryCame::kUnknown;
  if (!evidence->failed()) return StoryCame::kRight;
  const bool has_ended = std::any_of(
      evidence->outcomes.begin(), evidence->outcomes.end(),
      [](const CallOutcome& one) { return one.status != CallStatus::kDone; });
  return has_ended || evidence->judgement.kind != FailureKind::kLaw
             ? StoryCame::kDied
             : StoryCame::kWrong;
}

// --- caches

bool brings_tokens(const StoryCommand& command) {
  return command.verb == StoryVerb::kAppend || command.verb == StoryVerb::kStep;
}

// The story without commands that move tokens or take them away, and with room
// for all of them.
std::optional<Case> without_moves(Case value, const Story& story) {
  Story kept;
  int64_t tokens = 0;
  for (const StoryCommand& one : story) {
    if (!brings_tokens(one)) continue;
    kept.push_back(one);
    tokens += one.count;
  }
  value.capacity = std::max(value.capacity, tokens);
  return with_queries_behind(value, std::move(kept));
}

// Finds the first command after which a sequence holds wrong tokens. If the
// tokens are wrong only after a move, the move is at fault.
Stage stage_of_storage(const Law& stores, const Case& value, Witness& witness) {
  StoryCame last = StoryCame::kUnknown;
  auto n = std::ssize(value.story);
  for (; n >= 1; --n) {
    // The law reads back all sequences, and it needs a query.
    const auto read = with_queries_behind(
        value, {value.story.begin(), value.story.begin() + n});
    if (!read) break;
    const StoryCame came = came_out(stores, *read, witness);
    if (came == StoryCame::kUnknown) return Stage::kUnknown;
    if (came == StoryCame::kRight) break;
    last = came;
  }
  if (last == StoryCame::kUnknown) return Stage::kUnknown;
  const Story culprit(value.story.begin(), value.story.begin() + n + 1);
  const bool is_moved = !brings_tokens(culprit.back());
  if (is_moved && last == StoryCame::kWrong) return Stage::kMoved;
  if (!is_moved && last == StoryCame::kDied) return Stage::kUnknown;
  const auto unmoved = without_moves(value, culprit);
  switch (unmoved ? came_out(stores, *unmoved, witness) : StoryCame::kUnknown) {
    case StoryCame::kWrong:
      return is_moved ? Stage::kUnknown : Stage::kWritten;
    case StoryCame::kRight:
      return Stage::kMoved;
    case StoryCame::kDied:
    case StoryCame::kUnknown:
      break;
  }
  return Stage::kUnknown;
}

// A story with as many tokens and queries of one sequence, appended at once.
Case prompt_like(const Case& value) {
  int64_t tokens = 0, queries = 0;
  for (const StoryCommand& one : value.story) {
    if (brings_tokens(one)) tokens += one.count;
    if (attends(one.verb)) queries = std::max(queries, one.count);
  }
  tokens = std::max<int64_t>(1, std::min(tokens, value.capacity));
  queries = std::clamp<int64_t>(queries, 1, tokens);
  Story story;
  if (tokens > queries)
    story.push_back({StoryVerb::kAppend, 0, tokens - queries});
  story.push_back({StoryVerb::kStep, 0, queries});
  return with_story(value, story);
}

// Nullopt: all of it is right, or was not run.
std::optional<Stage> stage_of_story(const Case& value, Witness& witness) {
  const Law* stores = find_law("cache_stores_what_it_is_given");
  const Law& agrees = agreement_about(Subject::kCache);
  const StoryCame stored = came_out(*stores, value, witness);
  if (stored == StoryCame::kWrong || stored == StoryCame::kDied)
    return stage_of_storage(*stores, value, witness);
  if (stored == StoryCame::kUnknown ||
      came_out(agrees, value, witness) != StoryCame::kWrong)
    return std::nullopt;
  // A prompt fails as well, so the place of the tokens does not matter.
  switch (came_out(agrees, prompt_like(value), witness)) {
    case StoryCame::kWrong:
      return Stage::kAttended;
    case StoryCame::kRight:
      return Stage::kRead;
    case StoryCame::kDied:
    case StoryCame::kUnknown:
      break;
  }
  return Stage::kUnknown;
}

// The law may add the failing command, or other data may be needed.
Stage stage_of_cache(const Failure& failure, const FailsWhere& where,
                     Witness& witness) {
  std::vector<Case> asked = {with_own_tokens(failure.smallest),
                             failure.smallest};
  if (const auto story =
          with_commands_of_law(*failure.law, failure.smallest, witness)) {
    asked.push_back(with_own_tokens(*story));
    asked.push_back(*story);
  }
  if (const auto known = parse_case(where.nearest_failure); known.value)
    asked.push_back(*known.value);
  for (const Case& value : asked)
    if (const auto stage = stage_of_story(value, witness)) return *stage;
  return Stage::kUnknown;
}

// --- layers

// For a layer that returns its stages: the first that departs.
Stage stage_in_layer(const Evidence& evidence) {
  if (!evidence.failed() || !evidence.judgement.finding ||
      evidence.outcomes.size() != 1 || evidence.outcomes[0].stage_q.empty())
    return Stage::kUnknown;
  struct LayerPlace {
    const char* name;
    Stage stage;
  };
  static constexpr LayerPlace kPlaces[] = {
      {"q[", Stage::kProjectQ},      {"k[", Stage::kProjectK},
      {"v[", Stage::kProjectV},      {"attended[", Stage::kInLayer},
      {"weights[", Stage::kInLayer}, {"y[", Stage::kProjectOut}};
  for (const LayerPlace& place : kPlaces)
    if (evidence.judgement.finding->where.starts_with(place.name))
      return place.stage;
  return Stage::kUnknown;
}

Stage stage_of_layer(const Failure& failure, Witness& witness) {
  const Law& agrees = agreement_about(Subject::kLayer);
  Stage stage = Stage::kUnknown;
  int alike = 0;
  for (int n = 0; n < kMostAlike && alike < kFewestAlike; ++n) {
    const Case value =
        n == 0 ? failure.smallest : nearby_case(agrees, failure.smallest, n);
    const auto evidence = witness.ask(agrees, value);
    if (evidence == nullptr || !evidence->failed()) continue;
    const Stage here = stage_in_layer(*evidence);
    if (here == Stage::kUnknown || (alike > 0 && here != stage))
      return Stage::kUnknown;
    stage = here;
    ++alike;
  }
  return alike >= kFewestAlike ? stage : Stage::kUnknown;
}

// --- merges

using ChangeOfCase = void (*)(Case& value);

// Counts how similar cases with a change come out.
struct MergeCounts {
  int right = 0, wrong = 0, lse_alone = 0;

  bool are_right() const { return wrong == 0 && right >= kFewestAlike; }
};
MergeCounts count_merges(const Failure& failure, ChangeOfCase change,
                         Witness& witness) {
  const Law& agrees = agreement_about(Subject::kMerge);
  MergeCounts counts;
  for (int n = 0; n < kMostAlike; ++n) {
    Case value =
        n == 0 ? failure.smallest : nearby_case(agrees, failure.smallest, n);
    value.score_bias = failure.smallest.score_bias;
    change(value);
    if (!invalid_reason(value).empty()) continue;
    const auto evidence = witness.ask(agrees, value);
    if (evidence == nullptr || evidence->judgement.compared == 0) continue;
    if (!evidence->failed()) {
      ++counts.right;
      continue;
    }
    ++counts.wrong;
    counts.lse_alone += evidence->judgement.finding &&
                        evidence->judgement.finding->where.starts_with("lse[");
  }
  return counts;
}

// o is compared before lse, so that a wrong lse means a right o.
Stage stage_of_merge(const Failure& failure, Witness& witness) {
  const auto count = [&](ChangeOfCase change) {
    return count_merges(failure, change, witness);
  };
  const MergeCounts own = count([](Case&) {});
  if (own.wrong < kFewestAlike) return Stage::kUnknown;
  if (own.lse_alone == own.wrong) return Stage::kLse;
  if (count([](Case& value) {
        value.score_bias = make_recipe(RecipeKind::kNormal);
        value.set.clear();
      }).are_right())
    return Stage::kMergeMaximum;
  // Whatever the weights are, equal states merge to themselves, and a single
  // state is unchanged, unless it is taken from elsewhere.
  const bool is_of_weights = count([](Case& value) {
                               value.v = make_recipe(RecipeKind::kOne);
                               value.set.clear();
                             }).are_right() &&
                             count([](Case& value) {
                               value.shape.Tk = 1;
                               value.set.clear();
                             }).are_right();
  return is_of_weights ? Stage::kMergeWeights : Stage::kUnknown;
}

}  // namespace

Stage stage_of_other_subject(const Failure& failure, const FailsWhere& where,
                             Witness& witness) {
  switch (failure.law->domain.subject) {
    case Subject::kCache:
      return stage_of_cache(failure, where, witness);
    case Subject::kLayer:
      return stage_of_layer(failure, witness);
    case Subject::kMerge:
      return stage_of_merge(failure, witness);
    default:
      return Stage::kUnknown;
  }
}

}  // namespace qkvet::diagnosis
