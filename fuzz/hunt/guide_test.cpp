// SPDX-License-Identifier: Apache-2.0
#include "fuzz/hunt/guide.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace qkvet::fuzz::guide_test {
namespace {

struct Look {
  std::vector<uint8_t> counters = std::vector<uint8_t>(kGuideCounters);

  size_t set() const {
    return static_cast<size_t>(
        std::count(counters.begin(), counters.end(), uint8_t{1}));
  }
  void at(const char* text, Guide::Sight sight = Guide::Sight::kAll) {
    const Case value = *parse_case(text).value;
    Guide(counters, sight)
        .look_at({find_law("agrees_with_oracle"), value}, 0,
                 make_inputs(value));
  }
};

TEST(Guide, ScoresAreThoseOfTheRowsThatSeeThem) {
  // q = 1, k = 0 but for two keys; the scale is 1/2.
  const Case value = *parse_case(
                          "f32,B1,H1,Tq1,Tk4,d4,q=one,k=zero,"
                          "set=k.0.0.1.0:0x1p+3,set=k.0.0.3.0:0x1p+5")
                          .value;
  const ScoreShape shape = score_shape(value, make_inputs(value));
  EXPECT_EQ(shape.largest, 16);
  EXPECT_EQ(shape.largest_gap, 16);
  EXPECT_EQ(shape.longest_chain, 2);  // 0, 4, 4, 16
  EXPECT_EQ(shape.lowest_maximum, 0);
  Case masked = value;
  masked.mask = {MaskKind::kPaddingN, 1};
  EXPECT_EQ(score_shape(masked, make_inputs(masked)).largest, 4);
}

TEST(Guide, ARowBelowZeroIsSeen) {
  const Case value = *parse_case(
                          "f32,B1,H1,Tq1,Tk2,d1,q=one,k=zero,"
                          "set=k.0.0.0.0:-0x1p+6,set=k.0.0.1.0:-0x1p+5")
                          .value;
  EXPECT_EQ(score_shape(value, make_inputs(value)).lowest_maximum, -32);
}

TEST(Guide, LargerScoresAreFurtherSteps) {
  Look small, large;
  small.at("f32,B1,H1,Tq1,Tk1,d1,q=one,k=one");
  large.at("f32,B1,H1,Tq1,Tk1,d1,q=one,k=one,set=k.0.0.0.0:0x1p+10");
  EXPECT_GT(large.set(), small.set());
  for (size_t n = 0; n < kGuideCounters; ++n) {
    // The least number in k is also larger: less far down.
    if (small.counters[n] > large.counters[n]) large.counters[n] = 2;
  }
  EXPECT_LT(std::count(large.counters.begin(), large.counters.end(), 2), 8);
}

TEST(Guide, OptionsTogetherAreNewsAndTheSameAreNot) {
  Look look;
  look.at("f32,B1,H1,Tq2,Tk2,d2,q=one,k=one,v=one,softcap=2");
  look.at("f32,B1,H1,Tq2,Tk2,d2,q=one,k=one,v=one,sink=one");
  const size_t alone = look.set();
  look.at("f32,B1,H1,Tq2,Tk2,d2,q=one,k=one,v=one,softcap=2");
  EXPECT_EQ(look.set(), alone);
  look.at("f32,B1,H1,Tq2,Tk2,d2,q=one,k=one,v=one,softcap=2,sink=one");
  EXPECT_GT(look.set(), alone);
  // A hunt for numbers does not care.
  Look numbers;
  numbers.at("f32,B1,H1,Tq2,Tk2,d2,q=one,k=one,v=one", Guide::Sight::kNumbers);
  const size_t before = numbers.set();
  numbers.at("f32,B1,H1,Tq2,Tk2,d2,q=one,k=one,v=one,sink=one",
             Guide::Sight::kNumbers);
  EXPECT_EQ(numbers.set(), before);
}

TEST(Guide, TheRatioClimbsByHalfOctavesForEachLawAndKernel) {
  Look look;
  Guide guide(look.counters, Guide::Sight::kAll);
  guide.judged(0, 0, 0.25);
  const size_t first = look.set();
  guide.judged(0, 0, 0.2501);
  EXPECT_EQ(look.set(), first);
  guide.judged(0, 0, 0.5);
  EXPECT_EQ(look.set(), first + 2);
  guide.judged(1, 0, 0.5);
  EXPECT_EQ(look.set(), 2 * (first + 2));
  guide.judged(0, 1, 0.5);
  guide.judged(0, 7, 0.5);  // shares with the second
  EXPECT_EQ(look.set(), 3 * (first + 2));
  guide.judged(0, 0, std::numeric_limits<double>::infinity());
  guide.judged(0, 0, std::numeric_limits<double>::quiet_NaN());
  EXPECT_LT(look.set(), 3 * (first + 2) + 48);
}

TEST(Guide, WithoutSightNothingButTheRunIsNoted) {
  Look look;
  look.at("f32,B1,H1,Tq2,Tk2,d2,softcap=2", Guide::Sight::kNothing);
  Guide(look.counters, Guide::Sight::kNothing).judged(0, 0, 0.5);
  Guide(look.counters, Guide::Sight::kNothing).answered("new");
  EXPECT_EQ(look.set(), 1u);
  EXPECT_EQ(look.counters[0], 1);
}

TEST(Guide, AnotherKindOfAnswerIsNews) {
  Look look;
  Guide guide(look.counters, Guide::Sight::kAll);
  guide.answered("too large");
  const size_t one = look.set();
  guide.answered("too large");
  EXPECT_EQ(look.set(), one);
  guide.answered("no number");
  EXPECT_EQ(look.set(), one + 1);
}

}  // namespace
}  // namespace qkvet::fuzz::guide_test
