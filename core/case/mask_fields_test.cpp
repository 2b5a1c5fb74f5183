// SPDX-License-Identifier: Apache-2.0
// Masks in a few numbers: their spelling, what is drawn for them, and how a
// call has them.
#include "core/case/mask_fields.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/testing/case_calls.h"

namespace qkvet::mask_fields_test {
namespace {

const std::string kLead = "f32,B2,H2,Tq6,Tk9,d4,";

TEST(MaskFields, TextsComeBack) {
  for (const std::string text :
       {"segments=4", "segments=0", "segments=4.i64", "ranges=3",
        "ranges=3.i64", "chunk=512", "tree=0", "tree=2",
        "segments=2,ranges=1,tree=1", "segments=2,chunk=3,tree=0"}) {
    const Case value = parsed(kLead + text);
    EXPECT_EQ(to_string(value), kLead + text);
    EXPECT_EQ(parsed(to_string(value)), value) << text;
  }
}

TEST(MaskFields, SaysWhatIsWrong) {
  expect_refused(kLead,
                 {{"segments=x", "write segments=N"},
                  {"segments=4.i16", "write segments=N"},
                  {"segments=-1", "allowed 0 .."},
                  {"ranges=0", "write ranges=N"},
                  {"ranges=5000", "allowed 1 .. 1024"},
                  {"chunk=0", "a chunk has 1 .."},
                  {"chunk=-3", "a chunk has 1 .."},
                  {"tree=x", "write tree=N"},
                  {"tree=-2", "allowed 0 .."},
                  {"chunk=2,ranges=2", "together with chunk= is not specified"},
                  {"segments=2,kvlen=9.4,page=2", "keys in pages"},
                  {"segments=file", "file="}});
  const std::string packed = "f32,B1,H2,Tq6,Tk9,d4,cuq=0.6,cuk=0.9,";
  for (const char* text : {"segments=2", "ranges=2", "tree=2"})
    EXPECT_NE(parse_case(packed + text).error, "") << text;
  EXPECT_EQ(parse_case(packed + "chunk=2").error, "");
}

TEST(MaskFields, SegmentsArePiecesWithPaddingAndNamesSharedByKeysAndRows) {
  const Inputs inputs = inputs_of("f32,B4,H1,Tq64,Tk96,d2,segments=3");
  ASSERT_EQ(inputs.segments_k.size(), 4u * 96);
  ASSERT_EQ(inputs.segments_q.size(), 4u * 64);
  const std::set<int64_t> numbers(inputs.segments_k.begin(),
                                  inputs.segments_k.end());
  EXPECT_LT(*numbers.begin(), 0);
  EXPECT_GT(numbers.size(), 3u);
  for (size_t b = 0; b < 4; ++b)
    for (size_t i = 0; i < 64; ++i)
      EXPECT_EQ(inputs.segments_q[b * 64 + i],
                inputs.segments_k[b * 96 + 32 + i]);
  EXPECT_EQ(inputs.segments_k_bytes.size(), 4u * 96 * 4);
}

TEST(MaskFields, WideNumbersDifferInTheUpperHalfAlone) {
  const Inputs inputs = inputs_of("f32,B4,H1,Tq64,Tk64,d2,segments=2.i64");
  EXPECT_EQ(inputs.segments_k_bytes.size(), 4u * 64 * 8);
  std::set<int64_t> numbers, lower;
  for (const int64_t number : inputs.segments_k)
    if (number >= 0) numbers.insert(number), lower.insert(number & 0xffffffff);
  EXPECT_LT(lower.size(), numbers.size());
}

TEST(MaskFields, RangesAreApartAndSomeAreEmpty) {
  const Inputs inputs = inputs_of("f32,B16,H1,Tq32,Tk32,d2,ranges=4");
  int empty = 0;
  for (size_t b = 0; b < 16; ++b) {
    std::vector<int> covered(32);
    for (size_t r = 0; r < 4; ++r) {
      const int64_t begin = inputs.full_ranges[(b * 4 + r) * 2];
      const int64_t end = inputs.full_ranges[(b * 4 + r) * 2 + 1];
      empty += end <= begin;
      for (int64_t j = begin; j < end; ++j)
        ++covered.at(static_cast<size_t>(j));
    }
    EXPECT_LE(*std::max_element(covered.begin(), covered.end()), 1);
  }
  EXPECT_GT(empty, 4);
  EXPECT_LT(empty, 40);
}

// How many of the ranges hold a key on both sides of a multiple of `tile`.
int across(const Inputs& inputs, int64_t tile) {
  int count = 0;
  for (size_t n = 0; n < inputs.full_ranges.size(); n += 2) {
    const int64_t begin = inputs.full_ranges[n],
                  end = inputs.full_ranges[n + 1];
    count += end > begin && begin / tile != (end - 1) / tile;
  }
  return count;
}

TEST(MaskFields, SomeRangesAreLong) {
  for (const char* ranges : {"1", "2", "4"}) {
    const std::string text = "f32,B64,H1,Tq8,Tk300,d2,ranges=";
    const Inputs inputs = inputs_of(text + ranges);
    EXPECT_GT(across(inputs, 64), 12) << ranges;
    EXPECT_GT(across(inputs, 128), 12) << ranges;
    int nearly_all = 0, whole = 0;
    for (size_t n = 0; n < inputs.full_ranges.size(); n += 2) {
      const int64_t begin = inputs.full_ranges[n];
      const int64_t length = inputs.full_ranges[n + 1] - begin;
      nearly_all += length > 200;
      whole += length >= 297;
      EXPECT_LE(begin + length, 300);
    }
    EXPECT_GT(nearly_all, 4) << ranges;
    EXPECT_GT(whole, 0) << ranges;
    // Most are not: sizes in between are also drawn.
    EXPECT_LT(nearly_all, 32) << ranges;
  }
}

TEST(MaskFields, ARangeIsOnlyLongWhereThereIsRoom) {
  for (const char* text :
       {"f32,B64,H1,Tq8,Tk2,d2,ranges=4", "f32,B64,H1,Tq8,Tk4,d2,ranges=4",
        "f32,B64,H1,Tq8,Tk0,d2,ranges=2"}) {
    const CaseCall one(text);
    const std::vector<int64_t>& ranges = one.inputs.full_ranges;
    for (size_t n = 0; n < ranges.size(); n += 2)
      EXPECT_LE(ranges[n + 1], one.value.shape.Tk) << text;
  }
}

TEST(MaskFields, ADraftSeesItsAncestorsAndItself) {
  const Inputs inputs = inputs_of("f32,B1,H1,Tq7,Tk9,d2,tree=2");
  const auto sees = [&](size_t i, size_t n) {
    return inputs.tree_mask[i * 7 + n] != 0;
  };
  EXPECT_TRUE(sees(4, 4) && sees(4, 1) && sees(4, 0));
  EXPECT_FALSE(sees(4, 3) || sees(4, 2) || sees(2, 1));
}

TEST(MaskFields, ACallHasWhatItsCaseHas) {
  const CaseCall one(kLead + "segments=2,chunk=3,tree=0");
  const auto& [value, inputs, call] = one;
  EXPECT_NE(call.segments_q, nullptr);
  EXPECT_NE(call.segments_k, nullptr);
  EXPECT_EQ(call.full_ranges, nullptr);
  EXPECT_NE(call.tree_mask, nullptr);
  EXPECT_EQ(call.chunk, 3);
  Inputs other = inputs;
  other.segments_k[0] += 1;
  store_inputs(value, other);
  EXPECT_NE(input_digest(other), input_digest(inputs));
}

}  // namespace
}  // namespace qkvet::mask_fields_test
