// SPDX-License-Identifier: Apache-2.0
#include "properties/cases/pair_coverage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "properties/cases/generate.h"

namespace qkvet::properties {
namespace {

using Pair = std::pair<std::string, std::string>;

MetPairs met_by(std::initializer_list<const char*> cases) {
  PairCoverage coverage;
  for (const char* text : cases) {
    const ParsedCase parsed = parse_case(text);
    EXPECT_TRUE(parsed.value) << parsed.error;
    if (!parsed.value) continue;
    KernelCall call;
    call.shape = parsed.value->shape;
    call.causal = parsed.value->causal;
    call.scale = parsed.value->scale;
    call.softcap = parsed.value->softcap;
    coverage.count(*parsed.value, call);
  }
  return coverage.met();
}

bool holds(const std::vector<Pair>& pairs, const Pair& wanted) {
  return std::find(pairs.begin(), pairs.end(), wanted) != pairs.end();
}

// Cases drawn for these before later options and a later layout were added keep
// their numbers.
TEST(PairSettings, LaterOnesMoveNoOther) {
  std::set<uint32_t> numbers;
  uint32_t kinds = 33, options = 0;
  for (size_t n = 0; n < setting_rows().size(); ++n) {
    const bool is_option = setting_rows()[n].kind == SettingKind::kOption;
    const uint32_t number = number_in_draws(n);
    numbers.insert(number);
    if (setting_rows()[n].name == "layout: [B, H, d, T]") {
      EXPECT_EQ(number, 2 * kMostSettings);
    } else if (!is_option) {
      EXPECT_EQ(number, kinds++) << setting_rows()[n].name;
    } else if (options < 33) {
      EXPECT_EQ(number, options++) << setting_rows()[n].name;
    } else {
      EXPECT_GT(number, kMostSettings) << setting_rows()[n].name;
    }
  }
  EXPECT_EQ(numbers.size(), setting_rows().size());
  EXPECT_EQ(setting_rows()[33].option, QKVET_OPTION_SEGMENTS);
}

// One call has all its settings at once: no pair is missing.
TEST(PairCoverage, ASingleCallMeetsItself) {
  const MetPairs met = met_by({"f32,B1,H1,Tq3,Tk9,d8,softcap=2"});
  EXPECT_GT(met.possible(), 10);
  EXPECT_EQ(met.seen(), met.possible());
  EXPECT_TRUE(met.never().empty());
}

TEST(PairCoverage, WhatTwoCallsHaveApartHasNotMet) {
  const MetPairs met =
      met_by({"f32,B1,H1,Tq3,Tk400,d8", "f32,B1,H1,Tq3,Tk9,d8,softcap=2"});
  EXPECT_EQ(met.never(),
            (std::vector<Pair>{{"softcap", "keys: more than 300"}}));
  EXPECT_EQ(met.seen() + 1, met.possible());
  // Two classes of one extent cannot.
  EXPECT_FALSE(holds(met.never(), {"keys: 2 to 24", "keys: more than 300"}));
}

TEST(PairCoverage, TwoOptionsComeFirst) {
  const MetPairs met =
      met_by({"f32,B1,H1,Tq3,Tk9,d8,causal=tl,scale=1", "f32,B1,H1,Tq1,Tk9,d8",
              "f32,B1,H1,Tq3,Tk9,d8,softcap=2"});
  const std::vector<Pair> never = met.never();
  ASSERT_FALSE(never.empty());
  EXPECT_TRUE(holds(never, {"causal: from the top left", "softcap"}));
  EXPECT_TRUE(holds(never, {"softcap", "rows: 1"}));
  EXPECT_FALSE(holds(never, {"scale: given", "scale: default"}));
}

// Three that met two by two, in three calls, are no triple.
TEST(PairCoverage, TriplesAreOfOneCall) {
  const char* const causal_and_cap =
      "f32,B1,H1,Tq3,Tk9,d8,causal=tl,softcap=2,scale=1";
  const MetPairs one = met_by({causal_and_cap});
  ASSERT_TRUE(one.triples);
  EXPECT_GT(*one.triples, 100);
  EXPECT_EQ(one.triples, one.possible_triples());
  const MetPairs apart = met_by({"f32,B1,H1,Tq3,Tk9,d8,causal=tl,softcap=2",
                                 "f32,B1,H1,Tq3,Tk9,d8,causal=tl,scale=1",
                                 "f32,B1,H1,Tq3,Tk9,d8,softcap=2,scale=1"});
  EXPECT_LT(*apart.triples, apart.possible_triples());
  const MetPairs together =
      met_by({"f32,B1,H1,Tq3,Tk9,d8,causal=tl,softcap=2",
              "f32,B1,H1,Tq3,Tk9,d8,causal=tl,scale=1",
              "f32,B1,H1,Tq3,Tk9,d8,softcap=2,scale=1", causal_and_cap});
  EXPECT_EQ(together.possible_triples(), apart.possible_triples());
  EXPECT_EQ(*together.triples, *apart.triples + 1);
}

// The shards of one plan together meet what the whole plan meets.
TEST(PairCoverage, SumsAreWhatOneRunHas) {
  const char* const first = "f32,B1,H1,Tq3,Tk400,d8";
  const char* const second = "f32,B2,H2,Hkv1,Tq3,Tk9,d8,softcap=2";
  const MetPairs whole = met_by({first, second});
  MetPairs sum = met_by({second});
  sum.add(met_by({first}));
  EXPECT_EQ(sum.possible(), whole.possible());
  EXPECT_EQ(sum.seen(), whole.seen());
  EXPECT_LT(sum.seen(), sum.possible());
  // Shards do not report which triples they had.
  EXPECT_FALSE(sum.triples);
}

}  // namespace
}  // namespace qkvet::properties
