// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/evidence/stories.h"

#include <algorithm>

#include "properties/cases/generate.h"
#include "properties/conventions/domain.h"
#include "properties/sequences/played_story.h"

namespace qkvet::diagnosis {
namespace {

// One query of every sequence that holds tokens then.
void add_queries(const Snapshot& then, int64_t sequences, Story* story) {
  for (int64_t s = 0; s < sequences; ++s)
    if (then.lengths[static_cast<size_t>(s)] > 0)
      story->push_back({StoryVerb::kAttend, s, 1});
}

}  // namespace

Case with_story(Case value, Story story) {
  value.story = std::move(story);
  constrain_extents_to_story(value);
  return value;
}

Case with_own_tokens(Case value) {
  value.q = value.k = value.v = make_recipe(RecipeKind::kNormal);
  value.set.clear();
  return value;
}

Case with_more_tokens(Case value, int64_t times) {
  for (StoryCommand& command : value.story) {
    command.first *= times;
    if (command.verb != StoryVerb::kFork) command.count *= times;
  }
  value.capacity *= times;
  return with_story(value, value.story);
}

std::optional<Case> with_a_newcomer(Case value) {
  constexpr int64_t kBrought = 2;
  const int64_t newcomer = value.shape.B;
  if (newcomer == kMostSequences) return std::nullopt;
  ++value.shape.B;
  Story story;
  int64_t brought = 0;
  for (StoryCommand command : value.story) {
    if (command.verb == StoryVerb::kReorder)
      command.parents += static_cast<char>('a' + newcomer);
    const bool takes = command.verb == StoryVerb::kTruncate ||
                       command.verb == StoryVerb::kEvict ||
                       command.verb == StoryVerb::kReset;
    story.push_back(std::move(command));
    if (!takes) continue;
    story.push_back({StoryVerb::kAppend, newcomer, kBrought});
    brought += kBrought;
  }
  if (brought == 0) return std::nullopt;
  value.capacity = std::max(value.capacity, brought);
  return with_story(value, std::move(story));
}

std::optional<Case> with_commands_of_law(const Law& law, const Case& value,
                                         Witness& witness) {
  const auto prepared = witness.prepare(law, value);
  if (prepared == nullptr || value.story.empty()) return std::nullopt;
  Story story;
  for (size_t n = 0; n < prepared->calls.size(); ++n) {
    const auto whole = prepared->work->whole_call(witness.kernel(), n);
    const Operation operation = whole.planned.operation;
    // It has a snapshot as well, of no command.
    if (operation == Operation::kCacheCreate)
      story.clear();
    else if (whole.planned.snapshot &&
             whole.planned.snapshot->illegal.empty() &&
             operation != Operation::kCacheReadBack)
      story.push_back(whole.planned.snapshot->command);
  }
  return with_story(value, std::move(story));
}

Case with_queries_behind_all(const Case& value) {
  Story story;
  for (const Snapshot& one : snapshots_of(value)) {
    story.push_back(one.command);
    add_queries(one, value.shape.B, &story);
  }
  return with_story(value, std::move(story));
}

std::optional<Case> with_queries_behind(const Case& value, Story story) {
  const std::vector<Snapshot> all = snapshots_of(value, story);
  const size_t commands = story.size();
  if (!all.empty()) add_queries(all.back(), value.shape.B, &story);
  if (story.size() == commands) return std::nullopt;
  return with_story(value, std::move(story));
}

Case with_queries_of_others(const Case& value) {
  constexpr int kMostOfOthers = 2;  // that share nothing
  Story story;
  TokensHeld held;
  for (const Snapshot& one : snapshots_of(value)) {
    story.push_back(one.command);
    if (!one.illegal.empty() || one.command.verb == StoryVerb::kAttend)
      continue;
    held.play(one);
    const int64_t of = changed_sequence(one.command);
    int left = kMostOfOthers;
    for (int64_t s = 0; s < value.shape.B; ++s)
      if (s != of && !held.of(s).empty() &&
          (held.are_sharing(of, s) || left-- > 0))
        story.push_back({StoryVerb::kAttend, s, 1});
  }
  return with_story(value, std::move(story));
}

}  // namespace qkvet::diagnosis
