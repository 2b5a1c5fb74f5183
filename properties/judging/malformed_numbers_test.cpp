// SPDX-License-Identifier: Apache-2.0
// The effect of a mistake in numbers on the lengths of a call, and cases in
// which none can be made.
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
  // With pages, only queries have starts.
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

std::vector<int32_t> list32_in(const std::vector<std::byte>& bytes) {
  std::vector<int32_t> list(bytes.size() / sizeof(int32_t));
  if (!bytes.empty()) std::memcpy(list.data(), bytes.data(), bytes.size());
  return list;
}

TEST(MalformedNumbers, ListsOfPages) {
  // Two pages of 2 tokens and one; 3 unowned entries after them.
  const char* const lists =
      "f32,B2,H1,Tq1,Tk3,d1,kvlen=3.2,page=2,table=csr,seed=2";
  using Narrow = std::vector<int32_t>;
  const struct {
    Mistake mistake;
    Narrow starts, last;
  } rows[] = {{Mistake::kPagesFall, {0, 6, 5}, {1, 2}},
              {Mistake::kPagesStart, {1, 2, 3}, {1, 2}},
              {Mistake::kPagesEnd, {0, 2, 7}, {1, 2}},
              {Mistake::kLastPageEmpty, {0, 2, 3}, {0, 2}},
              {Mistake::kLastPageBeyond, {0, 2, 3}, {3, 2}}};
  for (const auto& row : rows) {
    const Inputs inputs = spoiled(lists, row.mistake);
    EXPECT_EQ(list32_in(inputs.page_indptr_bytes), row.starts);
    EXPECT_EQ(list32_in(inputs.last_page_len_bytes), row.last);
    EXPECT_TRUE(inputs.kv_len_bytes.empty());
  }
  const Inputs twice = spoiled(lists, Mistake::kBothTables);
  EXPECT_EQ(list32_in(twice.page_indptr_bytes), (Narrow{0, 2, 3}));
  EXPECT_EQ(list_in(twice.kv_len_bytes), (List{3, 2}));
  EXPECT_EQ(twice.block_table_bytes.size(),
            static_cast<size_t>(2 * twice.table_columns * 4));
  // Mistakes in a table cannot be made in a list, and vice versa.
  const Case csr = *parse_case(lists).value;
  EXPECT_FALSE(can_be_made(Mistake::kLengthBeyond, csr));
  EXPECT_FALSE(can_be_made(Mistake::kLengthsType, csr));
  const Case table = *parse_case("f32,B2,H1,Tq1,Tk3,d1,page=2").value;
  const Case none = *parse_case("f32,B2,H1,Tq1,Tk0,d1,page=2,table=csr").value;
  for (const auto& row : rows) EXPECT_FALSE(can_be_made(row.mistake, table));
  EXPECT_FALSE(can_be_made(Mistake::kBothTables, table));
  EXPECT_FALSE(can_be_made(Mistake::kLastPageEmpty, none));
}

TEST(MalformedNumbers, InEitherWidth) {
  const Inputs narrow = spoiled(
      "f32,B2,H1,Tq5,Tk6,d1,kvlen=3.4,lens=i32,seed=2", Mistake::kLengthBeyond);
  EXPECT_EQ(list32_in(narrow.kv_len_bytes), (std::vector<int32_t>{7, 4}));
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
