// SPDX-License-Identifier: Apache-2.0
#include "properties/sequences/simpler_stories.h"

#include <algorithm>
#include <map>
#include <set>

namespace qkvet::properties {
namespace {

// Calls use(sequence) for all that a command reads or changes.
template <class Use>
void for_each_sequence(const StoryCommand& command, Use use) {
  if (command.verb != StoryVerb::kReorder) {
    use(command.sequence);
    if (command.verb == StoryVerb::kFork) use(command.count);
    return;
  }
  for (int64_t s = 0; s < std::ssize(command.parents); ++s)
    if (const int64_t parent = parent_sequence(command, s); parent != s)
      use(s), use(parent);
}

std::set<int64_t> used_sequences(const Story& story) {
  std::set<int64_t> used;
  for (const StoryCommand& command : story)
    for_each_sequence(command, [&](int64_t s) { used.insert(s); });
  return used;
}

class Steps {
 public:
  Steps(const Story& story, int64_t sequences, const TakesStory& takes)
      : story_(story), sequences_(sequences), takes_(takes) {}

  bool try_renamed() const;
  bool try_merged() const;
  bool try_shorter() const;
  bool try_fewer_sequences() const;
  // For each command.
  bool try_lower(size_t at) const;
  bool try_shifted(size_t at) const;

 private:
  template <class Change>
  bool try_with(Change change, bool only_if_smaller = false) const {
    SimplerStory next{story_, sequences_, only_if_smaller};
    change(next.story);
    return takes_(std::move(next));
  }
  bool try_number(size_t at, int64_t StoryCommand::*number,
                  int64_t least) const;

