// SPDX-License-Identifier: Apache-2.0
// Simpler cases of a cache: the shortest stories that could fail first, then
// the steps of all stories, then narrower heads and plainer options.
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

void add_smaller_forms(const Case& value, Collector& out) {
  const Shape& s = value.shape;
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
  try_simpler_stories(value.story, value.shape.B, [&out](SimplerStory next) {
    add(
        out,
        [&next](Case& c) {
          c.story = std::move(next.story);
          c.shape.B = next.sequences;
        },
        next.only_if_smaller);
    return false;
  });
  add_smaller_forms(value, out);
  add_simpler_numbers(value, out);
  out.add([](Case& c) { c.cache = {0, 0, 0, c.cache.stored}; });
  add_simpler_options(value, out);
  add_smaller_rings(value, out);
  add_simpler_rope(value, out);
  add_plainer_data(value, {&Case::q, &Case::k, &Case::v}, out);
}

}  // namespace qkvet::properties
