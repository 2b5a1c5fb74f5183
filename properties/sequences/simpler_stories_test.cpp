// SPDX-License-Identifier: Apache-2.0
#include "properties/sequences/simpler_stories.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace qkvet::properties::simpler_stories_test {
namespace {

Story parsed(const std::string& text) {
  std::string error;
  const auto story = parse_story(text, &error);
  EXPECT_TRUE(story) << text << error;
  return story.value_or(Story{});
}

// All steps from a story, as "STORY of SEQUENCES".
std::vector<std::string> steps_of(const std::string& text, int64_t sequences) {
  std::vector<std::string> steps;
  try_simpler_stories(parsed(text), sequences, [&](const SimplerStory& next) {
    steps.push_back(story_text(next.story) + " of " +
                    std::to_string(next.sequences));
    return false;
  });
  return steps;
}

bool has_step(const std::string& text, int64_t sequences,
              const std::string& step) {
  return std::ranges::count(steps_of(text, sequences), step) > 0;
}

TEST(SimplerStories, SequencesCloseUp) {
  EXPECT_EQ(steps_of("step.b.1+fork.d.b+step.d.1", 5)[0],
            "step.a.1+fork.b.a+step.b.1 of 3");
  EXPECT_EQ(steps_of("step.b.1+reorder.adcb", 4)[0],
            "step.a.1+reorder.ba of 2");
  EXPECT_TRUE(
      has_step("step.a.1+reorder.bacde", 5, "step.a.1+reorder.ba of 2"));
  // Nothing is below a and b.
  EXPECT_EQ(steps_of("append.a.1+append.b.1", 2)[0], "append.a.1 of 2");
}

TEST(SimplerStories, SequencesThatAreNotThereStay) {
  for (const std::string& step : steps_of("step.a.1+fork.a.h+reorder.ba", 2))
    EXPECT_TRUE(step.ends_with(" of 2") || step.ends_with(" of 1")) << step;
}

TEST(SimplerStories, ATruncationFollowsTheTokensBeforeIt) {
  EXPECT_TRUE(has_step("append.a.5+truncate.a.4+evict.a.2.1", 1,
                       "append.a.4+truncate.a.3+evict.a.1.1 of 1"));
  EXPECT_FALSE(
      has_step("append.a.5+attend.a.4", 1, "append.a.4+attend.a.3 of 1"));
}

// The first step that is taken ends the search.
TEST(SimplerStories, OneStepIsTaken) {
  int asked = 0;
  EXPECT_TRUE(
      try_simpler_stories(parsed("step.a.4+step.a.1"), 1,
                          [&](const SimplerStory&) { return ++asked == 3; }));
  EXPECT_EQ(asked, 3);
}

TEST(SimplerStories, TheHistoryOfTheLastCommandIsKept) {
  EXPECT_EQ(story_text(history_of_last(parsed(
                "step.a.1+reset.a+step.a.2+step.b.1+fork.a.c+step.a.1+"
                "truncate.c.1+step.d.1+reset.b+reorder.abcc+attend.d.1"))),
            "step.a.2+fork.a.c+truncate.c.1+step.d.1+reorder.abcc+attend.d.1");
}

}  // namespace
}  // namespace qkvet::properties::simpler_stories_test
