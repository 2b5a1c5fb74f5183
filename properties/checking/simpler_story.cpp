// SPDX-License-Identifier: Apache-2.0
// Simpler stories: the shortest ones that could fail first, then without single
// commands, with fewer tokens, fewer sequences and narrower heads.
#include <algorithm>

#include "properties/checking/simpler.h"

namespace qkvet::properties {
namespace {

// Changes a case, and gives it the extents of its new story.
template <class Change>
void add(Collector& out, Change change, bool smaller = false) {
  out.add(
      [&change](Case& c) {
        change(c);
        constrain_extents_to_story(c);
      },
      smaller);
}

// Stories that show most mistakes, whatever the origin was.
void add_shortest(Collector& out) {
  using enum StoryVerb;
  const Story shortest[] = {
      {{kStep, 0, 1}},
      {{kStep, 0, 2}},
      {{kStep, 0, 1}, {kStep, 0, 1}},
      {{kStep, 0, 3}},
      {{kStep, 0, 1}, {kStep, 0, 2}},
      {{kStep, 0, 1}, {kReset, 0, 0}, {kStep, 0, 1}},
      {{kStep, 0, 2}, {kTruncate, 0, 1}, {kStep, 0, 1}},
      {{kStep, 0, 2}, {kEvict, 0, 1}, {kAttend, 0, 1}},
      {{kAppend, 0, 2}, {kEvict, 0, 1}, {kStep, 0, 1}},
      {{kStep, 0, 1}, {kStep, 1, 1}},
      {{kStep, 0, 1}, {kFork, 0, 1}, {kStep, 1, 1}},
      {{kStep, 0, 1}, {kFork, 0, 1}, {kAppend, 1, 1}, {kStep, 0, 1}},
      {{kStep, 0, 1}, {kReorder, 0, 0, "aa"}, {kStep, 1, 1}},
      {{kStep, 0, 1}, {kStep, 1, 1}, {kStep, 0, 1}}};
  for (const bool tiny : {true, false})
    for (const Story& story : shortest)
      add(
          out,
          [&](Case& c) {
            c.story = story;
            const bool two = std::any_of(
                story.begin(), story.end(), [](const StoryCommand& command) {
                  return command.sequence > 0 || command.verb == kFork ||
                         command.verb == kReorder;
                });
            c.shape.B = two ? 2 : 1;
            c.capacity = 4;
            if (!tiny) return;
            c.shape.H = c.shape.Hkv = 1;
            c.shape.d = c.shape.dv = 1;
          },
          /*smaller=*/true);
}

// Merges two commands about one sequence, and reduces a step to one of its
// parts.
void add_merged(const Case& value, Collector& out) {
  using enum StoryVerb;
  const auto change_to = [&out](auto change) {
    add(
        out, [&change](Case& c) { change(c.story); }, /*smaller=*/true);
  };
  for (size_t i = 0; i < value.story.size(); ++i) {
    const StoryCommand& command = value.story[i];
    if (command.verb == kStep)
      for (const StoryVerb part : {kAppend, kAttend})
        change_to([&](Story& story) { story[i].verb = part; });
    if (i == 0) continue;
    const StoryCommand& before = value.story[i - 1];
    if (appends(command.verb) && appends(before.verb) &&
        command.sequence == before.sequence)
      change_to([&](Story& story) {
        story[i].count += before.count;
        story.erase(story.begin() + static_cast<ptrdiff_t>(i - 1));
      });
  }
}

// Without the first sequence, where no command is about it.
void add_renamed(const Case& value, Collector& out) {
  const bool unused = std::all_of(
      value.story.begin(), value.story.end(), [](const StoryCommand& command) {
        return command.sequence > 0 &&
               (command.verb != StoryVerb::kFork || command.count > 0);
      });
  if (!unused || value.shape.B == 1) return;
  add(out, [](Case& c) {
    --c.shape.B;
    for (StoryCommand& command : c.story) {
      --command.sequence;
      command.count -= command.verb == StoryVerb::kFork ? 1 : 0;
    }
  });
}

void add_shorter(const Case& value, Collector& out) {
  const size_t commands = value.story.size();
  if (commands > 1) {
    add(out, [&](Case& c) { c.story.resize(commands / 2); });
    add(out, [&](Case& c) {
      c.story.erase(c.story.begin(),
                    c.story.begin() + static_cast<ptrdiff_t>(commands / 2));
    });
    for (size_t i = commands; i-- > 0;)
      add(out, [&](Case& c) {
        c.story.erase(c.story.begin() + static_cast<ptrdiff_t>(i));
      });
  }
  for (size_t i = 0; i < commands; ++i) {
    if (value.story[i].verb == StoryVerb::kReorder) {
      // Each sequence its own parent, one by one.
      for (size_t s = 0; s < value.story[i].parents.size(); ++s) {
        const char own = static_cast<char>('a' + s);
        if (value.story[i].parents[s] != own)
          add(out, [&](Case& c) { c.story[i].parents[s] = own; });
      }
      continue;
    }
    try_lower(value.story[i], [&](const StoryCommand& less) {
      add(out, [&](Case& c) { c.story[i] = less; });
      return false;
    });
    if (value.story[i].sequence > 0)
      add(out, [&](Case& c) { --c.story[i].sequence; });
  }
}

void add_smaller_forms(const Case& value, Collector& out) {
  const Shape& s = value.shape;
  if (s.B > 1)
    add(out, [](Case& c) {
      --c.shape.B;
      for (StoryCommand& command : c.story)
        if (command.verb == StoryVerb::kReorder)
          command.parents.resize(static_cast<size_t>(c.shape.B));
    });
  if (s.H > 1) {
    add(out, [](Case& c) { c.shape.H = c.shape.Hkv = 1; });
    add(out, [](Case& c) { c.shape.H = c.shape.Hkv; });
    add(out, [](Case& c) { c.shape.H = c.shape.group(), c.shape.Hkv = 1; });
    add(out, [](Case& c) { c.shape.H -= c.shape.group(), --c.shape.Hkv; });
  }
  for (const auto extent : {&Shape::d, &Shape::dv})
    for (const int64_t next : smaller_numbers(s.*extent, 1))
      add(out, [&](Case& c) { c.shape.*extent = next; });
  for (const int64_t next : smaller_numbers(value.capacity, 1))
    add(out, [&](Case& c) { c.capacity = next; });
}

// A shorter prompt goes around a smaller ring at the same place.
void add_smaller_rings(const Case& value, Collector& out) {
  for (size_t i = 0; i < value.story.size(); ++i)
    if (value.cache.window > 1 && appends(value.story[i].verb) &&
        value.story[i].count > 1)
      add(out, [&](Case& c) {
        --c.cache.window;
        --c.story[i].count;
      });
}

}  // namespace

void add_simpler_story(const Case& value, Collector& out) {
  add_shortest(out);
  add_renamed(value, out);
  add_merged(value, out);
  add_shorter(value, out);
  add_smaller_forms(value, out);
  add_simpler_numbers(value, out);
  out.add([](Case& c) { c.cache = {0, 0, 0, c.cache.stored}; });
  add_simpler_options(value, out);
  add_smaller_rings(value, out);
  add_simpler_rope(value, out);
  add_plainer_data(value, {&Case::q, &Case::k, &Case::v}, out);
}

}  // namespace qkvet::properties
