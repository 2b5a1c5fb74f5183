// SPDX-License-Identifier: Apache-2.0
// Laws about lists of keys: each fails a kernel that reads them differently,
// and every law that allows them passes one that reads them correctly.
#include <gtest/gtest.h>

#include <vector>

#include "properties/conventions/domain.h"
#include "properties/testing/fake_check.h"

namespace qkvet::properties::list_law_test {
namespace {

using List = std::vector<int32_t>;

// Changes the entries that count in each row; -1 follows them.
FakeExecutor::Question with_lists(void (*change)(List& list, int64_t keys)) {
  return [change, all = List()](KernelCall&, Problem& p) mutable {
    const ListedKeys listed = p.listed;
    if (listed.keys == nullptr) return;
    const Shape& s = p.shape;
    all.clear();
    for (int64_t row = 0; row < s.B * listed.heads * s.Tq; ++row) {
      const int64_t b = row / s.Tq / listed.heads, i = row % s.Tq;
      const int32_t* from = listed.keys + row * listed.entries;
      const int64_t count = listed.counts != nullptr
                                ? listed.counts[b * s.Tq + i]
                                : listed.entries;
      List list(from, from + count);
      change(list, s.Tk);
      list.resize(static_cast<size_t>(listed.entries), -1);
      all.insert(all.end(), list.begin(), list.end());
    }
    p.listed.keys = all.data();
    p.listed.counts = nullptr;
  };
}

void without_last(List& list, int64_t) {
  if (list.size() > 1) list.pop_back();
}
void up_to_none(List& list, int64_t) {
  list.erase(std::find(list.begin(), list.end(), -1), list.end());
}
void none_is_last(List& list, int64_t keys) {
  for (int32_t& j : list)
    if (j < 0) j = static_cast<int32_t>(keys - 1);
}

TEST(ListLaws, TheOrderCounts) {
  const std::string text = "f32,B2,H2,Hkv2,Tq4,Tk9,d3,keys=6.hn";
  for (const auto change : {without_last, up_to_none})
    fails("listed_order_changes_nothing", text, with_lists(change));
  fails("listed_order_changes_nothing", "f32,B1,H1,Tq5,Tk7,d2,causal=br,keys=4",
        with_lists(without_last));
}

TEST(ListLaws, AllKeysAreDense) {
  const std::string text = "f32,B1,H2,Tq4,Tk6,d3,keys=8";
  for (const auto change : {+[](List&list, int64_t) { list[0] = -1; },
                            +[](List&list, int64_t) { list[3] = -1; }})
    fails("full_lists_equal_dense", text, with_lists(change));
  // A kernel that only uses the lists.
  fails("full_lists_equal_dense", text + ",mask=band1",
        [](KernelCall&, Problem& p) {
          if (p.listed.keys != nullptr) p.mask = nullptr;
        });
}

TEST(ListLaws, WhatStandsBehindTheLengthIsNotRead) {
  fails("rest_of_lists_changes_nothing", "f32,B2,H2,Tq5,Tk8,d3,keys=6.n",
        [copy = List()](KernelCall&, Problem& p) mutable {
          if (p.listed.keys == nullptr) return;
          p.listed.counts = nullptr;
        });
}

TEST(ListLaws, ListsAreMasks) {
  const std::string text = "f32,B2,H4,Hkv2,Tq4,Tk9,d3,keys=6.hn";
  for (const auto change : {without_last, up_to_none, none_is_last}) {
    fails("lists_equal_masks", text, with_lists(change));
    fails("agrees_with_oracle", text, with_lists(change));
  }
  fails("lists_equal_masks", text, [](KernelCall&, Problem& p) {
    p.listed.heads = 1;  // those of the first head, and of others' members
  });
  fails("lists_equal_masks", text + ",causal=br", [](KernelCall&, Problem& p) {
    if (p.listed.keys != nullptr) p.causal = Causal::kNone;
  });
  fails("lists_equal_masks", text,
        [](KernelCall&, Problem& p) { p.listed = {}; });
}

// The definition passes every law of attention that allows lists.
TEST(ListLaws, TheDefinitionPassesAllOfThem) {
  int judged = 0;
  for (const Law* law : all_laws()) {
    if (law->domain.subject != Subject::kAttention ||
        (law->domain.allows & QKVET_OPTION_KEY_LISTS) == 0)
      continue;
    for (const char* text :
         {"f32,B2,H4,Hkv2,Tq4,Tk6,d3,keys=4.hn",
          "f32,B2,H2,Tq3,Tk7,d2,causal=br,window=4.0,mask=random60,keys=5",
          "f32,B2,H2,Tq3,Tk5,d2,keys=7.n,sink=normal,qlen=3.1,kvlen=2.5",
          "f16,B1,H2,Tq3,Tk5,d2,keys=3.h,alibi=one,softcap=2",
          "bf16,B2,H2,Tq2,Tk5,d2,keys=2,layout=gaps,rope=half",
          "f32,B2,H2,Tq3,Tk7,d2,kvlen=7.4,keys=4.n,page=2",
          "f32,B2,H2,Tq3,Tk7,d2,kvlen=7.4,keys=2x3.h,page=4,table=csr,append=1",
          "f32,B1,H2,Tq5,Tk9,d2,causal=br,cuq=0.2.5,cuk=0.5.9,keys=4.hn",
          "f32,B1,H2,Tq5,Tk9,d2,cuq=0.2.5,cuk=0.5.9,keys=2x2,page=2"}) {
      const Case value = constrained(*law, *parse_case(text).value);
      EXPECT_GT(value.listed.entries, 0) << law->id << " " << text;
      judged += definition_passes(law->id, value);
    }
  }
  EXPECT_GT(judged, 50);
}

TEST(ListLaws, EntriesArePositionsInTheSequence) {
  // Those of the first member in all, and entries taken for slots.
  const std::string text =
      "f32,B2,H1,Tq3,Tk8,d3,kvlen=8.6,page=2,pages=reverse,keys=3";
  const auto of_first = [all = List()](KernelCall& call, Problem& p) mutable {
    if (p.listed.keys == nullptr || call.page_size == 0) return;
    const int64_t member = p.shape.Tq * p.listed.entries;
    all.assign(p.listed.keys, p.listed.keys + member);
    all.insert(all.end(), p.listed.keys, p.listed.keys + member);
    p.listed.keys = all.data();
  };
  const auto slots = [all = List()](KernelCall& call, Problem& p) mutable {
    if (p.listed.keys == nullptr || call.page_size == 0) return;
    const int64_t count = p.shape.B * p.shape.Tq * p.listed.entries;
    all.clear();
    for (int64_t n = 0; n < count; ++n)
      all.push_back(p.listed.keys[n] < 0 ? -1 : p.listed.keys[n] ^ 2);
    p.listed.keys = all.data();
  };
  for (const char* law : {"listed_pages_equal_rows", "agrees_with_oracle"}) {
    fails(law, text, of_first);
    fails(law, text, slots);
  }
}

TEST(ListLaws, BlocksAreTheirKeys) {
  const std::string text = "f32,B1,H2,Tq4,Tk10,d3,keys=3x4";
  // The last block is not there, for it is not full.
  const auto whole = [all = List()](KernelCall& call, Problem& p) mutable {
    if (call.listed.block == 1) return;
    const int64_t count = p.shape.Tq * p.listed.entries;
    all.assign(p.listed.keys, p.listed.keys + count);
    for (int32_t& j : all)
      if (j >= 8) j = -1;
    p.listed.keys = all.data();
  };
  for (const char* law : {"block_lists_equal_key_lists", "lists_equal_masks",
                          "full_lists_equal_dense", "agrees_with_oracle"})
    fails(law, text, whole);
}

// A gradient has the lists of its call.
TEST(ListLaws, AreOfGradientsToo) {
  Case value = *parse_case("f32,B1,H1,Tq4,Tk4,d1,keys=2.n").value;
  value.backward = true;
  EXPECT_EQ(constrained(*find_law("backward_agrees_with_oracle"), value).listed,
            value.listed);
}

}  // namespace
}  // namespace qkvet::properties::list_law_test
