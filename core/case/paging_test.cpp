// SPDX-License-Identifier: Apache-2.0
#include "core/case/paging.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "core/testing/case_calls.h"

namespace qkvet::paging_test {
namespace {

TEST(Paging, TheSpellingIsCanonical) {
  expect_canonical(
      "",
      {"f32,B2,H1,Tq1,Tk5,d1,page=2", "f32,B1,H1,Tq1,Tk5,d1,page=2,append=1",
       "f32,B2,H1,Tq1,Tk5,d1,kvlen=5.2,page=4,pages=reverse,unowned=others,"
       "append=2",
       "f32,B2,H1,Tq1,Tk5,d1,share=b,page=1,pages=order",
       "f32,B2,H1,Tq1,Tk5,d1,kvlen=5.2,page=4,unowned=zero,table=csr",
       "f32,B1,H1,Tq2,Tk5,d1,cuq=0.1.2,cuk=0.3.5,lens=i32,page=2,table=csr",
       "f32,B1,H1,Tq1,Tk5,d4,page=2,table=csr,pool=x,append=1",
       "bf16,B1,H1,Tq1,Tk5,d8,page=2,pool=x"});
  EXPECT_EQ(to_string(parsed("f32,B1,H1,Tq1,Tk5,d1,append=1,pages=perm,"
                             "unowned=nan,page=2")),
            "f32,B1,H1,Tq1,Tk5,d1,page=2,append=1");
  EXPECT_EQ(to_string(parsed("f32,B1,H1,Tq1,Tk5,d1,kvlen=3,table=blocks,"
                             "lens=i64,page=2")),
            "f32,B1,H1,Tq1,Tk5,d1,kvlen=3,page=2");
}

TEST(Paging, WhatCannotBeIsNamed) {
  expect_refused(
      "f32,B2,H2,Hkv2,Tq4,Tk4,d2,",
      {{"page=0", "\"page=0\": allowed page=1 .. 4096"},
       {"page=5000", "\"page=5000\": allowed page=1 .. 4096"},
       {"page=2,pages=any", "allowed pages=perm, pages=order, pages=reverse"},
       {"page=2,unowned=one", "allowed unowned=nan, unowned=others, unowned="},
       {"page=2,table=list", "allowed table=blocks, table=csr"},
       {"pages=order", "pages=, unowned=, table= and pool= need page="},
       {"unowned=others", "pages=, unowned=, table= and pool= need page="},
       {"table=csr", "pages=, unowned=, table= and pool= need page="},
       {"qlen=1.2,lens=32", "\"lens=32\": allowed lens=i32, lens=i64"},
       {"pool=x", "pages=, unowned=, table= and pool= need page="},
       {"page=2,pool=y", "\"pool=y\": allowed pool=rows, pool=x"},
       {"page=2,pool=x",
        "pool=x: keys lie in groups of x = 4 channels, 16 bytes of f32, so d "
        "must be a multiple of x, and it is 2"},
       {"lens=i32", "lens=i32 needs lengths or starts of members"},
       {"page=2,table=csr,lens=i32", "lens=i32 needs lengths or starts"},
       {"append=0", "\"append=0\": allowed append=1 .. "},
       {"append=5", "append=5: member 0 has 4 tokens"},
       {"kvlen=1.4,append=2", "append=2: member 0 has 1 tokens"},
       {"share=h,page=2", "members share pages (share=b), heads do not"},
       {"share=b,append=1", "not to shared ones"},
       {"page=2,layout=packed", "layout=packed"}});
  EXPECT_FALSE(
      parse_case("f32,B1,H1,Tq4,Tk4,d2,cuq=0.4,cuk=0.4,append=1").value);
  EXPECT_FALSE(parse_case("f32,B1,H1,d2,cap4,page=2,story=a.1").value);
}

// x depends on the type of the keys, not of the queries.
TEST(Paging, GroupsOfChannelsAreSixteenBytes) {
  const std::string rest = ",B1,H1,Tq1,Tk3,d8,page=2,pool=x";
  EXPECT_EQ(channel_group_of(parsed("f64" + rest)), 2);
  EXPECT_EQ(channel_group_of(parsed("f32" + rest)), 4);
  EXPECT_EQ(channel_group_of(parsed("f16" + rest)), 8);
  EXPECT_EQ(channel_group_of(parsed("q=f32,kv=bf16,o=f32" + rest)), 8);
  EXPECT_EQ(channel_group_of(parsed("f32,B1,H1,Tq1,Tk3,d8,page=2")), 0);
  EXPECT_FALSE(parse_case("f16,B1,H1,Tq1,Tk3,d4,page=2,pool=x").value);
  // The content of k is the same; only the strides differ.
  const Inputs groups = inputs_of("f32" + rest);
  const Inputs rows = inputs_of("f32,B1,H1,Tq1,Tk3,d8,page=2");
  EXPECT_EQ(groups.k_cache_bytes, rows.k_cache_bytes);
}

// Every token is at the place in its table, and no page has two owners.
TEST(Paging, TablesLeadToEveryToken) {
  for (const char* order : {"perm", "order", "reverse"})
    for (const int64_t size : {1, 2, 3, 8}) {
      const Case c = parsed("f32,B3,H2,Hkv2,Tq1,Tk7,d2,dv3,kvlen=7.0.5,page=" +
                            std::to_string(size) + ",pages=" + order);
      const Inputs in = make_inputs(c);
      const PageMap map(c);
      const auto pool = numbers<float>(in.v_cache_bytes);
      ASSERT_EQ(pool.size(), static_cast<size_t>(map.pages() * 2 * size * 3));
      std::set<int64_t> pages;
      for (int64_t b = 0; b < 3; ++b) {
        for (int64_t p = 0; p < map.owned(b); ++p)
          EXPECT_TRUE(pages.insert(map.page_of(b, p * size)).second);
        for (int64_t j = 0; j < c.kv_len[static_cast<size_t>(b)]; ++j)
          for (int64_t h = 0; h < 2; ++h)
            for (int64_t x = 0; x < 3; ++x) {
              const int64_t slot =
                  (map.page_of(b, j) * 2 + h) * size + j % size;
              EXPECT_EQ(
                  static_cast<double>(pool[static_cast<size_t>(slot * 3 + x)]),
                  in.v[static_cast<size_t>(((b * 2 + h) * 7 + j) * 3 + x)]);
            }
      }
      for (const int64_t page : pages) EXPECT_LT(page, map.pages());
      EXPECT_EQ(numbers<int64_t>(in.kv_len_bytes), c.kv_len);
    }
}

// The same pages as one list, with the fill of each member's last page instead
// of lengths.
TEST(Paging, ListsOfPagesSayWhatATableSays) {
  for (const char* packed : {"", "cuq=0.1.1.4,cuk=0.5.5.8,"})
    for (const char* append : {"", ",append=3"}) {
      const bool alone = *packed == '\0';
      if (!alone && *append != '\0') continue;  // a member has no token
      const std::string text =
          alone ? "f32,B3,H1,Tq4,Tk8,d1,kvlen=8.3.5,page=3,pages=reverse"
                : std::string("f32,B1,H1,Tq4,Tk8,d1,") + packed + "page=3";
      const Inputs blocks = inputs_of(text + append);
      const Case c = parsed(text + ",table=csr" + append);
      const Inputs in = make_inputs(c);
      EXPECT_EQ(in.k_cache_bytes, blocks.k_cache_bytes);
      EXPECT_EQ(in.k_new_bytes, blocks.k_new_bytes);
      EXPECT_TRUE(in.block_table_bytes.empty());
      EXPECT_TRUE(in.kv_len_bytes.empty());
      EXPECT_NE(input_digest(in), input_digest(blocks));
      const auto starts = numbers<int32_t>(in.page_indptr_bytes);
      const auto pages = numbers<int32_t>(in.page_indices_bytes);
      const auto last = numbers<int32_t>(in.last_page_len_bytes);
      const auto table = numbers<int32_t>(blocks.block_table_bytes);
      ASSERT_EQ(static_cast<int64_t>(pages.size()), in.page_entries);
      ASSERT_EQ(starts.size(), 4u);
      EXPECT_EQ(starts.front(), 0);
      for (int64_t m = 0; m < members_of(c); ++m) {
        const auto n = static_cast<size_t>(m);
        const int64_t count = starts[n + 1] - starts[n];
        EXPECT_EQ(count == 0 ? 0 : (count - 1) * 3 + last[n],
                  keys_of(c, m).count);
        for (int64_t p = 0; p < count; ++p)
          EXPECT_EQ(pages[static_cast<size_t>(starts[n] + p)],
                    table[static_cast<size_t>(m * blocks.table_columns + p)]);
      }
      // The entries after them are invalid.
      EXPECT_EQ(pages[static_cast<size_t>(starts[3])], -1);
      EXPECT_EQ(pages.back(), in.pages);
      const KernelCall call = call_of(c, in, Operation::kForward);
      EXPECT_EQ(call.block_table, nullptr);
      EXPECT_EQ(call.kv_len, nullptr);
      EXPECT_EQ(paging_contradiction(call), "");
      EXPECT_EQ(held_tokens(call, 0), keys_of(c, 0).count - new_tokens(c));
    }
}

TEST(Paging, LengthsAreStoredInTheWidthThatIsAskedFor) {
  for (const char* text :
       {"f32,B2,H1,Tq2,Tk5,d1,qlen=1.2,kvlen=5.3",
        "f32,B2,H1,Tq2,Tk5,d1,qlen=1.2,kvlen=5.3,page=2,append=2",
        "f32,B1,H1,Tq2,Tk5,d1,cuq=0.1.2,cuk=0.2.5"}) {
    const Case wide = parsed(text);
    const Case narrow = parsed(std::string(text) + ",lens=i32");
    const Inputs of_wide = make_inputs(wide), of_narrow = make_inputs(narrow);
    for (const auto list : {&Inputs::q_len_bytes, &Inputs::kv_len_bytes,
                            &Inputs::cu_q_bytes, &Inputs::cu_k_bytes}) {
      const auto numbers_wide = numbers<int64_t>(of_wide.*list);
      const auto numbers_narrow = numbers<int32_t>(of_narrow.*list);
      EXPECT_EQ(lengths_in(narrow, of_narrow.*list), numbers_wide);
      EXPECT_EQ(
          std::vector<int64_t>(numbers_narrow.begin(), numbers_narrow.end()),
          numbers_wide);
    }
    EXPECT_TRUE(call_of(narrow, of_narrow, Operation::kForward).int32_lengths);
  }
}

TEST(Paging, BehindItsPagesATableHasNothingGood) {
  const Case c = parsed("f32,B2,H1,Tq1,Tk6,d1,kvlen=6.2,page=2");
  const PageMap map(c);
  ASSERT_EQ(map.columns(), 5);
  std::set<int64_t> tails;
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t p = map.owned(b); p < map.columns(); ++p)
      tails.insert(map.page_of(b, p * 2));
  EXPECT_TRUE(tails.contains(-1));
  EXPECT_TRUE(tails.contains(map.pages()));
  // A page of the other member.
  EXPECT_TRUE(tails.contains(map.page_of(0, 0)) ||
              tails.contains(map.page_of(1, 0)));
}

TEST(Paging, UnownedSlotsAreNaNTokensOfOthersOrZeros) {
  const std::string text = "f32,B2,H1,Tq1,Tk3,d1,v=onehot,kvlen=3.1,page=2";
  for (const char* unowned_are : {"nan", "others", "zero"}) {
    const Case c = parsed(text + ",unowned=" + unowned_are);
    const bool finite = c.paging.unowned != Unowned::kNan;
    const PageMap map(c);
    const auto pool = numbers<float>(make_inputs(c).k_cache_bytes);
    int64_t unowned = 0, numbers_there = 0;
    std::set<int64_t> owned;
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t j = 0; j < c.kv_len[static_cast<size_t>(b)]; ++j)
        owned.insert(map.page_of(b, j) * 2 + j % 2);
    for (size_t n = 0; n < pool.size(); ++n) {
      if (owned.contains(static_cast<int64_t>(n))) continue;
      ++unowned;
      numbers_there += !std::isnan(pool[n]);
      if (c.paging.unowned == Unowned::kZero) {
        EXPECT_EQ(pool[n], 0);
      }
    }
    EXPECT_EQ(unowned, map.pages() * 2 - 4);
    EXPECT_EQ(numbers_there, finite ? unowned : 0);
  }
  // Alone, a member finds the negatives of its own tokens.
  const Case alone =
      parsed("f32,B1,H1,Tq1,Tk1,d1,page=2,pages=order,unowned=others,k=one");
  const auto pool = numbers<float>(make_inputs(alone).k_cache_bytes);
  EXPECT_EQ(pool, (std::vector<float>{1, -1, -1, -1, -1, -1}));
}

