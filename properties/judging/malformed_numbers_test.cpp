// SPDX-License-Identifier: Apache-2.0
// What a mistake in numbers makes of the lengths of a call, and where none can
// be made.
#include "properties/judging/malformed_numbers.h"

#include <gtest/gtest.h>

#include <cstring>

namespace qkvet::properties::malformed_numbers_test {
namespace {

using List = std::vector<int64_t>;

List list_in(const std::vector<std::byte>& bytes) {
  List list(bytes.size() / sizeof(int64_t));
  if (!bytes.empty()) std::memcpy(list.data(), bytes.data(), bytes.size());
  return list;
}

Inputs spoiled(const char* text, Mistake mistake) {
  const Case value = *parse_case(text).value;
  EXPECT_TRUE(can_be_made(mistake, value)) << text;
  Inputs inputs = make_inputs(value);
  spoil_numbers(mistake, value, inputs);
  return inputs;
}

TEST(MalformedNumbers, StartsOfMembers) {
  const char* const queries = "f32,B1,H1,Tq5,Tk6,d1,cuq=0.2.4,cuk=0.3.5,seed=2";
  const char* const keys = "f32,B1,H1,Tq5,Tk6,d1,cuq=0.2.4,cuk=0.3.5";
  const struct {
    Mistake mistake;
    List of_queries, of_keys;
  } rows[] = {{Mistake::kOffsetsFall, {0, 5, 4}, {0, 6, 5}},
              {Mistake::kOffsetsStart, {1, 2, 4}, {1, 3, 5}},
              {Mistake::kOffsetsEnd, {0, 2, 6}, {0, 3, 7}}};
  for (const auto& row : rows) {
    const Inputs q = spoiled(queries, row.mistake);
    EXPECT_EQ(list_in(q.cu_q_bytes), row.of_queries);
    EXPECT_EQ(list_in(q.cu_k_bytes), (List{0, 3, 5}));
    const Inputs k = spoiled(keys, row.mistake);
    EXPECT_EQ(list_in(k.cu_q_bytes), (List{0, 2, 4}));
    EXPECT_EQ(list_in(k.cu_k_bytes), row.of_keys);
  }
  EXPECT_EQ(list_in(spoiled(keys, Mistake::kBothForms).q_len_bytes), List{5});
  // In pages there are starts of queries alone.
  const Inputs pages = spoiled(
      "f32,B1,H1,Tq5,Tk6,d1,cuq=0.2.4,cuk=0.3.5,page=2", Mistake::kOffsetsEnd);
  EXPECT_EQ(list_in(pages.cu_q_bytes), (List{0, 2, 6}));
}

TEST(MalformedNumbers, Lengths) {
  const char* const both = "f32,B2,H1,Tq5,Tk6,d1,qlen=1.2,kvlen=3.4,seed=2";
  EXPECT_EQ(list_in(spoiled(both, Mistake::kLengthNegative).kv_len_bytes),
            (List{-1, 4}));
  const Inputs beyond = spoiled(both, Mistake::kLengthBeyond);
  EXPECT_EQ(list_in(beyond.kv_len_bytes), (List{7, 4}));
  EXPECT_EQ(list_in(beyond.q_len_bytes), (List{1, 2}));
  EXPECT_EQ(
      list_in(spoiled("f32,B2,H1,Tq5,Tk6,d1,qlen=1.2", Mistake::kLengthBeyond)
                  .q_len_bytes),
      (List{1, 6}));
  // More than the block table has pages for: 4 columns of 3 tokens.
  const Inputs pages =
      spoiled("f32,B1,H1,Tq1,Tk6,d1,page=3", Mistake::kLengthBeyond);
  ASSERT_EQ(pages.table_columns, 4);
  EXPECT_EQ(list_in(pages.kv_len_bytes), List{13});
}

TEST(MalformedNumbers, NotWithoutThem) {
  const Case plain = *parse_case("f32,B1,H1,Tq2,Tk2,d1").value;
  const Case empty =
      *parse_case("f32,B1,H1,Tq0,Tk2,d1,cuq=0.0.0,cuk=0.1.2,seed=2").value;
  const Case single = *parse_case("f32,B1,H1,Tq2,Tk2,d1,cuq=0.2,cuk=0.2").value;
  for (const Mistake mistake :
       {Mistake::kOffsetsFall, Mistake::kOffsetsStart, Mistake::kOffsetsEnd,
        Mistake::kLengthNegative, Mistake::kLengthBeyond, Mistake::kLengthsType,
        Mistake::kLengthsRank, Mistake::kBothForms})
    EXPECT_FALSE(can_be_made(mistake, plain));
  EXPECT_FALSE(can_be_made(Mistake::kOffsetsFall, empty));
  EXPECT_FALSE(can_be_made(Mistake::kOffsetsStart, empty));
  EXPECT_FALSE(can_be_made(Mistake::kOffsetsFall, single));
  EXPECT_TRUE(can_be_made(Mistake::kKeyWidth, plain));
}

}  // namespace
}  // namespace qkvet::properties::malformed_numbers_test