  const Story& story_;
  int64_t sequences_;
  const TakesStory& takes_;
};

// Without sequences that no command is about, below others. An illegal command
// may name one that is not there.
bool Steps::try_renamed() const {
  std::map<int64_t, int64_t> names;
  for (const int64_t s : used_sequences(story_))
    names.emplace(s, std::ssize(names));
  if (names.empty() || names.rbegin()->first >= sequences_ ||
      names.rbegin()->first == names.rbegin()->second)
    return false;
  SimplerStory next{story_, sequences_};
  next.sequences -= names.rbegin()->first - names.rbegin()->second;
  for (StoryCommand& command : next.story) {
    if (command.verb != StoryVerb::kReorder) {
      command.sequence = names[command.sequence];
      if (command.verb == StoryVerb::kFork)
        command.count = names[command.count];
      continue;
    }
    std::string parents = own_parents(next.sequences);
    for (const auto& [old, name] : names)
      if (const int64_t parent = parent_sequence(command, old); parent != old)
        parents[static_cast<size_t>(name)] = parent_letter(names[parent]);
    command.parents = parents;
  }
  return takes_(std::move(next));
}

// Merges two commands about one sequence, and reduces a step to one of its
// parts.
bool Steps::try_merged() const {
  for (size_t i = 0; i < story_.size(); ++i) {
    const StoryCommand& command = story_[i];
    if (command.verb == StoryVerb::kStep)
      for (const StoryVerb part : {StoryVerb::kAppend, StoryVerb::kAttend})
        if (try_with([&](Story& story) { story[i].verb = part; },
                     /*only_if_smaller=*/true))
          return true;
    if (i == 0) continue;
    const StoryCommand& before = story_[i - 1];
    if (appends(command.verb) && appends(before.verb) &&
        command.sequence == before.sequence &&
        try_with(
            [&](Story& story) {
              story[i].count += before.count;
              story.erase(story.begin() + static_cast<ptrdiff_t>(i - 1));
            },
            /*only_if_smaller=*/true))
      return true;
  }
  return false;
}

bool Steps::try_shorter() const {
  const size_t commands = story_.size();
  if (commands < 2) return false;
  const auto without = [&](size_t from, size_t end) {
    return try_with([&](Story& story) {
      story.erase(story.begin() + static_cast<ptrdiff_t>(from),
                  story.begin() + static_cast<ptrdiff_t>(end));
    });
  };
  if (without(commands / 2, commands) || without(0, commands / 2)) return true;
  for (size_t i = commands; i-- > 0;)
    if (without(i, i + 1)) return true;
  return false;
}

bool Steps::try_number(size_t at, int64_t StoryCommand::*number,
                       int64_t least) const {
  for (const int64_t next : smaller_numbers(story_[at].*number, least))
    if (try_with([&](Story& story) { story[at].*number = next; })) return true;
  return false;
}

// Fewer tokens, and later truncations and evictions moved by them.
bool Steps::try_shifted(size_t at) const {
  const StoryCommand& now = story_[at];
  if (!appends(now.verb)) return false;
  for (const int64_t next : smaller_numbers(now.count, 1)) {
    bool moves = false;
    SimplerStory shifted{story_, sequences_};
    shifted.story[at].count = next;
    for (size_t i = at + 1; i < story_.size(); ++i) {
      StoryCommand& later = shifted.story[i];
      const bool truncates = later.verb == StoryVerb::kTruncate;
      if (!truncates && later.verb != StoryVerb::kEvict) continue;
      int64_t& place = truncates ? later.count : later.first;
      moves |= place > 0;
      place = std::max<int64_t>(place - (now.count - next), 0);
    }
    if (moves && takes_(std::move(shifted))) return true;
  }
  return false;
}

bool Steps::try_lower(size_t at) const {
  const StoryCommand& command = story_[at];
  if (command.verb == StoryVerb::kReorder) {
    // Each sequence its own parent, one by one.
    for (int64_t s = 0; s < std::ssize(command.parents); ++s)
      if (parent_sequence(command, s) != s && try_with([&](Story& story) {
            story[at].parents[static_cast<size_t>(s)] = parent_letter(s);
          }))
        return true;
    return false;
  }
  return try_number(at, &StoryCommand::count, least_count(command.verb)) ||
         try_number(at, &StoryCommand::first, 0) ||
         (command.sequence > 0 &&
          try_with([&](Story& story) { --story[at].sequence; }));
}

// As few as the commands name; and one less.
bool Steps::try_fewer_sequences() const {
  for (const int64_t fewer : {sequences_needed(story_), sequences_ - 1}) {
    if (fewer >= sequences_ || fewer < 1) continue;
    SimplerStory next{story_, fewer};
    for (StoryCommand& command : next.story)
      if (std::ssize(command.parents) > fewer)
        command.parents.resize(static_cast<size_t>(fewer));
    if (takes_(std::move(next))) return true;
  }
  return false;
}

}  // namespace

std::vector<int64_t> smaller_numbers(int64_t now, int64_t least) {
  std::vector<int64_t> numbers;
  for (const int64_t next : {least, now / 2, now - 1})
    if (next >= least && next < now) numbers.push_back(next);
  return numbers;
}

int64_t sequences_needed(const Story& story) {
  const std::set<int64_t> used = used_sequences(story);
  return used.empty() ? 1 : *used.rbegin() + 1;
}

bool try_simpler_stories(const Story& story, int64_t sequences,
                         const TakesStory& takes) {
  const Steps steps(story, sequences, takes);
  const auto for_one = [&](bool (Steps::*try_at)(size_t) const) {
    for (size_t i = 0; i < story.size(); ++i)
      if ((steps.*try_at)(i)) return true;
    return false;
  };
  return steps.try_renamed() || steps.try_merged() || steps.try_shorter() ||
         for_one(&Steps::try_lower) || steps.try_fewer_sequences() ||
         for_one(&Steps::try_shifted);
}

Story history_of_last(const Story& story) {
  std::set<int64_t> related;
  for_each_sequence(story.back(), [&](int64_t s) { related.insert(s); });
  Story history;
  for (size_t i = story.size(); i-- > 0;) {
    const StoryCommand& command = story[i];
    const bool is_last = i + 1 == story.size();
    if (command.verb == StoryVerb::kReset && !is_last) {
      related.erase(command.sequence);
      continue;
    }
    bool is_kept = is_last;
    if (command.verb == StoryVerb::kFork) {
      is_kept |= related.contains(command.count);
      if (is_kept) related.insert(command.sequence);
    } else if (command.verb == StoryVerb::kReorder) {
      const std::set<int64_t> after = related;
      for (const int64_t s : after) {
        const int64_t parent = parent_sequence(command, s);
        is_kept |= parent != s;
        related.insert(parent);
      }
    } else {
      is_kept |= related.contains(command.sequence);
    }
    if (is_kept) history.push_back(command);
  }
  std::reverse(history.begin(), history.end());
  return history;
}

}  // namespace qkvet::properties
