// SPDX-License-Identifier: Apache-2.0
// Lists of keys of a case: their spelling and their content.
#include "core/case/key_lists.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "core/case/option_data.h"
#include "core/testing/case_calls.h"

namespace qkvet::key_lists_test {
namespace {

const std::string kFour = "f32,B2,H4,Hkv2,Tq5,Tk9,d1";

TEST(KeyLists, AreReadAndPrinted) {
  const struct {
    const char* text;
    KeyLists lists;
  } rows[] = {{",keys=1", {1}},
              {",keys=4", {4}},
              {",keys=4.h", {4, true}},
              {",keys=12.n", {12, false, true}},
              {",keys=4.hn", {4, true, true}},
              {",keys=3x16", {3, false, false, false, 16}},
              {",keys=3x2.hn", {3, true, true, false, 2}}};
  for (const auto& [text, lists] : rows) {
    const Case c = parsed(kFour + text);
    EXPECT_EQ(c.listed, lists) << text;
    EXPECT_EQ(to_string(c), kFour + text);
  }
}

TEST(KeyLists, WhatIsWrongGetsOneClearLine) {
  expect_refused(
      kFour,
      {{",keys=0", "\"keys=0\": write keys=N, a list of N keys for each row"},
       {",keys=4.x", "\"keys=4.x\": write keys=N"},
       {",keys=4.nh", "\"keys=4.nh\": write keys=N"},
       {",keys=4.", "\"keys=4.\": write keys=N"},
       {",keys=x", "\"keys=x\": write keys=N"},
       {",keys=65537", "keys=65537: a list has 1 .. 65536 entries"},
       {",keys=4x0", "\"keys=4x0\": write keys=N"},
       {",keys=4x", "\"keys=4x\": write keys=N"},
       {",keys=x4", "\"keys=x4\": write keys=N"},
       {",keys=4x4097", "keys=4x4097: a block has 1 .. 4096 keys"},
       {",keys=file4", "key_indices comes from a file: file= with 16"}});
}

TEST(KeyLists, StandBesidePackedBatchesPagesNewTokensAndGradients) {
  for (const char* text :
       {"f32,B2,H1,Tq2,Tk5,d1,keys=3,backward",
        "f32,B2,H1,Tq2,Tk5,d1,keys=2x2.hn,backward",
        "f32,B2,H1,Tq2,Tk5,d1,keys=3,page=2",
        "f32,B2,H1,Tq2,Tk5,d1,keys=2x2.n,page=2,table=csr,append=1",
        "f32,B1,H1,Tq4,Tk4,d1,keys=2,cuq=0.1.4,cuk=0.3.4",
        "f32,B1,H1,Tq4,Tk4,d1,keys=2.n,cuq=0.1.4,cuk=0.3.4,page=2"})
    EXPECT_EQ(to_string(parsed(text)).size(), std::string(text).size()) << text;
}

// The entries are keys of the member, counted from its first, and the two after
// its last.
TEST(KeyLists, OfPackedMembersCountFromTheirFirstKey) {
  const Inputs inputs =
      inputs_of("f32,B1,H1,Tq20,Tk40,d1,keys=9,cuq=0.10.20,cuk=0.33.37");
  std::set<int32_t> first, second;
  for (int64_t i = 0; i < 20; ++i)
    for (int64_t n = 0; n < 9; ++n)
      (i < 10 ? first : second)
          .insert(inputs.key_indices[static_cast<size_t>(i * 9 + n)]);
  EXPECT_EQ(*first.rbegin(), 34);
  EXPECT_EQ(second, (std::set<int32_t>{-1, 0, 1, 2, 3, 4, 5}));
}

TEST(KeyLists, OfBlocksAreNumbersOfBlocks) {
  const Inputs inputs = inputs_of("f32,B1,H1,Tq30,Tk9,d1,keys=3x4");
  const std::set<int32_t> seen(inputs.key_indices.begin(),
                               inputs.key_indices.end());
  EXPECT_EQ(seen, (std::set<int32_t>{-1, 0, 1, 2}));
}

// Blocks that count become their keys; keys after the last are left out.
TEST(KeyLists, OfBlocksBecomeListsOfKeys) {
  Case c = parsed("f32,B1,H1,Tq2,Tk5,d1,keys=2x3.n");
  Inputs inputs = make_inputs(c);
  inputs.key_indices = {1, 0, -1, 7};
  inputs.topk_length = {1, 2};
  expand_key_blocks(c, inputs);
  EXPECT_EQ(to_string(c), "f32,B1,H1,Tq2,Tk5,d1,keys=6.n");
  EXPECT_EQ(inputs.key_indices, (std::vector<int32_t>{3, 4, -1, -1, -1, -1,  //
                                                      -1, -1, -1, -1, -1, -1}));
  EXPECT_EQ(inputs.topk_length, (std::vector<int32_t>{3, 6}));
  Inputs of_keys = inputs;
  expand_key_blocks(c, of_keys);
  EXPECT_EQ(of_keys.key_indices, inputs.key_indices);
}

// No key twice, some of the entries -1, and all in an order of their own.
TEST(KeyLists, HoldKeysAndNone) {
  const Case c = parsed(kFour + ",keys=11.h");
  const Inputs inputs = make_inputs(c);
  ASSERT_EQ(inputs.key_indices.size(), 2u * 2 * 5 * 11);
  EXPECT_TRUE(inputs.topk_length.empty());
  int inside = 0, turned = 0;
  std::set<std::vector<int32_t>> lists;
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t kv = 0; kv < 2; ++kv)
      for (int64_t i = 0; i < 5; ++i) {
        const auto first = inputs.key_indices.begin() + list_begin(c, b, kv, i);
        const std::vector<int32_t> list(first, first + 11);
        std::set<int32_t> seen;
        for (size_t n = 0; n < list.size(); ++n) {
          EXPECT_GE(list[n], -1);
          EXPECT_LT(list[n], 9);
          if (list[n] < 0) {
            inside += n + 1 < list.size() && list[n + 1] >= 0;
          } else {
            EXPECT_TRUE(seen.insert(list[n]).second) << list[n];
          }
          turned += n > 0 && list[n] >= 0 && list[n] < list[n - 1];
        }
        lists.insert(list);
      }
  EXPECT_EQ(lists.size(), 20u);
  EXPECT_GT(inside, 5);
  EXPECT_GT(turned, 40);
}

TEST(KeyLists, LengthsAreOfRowsAndOtherKeysStandBehindThem) {
  const Case c = parsed("f32,B4,H1,Tq40,Tk64,d1,keys=8.n");
  const Inputs inputs = make_inputs(c);
  ASSERT_EQ(inputs.topk_length.size(), 4u * 40);
  std::set<int32_t> lengths(inputs.topk_length.begin(),
                            inputs.topk_length.end());
  EXPECT_EQ(lengths.size(), 9u);
  EXPECT_EQ(*lengths.begin(), 0);
  EXPECT_EQ(*lengths.rbegin(), 8);
  int behind = 0;
  for (int64_t b = 0; b < 4; ++b)
    for (int64_t i = 0; i < 40; ++i)
      for (int64_t n = list_length(c, inputs, b, i); n < 8; ++n)
        behind +=
            inputs
                .key_indices[static_cast<size_t>(list_begin(c, b, 0, i) + n)] >=
            0;
  EXPECT_GT(behind, 200);
}

// Entries that remain when extents shrink do not change, and the lists for all
// heads are those of the first head.
TEST(KeyLists, HangOnNothingButTheirPlace) {
  const Inputs large = inputs_of(kFour + ",keys=6.h");
  const Case c = parsed("f32,B1,H2,Hkv1,Tq3,Tk9,d1,keys=6");
  const Inputs small = make_inputs(c);
  EXPECT_TRUE(std::equal(small.key_indices.begin(), small.key_indices.end(),
                         large.key_indices.begin()));
  // Fewer keys: those that are left, in their order.
  std::vector<int32_t> left;
  for (size_t n = 0; n < 6; ++n)
    if (large.key_indices[n] >= 0 && large.key_indices[n] < 5)
      left.push_back(large.key_indices[n]);
  const Inputs fewer = inputs_of("f32,B1,H1,Tq3,Tk5,d1,keys=6");
  std::vector<int32_t> found;
  for (size_t n = 0; n < 6; ++n)
    if (fewer.key_indices[n] >= 0) found.push_back(fewer.key_indices[n]);
  ASSERT_GE(found.size(), left.size());
  EXPECT_TRUE(std::equal(left.begin(), left.end(), found.begin()));
}

TEST(KeyLists, ReachTheCallAsTheyAre) {
  const Case c = parsed(kFour + ",keys=3.hn");
  Inputs inputs = make_inputs(c);
  inputs.key_indices[1] = -1;
  store_inputs(c, inputs);
  const KernelCall call = call_of(c, inputs, Operation::kForward);
  EXPECT_EQ(call.listed, c.listed);
  int32_t second = 0;
  std::memcpy(&second, call.key_indices + sizeof second, sizeof second);
  EXPECT_EQ(second, -1);
  EXPECT_EQ(call.topk_length, inputs.topk_length_bytes.data());
  EXPECT_EQ(CaseCall(kFour).call.key_indices, nullptr);
  EXPECT_NE(input_digest(make_inputs(c)), input_digest(inputs));
}

}  // namespace
}  // namespace qkvet::key_lists_test
