// SPDX-License-Identifier: Apache-2.0
// Recordings: the allowed lines, and messages about wrong ones.
#include "core/story/story_log.h"

#include <gtest/gtest.h>

namespace qkvet::story_log_test {
namespace {

const std::string kHead = "qkvet-story 1\ncache f32,H2,Hkv1,d4,cap64\n";

std::string error_of(const std::string& text) {
  std::string error;
  const auto log = parse_story_log(text, "x.story", &error);
  EXPECT_FALSE(log.has_value()) << text;
  return error;
}

StoryLog parsed(const std::string& text) {
  std::string error;
  auto log = parse_story_log(text, "x.story", &error);
  EXPECT_TRUE(log.has_value()) << error;
  return log.value_or(StoryLog{});
}

TEST(StoryLog, ReadsEveryCommand) {
  const StoryLog log = parsed(
      "qkvet-story 1  # ours\r\n\n# a cache\ncache f32,H2,Hkv1,d4,cap64\n"
      "append 7f3a-22 5 # a prompt\nattend 7f3a-22 2\nstep b 3\n\n"
      "truncate b 0\nfork b 7f3a-22#2\nreorder b=7f3a-22 c=b\nreset b\n"
      "evict 7f3a-22 0 2");
  EXPECT_EQ(story_text(log.story),
            "append.a.5+attend.a.2+step.b.3+truncate.b.0+fork.b.c+"
            "reorder.aacb+reset.b+evict.a.0.2");
  EXPECT_EQ(log.ids, 4);
  EXPECT_EQ(log.geometry.shape.B, 4);
  EXPECT_EQ(log.geometry.shape.d, 4);
  EXPECT_EQ(log.geometry.capacity, 64);
  EXPECT_EQ(log.lines[0].number, 5);
  EXPECT_EQ(log.command_text(0), "append 7f3a-22 5");
  EXPECT_EQ(log.first_id(0), "7f3a-22");
  EXPECT_EQ(log.command_text(5), "reorder b=7f3a-22 c=b");
  EXPECT_EQ(log.first_id(5), "b");
}

TEST(StoryLog, WhatIsPrintedIsReadAgain) {
  for (const std::string keys : {"f32,H2,Hkv1,d4,cap64", "f16,H4,d8,cap9,win4",
                                 "f32,H1,d4,cap8,rope=half,seed=3"}) {
    const std::string text = "qkvet-story 1\ncache " + keys +
                             "\nstep a 3\nfork a b\nreorder a=b b=b\nattend b "
                             "1\nreset a\nevict b 1 2\n";
    const StoryLog log = parsed(text);
    EXPECT_EQ(story_log_text(log.geometry, log.story), text);
  }
}

// The place of an id is free again once it was reset.
TEST(StoryLog, CountsWhatIsLiveAtOnce) {
  std::string text = kHead;
  for (int i = 0; i < 1000; ++i) {
    const std::string id = "r" + std::to_string(i);
    text += "step " + id + " 2\nstep base 1\nreset " + id + "\n";
  }
  EXPECT_EQ(parsed(text).geometry.shape.B, 2);
}

// It names the places of which a recording was read, whatever its ids were.
TEST(StoryLog, PlacesAreReadAgain) {
  std::string text = kHead + "step x 1\nstep y 2\nreorder y=n x=m x2=y\n";
  for (int i = 0; i < 30; ++i)
    text += "step r" + std::to_string(i) + " 1\nreset r" +
            std::to_string(i / 2) + "\n";
  const StoryLog log = parsed(text + "reset n\nfork q z\nreorder k=l z=k\n");
  EXPECT_GT(log.geometry.shape.B, 10);
  const StoryLog again = parsed(story_log_text(log.geometry, log.story));
  EXPECT_EQ(again.story, log.story);
  EXPECT_EQ(again.geometry, log.geometry);
}

// The parents are places, of which there are more than letters.
TEST(StoryLog, PlaysAReorderOfManySequences) {
  std::string text = kHead;
  for (int i = 0; i < 256; ++i)
    text +=
        "append r" + std::to_string(i) + " " + std::to_string(1 + i % 3) + "\n";
  const StoryLog log =
      parsed(text + "reorder r31=r255 r200=r30\nreset r31\nappend r31 1\n");
  const auto played = play_story(log.story, {256, 64, false, {}});
  const Snapshot& reordered = played[256];
  ASSERT_EQ(reordered.command.parents.size(), 256u);
  for (int64_t place = 0; place < 256; ++place)
    EXPECT_EQ(
        parent_place(reordered.command.parents[static_cast<size_t>(place)]),
        place == 31    ? 255
        : place == 200 ? 30
                       : place);
  EXPECT_EQ(reordered.lengths[31], reordered.lengths[255]);
  // The tags of a place count on after a reset.
  EXPECT_EQ(played.back().command.sequence, 31);
  EXPECT_EQ(played.back().history, (std::vector<Token>{{31, 2}}));
}

TEST(StoryLog, EveryWrongLineIsNamed) {
  const struct {
    std::string text, error;
  } wrong[] = {
      {"", "x.story:1: is empty"},
      {"step a 1\n", "x.story:1: the first line must be \"qkvet-story 1\""},
      {"\nqkvet-story 1\n", "x.story:1: the first line must be"},
      {"qkvet-story 2\n", "x.story:1: version \"2\": this program reads"},
      {"qkvet-story 1\n", "x.story:1: ends before its line \"cache"},
      {"qkvet-story 1\nstep a 1\n", "x.story:2: the second line is \"cache"},
      {"qkvet-story 1\ncache f32,H2,d4\n", "cap is missing"},
      {"qkvet-story 1\ncache f32,B2,H2,d4,cap8\n", "x.story:2: B: the seq"},
      {"qkvet-story 1\ncache f32,H2,d4,cap8,story=step.a.1\n", "story=: the c"},
      {"qkvet-story 1\ncache f32,H2,d4,cap8,set=k.0.0.0.0:0x1p+0\n", "set=: "},
      {"qkvet-story 1\ncache f32,H2,d4,cap8,stored=int8channel\n", "stored=: "},
      {"qkvet-story 1\ncache f32,H3,Hkv2,d4,cap8\n", "multiple of Hkv"},
      {kHead, "x.story:2: holds no command"},
      {kHead + "\n# and\ndrop a 1\n", "x.story:5: \"drop\": write append"},
      {kHead + "evict a 1\n", "x.story:3: evict with 2 words"},
      {kHead + "evict a 1x 1\n", "\"1x\": evict takes a number, 0 .."},
      {kHead + "evict a 1 0\n", "\"0\": evict takes a number, 1 .."},
      {kHead + "step a\n", "x.story:3: step with 1 words: write append"},
      {kHead + "reset a 1\n", "x.story:3: reset with 2 words"},
      {kHead + "reorder\n", "x.story:3: reorder with 0 words"},
      {kHead + "step a 0\n", "\"0\": step takes a number, 1 .. 1048576"},
      {kHead + "truncate a -1\n", "truncate takes a number, 0 .. 1048576"},
      {kHead + "append a 5x\n", "\"5x\": append takes a number"},
      {kHead + "append a 1048577\n", "\"1048577\": append takes a number"},
      {kHead + "step a=b 1\n", "\"a=b\": an id has no \"=\""},
      {kHead + "fork a b=c\n", "\"b=c\": an id has no \"=\""},
      {kHead + "reorder a b\n", "\"a\": reorder takes ID=ID"},
      {kHead + "reorder a=\n", "\"a=\": reorder takes ID=ID"},
      {kHead + "reorder a=b a=c\n", "\"a=c\": this id was given one already"},
  };
  for (const auto& [text, error] : wrong) {
    const std::string said = error_of(text);
    EXPECT_NE(said.find(error), std::string::npos) << text << said;
    EXPECT_EQ(said.find('\n'), std::string::npos) << said;
  }
  std::string many = kHead;
  for (int i = 0; i < 257; ++i) many += "step r" + std::to_string(i) + " 1\n";
  EXPECT_NE(error_of(many).find("x.story:259: 257 sequences are live at once; "
                                "at most 256 can be"),
            std::string::npos);
}

}  // namespace
}  // namespace qkvet::story_log_test
