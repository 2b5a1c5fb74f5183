// SPDX-License-Identifier: Apache-2.0
// The fields of options: what they get, they set, and their ranges are those of
// a case.
#include "core/case/option_fields.h"

#include <gtest/gtest.h>

#include <set>

#include "core/testing/case_calls.h"

namespace qkvet::option_fields_test {
namespace {

// Together they have every option with a field.
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* const options :
       {"window=3.0", "mask=random30", "mask=band2.qk", "mask=prefix3",
        "mask=tree2", "segments=4.i64", "ranges=3.i64", "chunk=3", "tree=2",
        "keys=3x2.hn", "bias=normal.k", "rope=interleaved.7",
        "page=2,unowned=others", "layout=gaps"})
    all.push_back(parsed("f32,B1,H2,Tq4,Tk5,d2," + std::string(options)));
  all.push_back(parsed("f32,B1,H1,Tq1,Tk1,d16777216,rope=half4"));
  all.push_back(parsed("f32,B1,H1,Tq1,Tk16777216,d1,append=2"));
  all.push_back(
      parsed("f32,B1,H1,d2,cap9,win4,first2,rollback1,"
             "stored=int8channel,story=step.a.3"));
  return all;
}

TEST(OptionFields, WhatIsSetIsThere) {
  for (const OptionField& field : option_fields()) {
    if (field.set == nullptr) continue;
    int times = 0;
    for (Case value : cases()) {
      if (!field.given(value)) continue;
      ++times;
      const Case before = value;
      const int64_t now = field.get(value);
      for (const int64_t plain : field.plain) {
        field.set(value, plain);
        EXPECT_EQ(field.get(value), plain) << to_string(value);
      }
      field.set(value, now);
      EXPECT_EQ(value, before);
    }
    EXPECT_GT(times, 0) << field.word;
  }
}

TEST(OptionFields, NumbersEndWhereCasesDo) {
  // 0 is a number of another kind there, or none is too large.
  const std::set<std::string_view> open = {"tree.children", "lists.block",
                                           "cache.window", "cache.first_tokens",
                                           "cache.rollback"};
  for (const OptionField& field : option_fields()) {
    if (!field.counts) continue;
    for (Case value : cases()) {
      if (!field.given(value)) continue;
      for (const int64_t number : {field.least, field.most}) {
        field.set(value, number);
        EXPECT_EQ(invalid_reason(value), "") << to_string(value);
      }
      if (open.contains(field.word)) continue;
      field.set(value, field.most + 1);
      EXPECT_NE(invalid_reason(value), "") << to_string(value);
    }
  }
}

TEST(OptionFields, WordsAreFoundAndDiffer) {
  std::set<std::string_view> words;
  for (const OptionField& field : option_fields()) {
    if (field.word.empty()) continue;
    EXPECT_TRUE(words.insert(field.word).second) << field.word;
    EXPECT_EQ(find_option_field(field.word), &field);
  }
  EXPECT_EQ(find_option_field(""), nullptr);
  EXPECT_EQ(find_option_field("Tk"), nullptr);
}

}  // namespace
}  // namespace qkvet::option_fields_test
