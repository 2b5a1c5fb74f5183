// SPDX-License-Identifier: Apache-2.0
#include "core/case/story.h"

#include <gtest/gtest.h>

namespace qkvet::story_test {
namespace {

Story told(const std::string& text) {
  std::string error;
  const auto story = parse_story(text, &error);
  EXPECT_TRUE(story) << error;
  EXPECT_EQ(error, "");
  return story.value_or(Story{});
}

// The tags of those tokens in a history that the sequence itself was given.
std::vector<int64_t> tags(const std::vector<Token>& history,
                          int64_t sequence = 0) {
  std::vector<int64_t> tags;
  for (const Token& token : history) {
    EXPECT_EQ(token.sequence, sequence);
    tags.push_back(token.tag);
  }
  return tags;
}

TEST(StoryText, ReadsWhatItWrites) {
  const std::string text =
      "step.a.3+append.b.2+attend.b.1+truncate.a.0+evict.a.0.3+reset.b+"
      "fork.a.b+reorder.ba";
  EXPECT_EQ(story_text(told(text)), text);
  const StoryCommand evict = told("evict.b.7.2")[0];
  EXPECT_EQ(evict.sequence, 1);
  EXPECT_EQ(evict.first, 7);
  EXPECT_EQ(evict.count, 2);
}

TEST(StoryText, BadCommandsGetOneClearLine) {
  for (const char* bad : {"",
                          "step",
                          "step.",
                          "step.a",
                          "step.a.",
                          "step.a.0",
                          "step.i.1",
                          "step.A.1",
                          "step.a.1048577",
                          "step.a.-1",
                          "reset.a.1",
                          "reset",
                          "fork.a.1",
                          "fork.a",
                          "fork.a.i",
                          "fork.a.bc",
                          "reorder",
                          "reorder.",
                          "reorder.ai",
                          "reorder.aaaaaaaaa",
                          "step.a.1+",
                          "+step.a.1",
                          "step.a.1++step.a.1",
                          "step.a.1x",
                          "truncate.a",
                          "evict.a",
                          "evict.a.1",
                          "evict.a.1.",
                          "evict.a..1",
                          "evict.a.0.0",
                          "evict.a.-1.1",
                          "evict.a.1.1.1",
                          "evict.a.1048577.1"}) {
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
  const auto snapshots = play_story(
      told("step.a.3+truncate.a.1+append.a.2+reset.a+step.a.1"), {1, 8, false});
  EXPECT_EQ(tags(snapshots[0].history), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(tags(snapshots[1].history), (std::vector<int64_t>{0}));
  EXPECT_EQ(tags(snapshots[2].history), (std::vector<int64_t>{0, 3, 4}));
  EXPECT_TRUE(snapshots[3].history.empty());
  EXPECT_EQ(tags(snapshots[4].history), (std::vector<int64_t>{5}));
  EXPECT_EQ(snapshots[4].first_query, 3);
}

TEST(Story, AnEvictionLeavesTheOthersWhereTheyStand) {
  using Numbers = std::vector<int64_t>;
  const auto snapshots = play_story(
      told("append.a.5+evict.a.1.2+append.a.1+truncate.a.2+evict.a.1.1+"
           "append.a.1+fork.a.b+evict.b.0.2+append.b.1"),
      {2, 8, false});
  EXPECT_EQ(tags(snapshots[1].history), (Numbers{0, 3, 4}));
  EXPECT_EQ(snapshots[1].positions, (Numbers{0, 3, 4}));
  EXPECT_EQ(snapshots[2].positions, (Numbers{0, 3, 4, 5}));
  EXPECT_EQ(snapshots[3].positions, (Numbers{0, 3}));
  // After the last remaining token, at any position.
  EXPECT_EQ(snapshots[4].positions, (Numbers{0}));
  EXPECT_EQ(snapshots[5].positions, (Numbers{0, 1}));
  EXPECT_EQ(tags(snapshots[5].history), (Numbers{0, 6}));
  EXPECT_EQ(snapshots[6].positions, (Numbers{0, 1}));
  EXPECT_EQ(snapshots[8].positions, (Numbers{0}));
  EXPECT_EQ(snapshots[8].lengths, (Numbers{2, 1}));
  EXPECT_EQ(story_evictions(told("evict.a.1.2+append.a.1+evict.b.0.3")), 5);
}

TEST(Story, WhatIsNotThereOrInAWindowIsNotEvicted) {
  const auto why = [](const std::string& text, int64_t window = 0) {
    StoryRules rules{2, 8, false};
    rules.form.window = window;
    return play_story(told(text), rules).back().illegal;
  };
  EXPECT_EQ(why("append.a.3+evict.a.0.3"), "");
  EXPECT_EQ(why("append.a.3+evict.a.1.3"),
            "only 3 tokens are there to take 1 .. 3 of");
  EXPECT_NE(why("append.a.3+evict.a.3.1"), "");
  EXPECT_NE(why("evict.a.0.1"), "");
  EXPECT_NE(why("evict.c.0.1"), "");
  EXPECT_EQ(why("append.a.3+evict.a.1.1", 2),
            "a cache with a window evicts by itself");
}

TEST(Story, SequencesHaveLengthsOfTheirOwn) {
  const auto snapshots =
      play_story(told("append.a.2+step.b.1+reset.a"), {2, 8, false});
  EXPECT_EQ(snapshots[1].lengths, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(snapshots[2].lengths, (std::vector<int64_t>{0, 1}));
}

TEST(Story, IllegalCommandsChangeNothingButUseUpTheirTags) {
  const auto snapshots = play_story(
      told("append.a.3+append.a.2+attend.a.4+truncate.a.4+step.b.1+append.a.1"),
      {1, 4, false});
  const bool legal[] = {true, false, false, false, false, true};
  for (size_t i = 0; i < snapshots.size(); ++i)
    EXPECT_EQ(snapshots[i].illegal.empty(), legal[i]) << i;
  EXPECT_NE(snapshots[1].illegal.find("more than the capacity, 4"),
            std::string::npos);
  EXPECT_EQ(snapshots[4].lengths, (std::vector<int64_t>{3}));
  EXPECT_EQ(tags(snapshots[5].history), (std::vector<int64_t>{0, 1, 2, 5}));
}

TEST(Story, AGrowingCacheTakesMoreThanItsCapacity) {
  const auto snapshots = play_story(told("append.a.5"), {1, 4, true});
  EXPECT_EQ(snapshots[0].illegal, "");
  EXPECT_EQ(snapshots[0].lengths, (std::vector<int64_t>{5}));
}

TEST(Story, InsertedCommandsLeaveTheTagsOfTheOthersAlone) {
  const auto snapshots =
      play_story(told("append.a.2+step.a.1+truncate.a.0+step.a.1"),
                 {1, 4, false}, {true, false, true, false});
  EXPECT_EQ(tags(snapshots[1].history), (std::vector<int64_t>{-2, -1, 0}));
  EXPECT_EQ(tags(snapshots[3].history), (std::vector<int64_t>{1}));
  EXPECT_EQ(snapshots[3].first_query, 1);
}

TEST(Story, CountsTheTagsThatItNeeds) {
  const Story story = told("append.a.2+step.b.3+attend.b.2+step.a.1");
  EXPECT_EQ(story_tokens(story), 3);
  EXPECT_EQ(story_queries(story), 5);
  EXPECT_EQ(story_queries(told("append.a.2")), 1);
}

TEST(Story, AForkGoesItsOwnWay) {
  const auto snapshots = play_story(
      told("append.a.2+append.b.1+fork.a.b+append.b.1+append.a.1+step.b.1"),
      {2, 4, false});
  const std::vector<Token> copied = {{0, 0}, {0, 1}};
  EXPECT_EQ(snapshots[2].history, copied);
  EXPECT_EQ(snapshots[2].lengths, (std::vector<int64_t>{2, 2}));
  // b lost its first token, and its tag is not used again.
  const std::vector<Token> b = {{0, 0}, {0, 1}, {1, 1}, {1, 2}};
  EXPECT_EQ(snapshots[5].history, b);
  EXPECT_EQ(tags(snapshots[4].history), (std::vector<int64_t>{0, 1, 2}));
}

TEST(Story, ReorderReadsAllBeforeItWritesAny) {
  const auto snapshots = play_story(
      told("append.a.1+append.b.2+append.c.3+reorder.bcb+attend.a.1"),
      {3, 4, false});
  EXPECT_EQ(snapshots[3].lengths, (std::vector<int64_t>{2, 3, 2}));
  EXPECT_EQ(tags(snapshots[4].history, 1), (std::vector<int64_t>{0, 1}));
  for (const char* bad : {"reorder.ba", "reorder.bad", "fork.a.d", "fork.d.a"})
    EXPECT_NE(play_story(told(bad), {3, 4, false})[0].illegal, "") << bad;
}

TEST(Story, AWindowGoesBackAsFarAsItWasMadeFor) {
  const CacheForm form = {2, 0, 1};
  const auto illegal = [&](const std::string& text) {
    return !play_story(told(text), {2, 8, true, form}).back().illegal.empty();
  };
  EXPECT_FALSE(illegal("append.a.5+truncate.a.4"));
  EXPECT_TRUE(illegal("append.a.5+truncate.a.3"));
  // Tokens once truncated count: they are overwritten.
  EXPECT_TRUE(illegal("append.a.5+truncate.a.4+truncate.a.3"));
  EXPECT_TRUE(illegal("append.a.5+fork.a.b+truncate.b.4+truncate.b.3"));
  EXPECT_FALSE(illegal("append.a.5+truncate.a.4+append.a.1+truncate.a.4"));
  EXPECT_FALSE(illegal("append.a.5+reset.a+append.a.1+truncate.a.0"));
  EXPECT_FALSE(illegal("append.a.5+attend.a.2"));
  EXPECT_TRUE(illegal("append.a.5+attend.a.3"));
  EXPECT_FALSE(illegal("step.a.5+step.a.3"));
}

TEST(CacheForm, SeesTheWindowAndTheFirstTokens) {
  const CacheForm form = {2, 1, 0};
  const std::string seen[] = {"1000", "1100", "1110", "1011"};
  for (int64_t i = 0; i < 4; ++i)
    for (int64_t j = 0; j < 4; ++j)
      EXPECT_EQ(form.sees(i, j), seen[i][static_cast<size_t>(j)] == '1')
          << i << " " << j;
  EXPECT_TRUE(CacheForm{}.sees(5, 0));
}

}  // namespace
}  // namespace qkvet::story_test
