// SPDX-License-Identifier: Apache-2.0
#include "core/story.h"

#include <gtest/gtest.h>

namespace qkvet {
namespace {

Story told(const std::string& text) {
  std::string error;
  const auto story = parse_story(text, &error);
  EXPECT_TRUE(story) << error;
  EXPECT_EQ(error, "");
  return story.value_or(Story{});
}

TEST(StoryText, ReadsWhatItWrites) {
  const std::string text =
      "step.a.3+append.b.2+attend.b.1+truncate.a.0+reset.b";
  EXPECT_EQ(story_text(told(text)), text);
}

TEST(StoryText, BadCommandsGetOneClearLine) {
  for (const char* bad :
       {"", "step", "step.", "step.a", "step.a.", "step.a.0", "step.i.1",
        "step.A.1", "step.a.1048577", "step.a.-1", "reset.a.1", "reset",
        "fork.a.1", "step.a.1+", "+step.a.1", "step.a.1++step.a.1", "step.a.1x",
        "truncate.a"}) {
    std::string error;
    EXPECT_FALSE(parse_story(bad, &error)) << bad;
    EXPECT_NE(error.find("write append.a.N"), std::string::npos) << error;
  }
  std::string long_story = "reset.a";
  for (size_t i = 0; i < kMostCommands; ++i) long_story += "+reset.a";
  std::string error;
  EXPECT_FALSE(parse_story(long_story, &error));
  EXPECT_NE(error.find("at most 256 commands"), std::string::npos) << error;
}

TEST(Story, TokensKeepTheirTagsAndNeverShareOne) {
  const auto moments = play_story(
      told("step.a.3+truncate.a.1+append.a.2+reset.a+step.a.1"), {1, 8, false});
  EXPECT_EQ(moments[0].history, (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(moments[1].history, (std::vector<int64_t>{0}));
  EXPECT_EQ(moments[2].history, (std::vector<int64_t>{0, 3, 4}));
  EXPECT_TRUE(moments[3].history.empty());
  EXPECT_EQ(moments[4].history, (std::vector<int64_t>{5}));
  EXPECT_EQ(moments[4].first_query, 3);
}

TEST(Story, SequencesHaveLengthsOfTheirOwn) {
  const auto moments =
      play_story(told("append.a.2+step.b.1+reset.a"), {2, 8, false});
  EXPECT_EQ(moments[1].lengths, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(moments[2].lengths, (std::vector<int64_t>{0, 1}));
}

TEST(Story, IllegalCommandsChangeNothingButUseUpTheirTags) {
  const auto moments = play_story(
      told("append.a.3+append.a.2+attend.a.4+truncate.a.4+step.b.1+append.a.1"),
      {1, 4, false});
  const bool legal[] = {true, false, false, false, false, true};
  for (size_t i = 0; i < moments.size(); ++i)
    EXPECT_EQ(moments[i].illegal.empty(), legal[i]) << i;
  EXPECT_NE(moments[1].illegal.find("more than the capacity, 4"),
            std::string::npos);
  EXPECT_EQ(moments[4].lengths, (std::vector<int64_t>{3}));
  EXPECT_EQ(moments[5].history, (std::vector<int64_t>{0, 1, 2, 5}));
}

TEST(Story, AGrowingCacheTakesMoreThanItsCapacity) {
  const auto moments = play_story(told("append.a.5"), {1, 4, true});
  EXPECT_EQ(moments[0].illegal, "");
  EXPECT_EQ(moments[0].lengths, (std::vector<int64_t>{5}));
}

TEST(Story, InsertedCommandsLeaveTheTagsOfTheOthersAlone) {
  const auto moments =
      play_story(told("append.a.2+step.a.1+truncate.a.0+step.a.1"),
                 {1, 4, false}, {true, false, true, false});
  EXPECT_EQ(moments[1].history, (std::vector<int64_t>{-2, -1, 0}));
  EXPECT_EQ(moments[3].history, (std::vector<int64_t>{1}));
  EXPECT_EQ(moments[3].first_query, 1);
}

TEST(Story, CountsTheTagsThatItNeeds) {
  const Story story = told("append.a.2+step.b.3+attend.b.2+step.a.1");
  EXPECT_EQ(story_tokens(story), 3);
  EXPECT_EQ(story_queries(story), 5);
  EXPECT_EQ(story_queries(told("append.a.2")), 1);
}

}  // namespace
}  // namespace qkvet