TEST(Paging, SharedTokensLieInThePoolOnce) {
  const Case c = parsed("f32,B3,H1,Tq1,Tk4,d1,kvlen=4.2.3,share=b,page=2");
  const PageMap map(c);
  EXPECT_EQ(map.pages(), 4);
  for (int64_t b = 1; b < 3; ++b)
    EXPECT_EQ(map.page_of(b, 0), map.page_of(0, 0));
  // The slots that a shorter member does not own are those of the longest.
  for (const char* text : {"kvlen=3.4.2", "kvlen=3.4.2,unowned=others"}) {
    const Case lengths =
        parsed("f32,B3,H1,Tq1,Tk4,d1,share=b,page=4," + std::string(text));
    const Inputs in = make_inputs(lengths);
    const PageMap table(lengths);
    const auto pool = numbers<float>(in.k_cache_bytes);
    for (int64_t j = 0; j < 4; ++j)
      EXPECT_EQ(static_cast<double>(
                    pool[static_cast<size_t>(table.page_of(0, 0) * 4 + j)]),
                in.k[static_cast<size_t>(j)]);
  }
}

TEST(Paging, NewTokensComeApart) {
  for (const char* page : {"", ",page=2"}) {
    const Case c =
        parsed("f16,B2,H1,Tq2,Tk4,d2,kvlen=4.3,append=2" + std::string(page));
    const Inputs in = make_inputs(c);
    EXPECT_EQ(numbers<int64_t>(in.kv_len_bytes), (std::vector<int64_t>{2, 1}));
    const auto all = numbers<uint16_t>(in.k_bytes);
    const auto fresh = numbers<uint16_t>(in.k_new_bytes);
    const std::vector<uint16_t> tokens = {all[4],  all[5],  all[6],  all[7],
                                          all[10], all[11], all[12], all[13]};
    EXPECT_EQ(fresh, tokens);
    // Their places are empty.
    const auto cache = numbers<uint16_t>(in.k_cache_bytes);
    for (const uint16_t token : tokens)
      EXPECT_EQ(std::count(cache.begin(), cache.end(), token), 0);
  }
}

// A packed batch: each member has pages, a row of the table and a length of its
// own, and its keys are those of its part of k and v.
TEST(Paging, PackedMembersHavePagesOfTheirOwn) {
  for (const char* unowned : {"", ",unowned=others"}) {
    const Case c = parsed(
        "f32,B1,H2,Hkv2,Tq5,Tk9,d1,cuq=0.3.4.4,cuk=0.2.7.9,page=2,append=1" +
        std::string(unowned));
    const Inputs in = make_inputs(c);
    const KernelCall call = call_of(c, in, Operation::kForward);
    EXPECT_EQ(call.members, 3);
    EXPECT_EQ(call.cu_k, nullptr);
    EXPECT_EQ(call.new_tokens, 1);
    EXPECT_EQ(numbers<int64_t>(in.kv_len_bytes),
              (std::vector<int64_t>{1, 4, 1}));
    const PageMap map(c);
    EXPECT_EQ(map.pages(), 1 + 3 + 1 + 2);
    EXPECT_EQ(map.columns(), 3 + 2);
    ASSERT_EQ(map.table().size(), 15u);
    const auto pool = numbers<float>(in.k_cache_bytes);
    const auto fresh = numbers<float>(in.k_new_bytes);
    ASSERT_EQ(fresh.size(), 6u);
    std::set<int64_t> pages;
    for (int64_t m = 0; m < 3; ++m) {
      const auto at = static_cast<size_t>(m);
      for (int64_t p = 0; p < map.owned(m); ++p)
        EXPECT_TRUE(pages.insert(map.page_of(m, p * 2)).second);
      for (int64_t h = 0; h < 2; ++h) {
        const auto key = [&](int64_t j) {
          return static_cast<float>(
              in.k[static_cast<size_t>(h * 9 + c.cu_k[at] + j)]);
        };
        const int64_t count = c.cu_k[at + 1] - c.cu_k[at];
        for (int64_t j = 0; j + 1 < count; ++j)
          EXPECT_EQ(pool[static_cast<size_t>((map.page_of(m, j) * 2 + h) * 2 +
                                             j % 2)],
                    key(j));
        EXPECT_EQ(fresh[static_cast<size_t>(m * 2 + h)], key(count - 1));
      }
    }
  }
  EXPECT_FALSE(
      parse_case("f32,B1,H1,Tq2,Tk2,d1,cuq=0.2,cuk=0.2,append=1").value);
  EXPECT_EQ(
      parse_case("f32,B1,H1,Tq2,Tk2,d1,cuq=0.1.2,cuk=0.0.2,append=1,"
                 "page=2")
          .error,
      "case: append=1: member 0 has 0 tokens (Tk, kvlen= or cuk=), and the "
      "new ones are among them");
}

// A variant of a case may have fewer tokens than it appends.
TEST(Paging, NoMemberGetsMoreNewTokensThanItHas) {
  Case c = parsed("f32,B2,H1,Tq1,Tk4,d1,append=3");
  EXPECT_EQ(new_tokens(c), 3);
  c.kv_len = {4, 1};
  EXPECT_EQ(new_tokens(c), 1);
  c.kv_len = {4, 0};
  EXPECT_EQ(new_tokens(c), 0);
  const Inputs inputs = make_inputs(c);
  const KernelCall call = call_of(c, inputs, Operation::kForward);
  EXPECT_EQ(call.k_new, nullptr);
  EXPECT_EQ(call.new_tokens, 0);
}

}  // namespace
}  // namespace qkvet::paging_test
