// SPDX-License-Identifier: Apache-2.0
// Merges as cases: how they are spelled, and what a kernel gets of them.
#include <gtest/gtest.h>

#include <numbers>

#include "core/capability/capability.h"
#include "core/case/merge.h"
#include "core/testing/case_calls.h"

namespace qkvet::merge_case_test {
namespace {

TEST(MergeCase, IsSpelledByRowsAndStates) {
  const Case value = parsed("f32,B3,H2,Tk2,dv4,merge");
  EXPECT_EQ(value.subject(), Subject::kMerge);
  EXPECT_EQ(value.shape, (Shape{3, 2, 2, 1, 2, 1, 4}));
  EXPECT_EQ(to_string(value), "f32,B3,H2,Tk2,dv4,merge,bias=normal");
  for (const char* text :
       {"f32,B3,H2,Tk2,dv4,merge,bias=large3,kvlen=2.1.0,seed=7",
        "q=f32,kv=f16,o=f16,B1,H1,Tk5,dv3,bias=zero,layout=gaps,merge",
        "f64,B1,H1,Tk1,dv1,merge,v=one,set=bias.0.0.0.0:0x1p+3"}) {
    const Case again = parsed(text);
    EXPECT_EQ(parsed(to_string(again)), again) << text;
  }
  // lse is no half.
  EXPECT_EQ(to_string(parsed("f16,B1,H1,Tk2,dv1,merge")),
            "q=f32,kv=f16,o=f16,B1,H1,Tk2,dv1,merge,bias=normal");
}

TEST(MergeCase, WhatIsNoMergeIsRefused) {
  for (const char* text :
       {"f32,B1,H1,Tk2,merge", "f32,B1,H1,Tk2,dv1,d1,merge",
        "f32,B1,H1,Tk2,dv1,Tq1,merge", "f32,B1,H2,Hkv1,Tk2,dv1,merge",
        "f32,B1,H1,Tk2,dv1,merge,causal=tl", "f32,B1,H1,Tk2,dv1,merge,scale=1",
        "f32,B1,H1,Tk2,dv1,merge,q=one", "f32,B1,H1,Tk2,dv1,merge,backward",
        "f32,B1,H1,Tk2,dv1,merge,mask=random", "f32,B1,H1,T2,D2,merge",
        "f32,B1,H1,Tk2,dv1,merge,layout=packed",
        "f32,B1,H1,Tk2,dv1,merge,bias=normal.qk",
        "f32,B1,H1,Tk2,dv1,merge,set=q.0.0.0.0:0x1p+0",
        "f32,B1,H1,Tk2,dv1,merge,merge",
        "q=f16,kv=f16,o=f16,B1,H1,Tk2,dv1,merge"})
    EXPECT_GT(error_of(text).size(), 10u) << text;
}

// State by state; row by row where their numbers differ.
TEST(MergeCase, StatesLieAsTheHeaderSays) {
  const Case dense = parsed("f32,B2,H1,Tk2,dv1,merge");
  Inputs inputs = make_inputs(dense);
  inputs.v = {1, 2, 3, 4};  // [row, head, state]
  inputs.bias = {10, 20, 30, 40};
  store_inputs(dense, inputs);
  EXPECT_EQ(numbers<float>(inputs.states_bytes),
            (std::vector<float>{1, 3, 2, 4}));
  EXPECT_EQ(numbers<float>(inputs.states_lse_bytes),
            (std::vector<float>{10, 30, 20, 40}));
  EXPECT_EQ(inputs.row_mask.size(), 2u);
  const KernelCall call = call_of(dense, inputs, Operation::kMerge);
  EXPECT_EQ(call.indptr, nullptr);
  EXPECT_FALSE(call.in_place);

  const Case ragged = parsed("f32,B2,H1,Tk2,dv1,merge,kvlen=1.2");
  inputs.v = {1, 2, 3, 4};
  inputs.bias = {10, 20, 30, 40};
  store_inputs(ragged, inputs);
  EXPECT_EQ(numbers<float>(inputs.states_bytes), (std::vector<float>{1, 3, 4}));
  EXPECT_EQ(numbers<int64_t>(inputs.indptr_bytes),
            (std::vector<int64_t>{0, 1, 3}));
  EXPECT_EQ(call_of(ragged, inputs, Operation::kMerge).total_states, 3);
}

// In place the first state of every row is what o and lse hold.
TEST(MergeCase, InPlaceTheFirstStateIsTheOutput) {
  CaseCall one("f32,B2,H1,Tk2,dv1,merge", Operation::kMerge);
  auto& [value, inputs, call] = one;
  const std::byte* const all = call.states;
  fill_merge_call(value, inputs, /*in_place=*/true, call);
  EXPECT_EQ(call.given_o, all);
  EXPECT_EQ(call.states, all + 2 * sizeof(float));
}

// A kernel that takes only lse as [n, H, T] gets no other layout.
TEST(MergeCase, LseHeadsFirstAloneAllowsOneLayout) {
  KernelInfo kernel;
  kernel.has_merge = true;
  kernel.capabilities.options = ~uint64_t{0};
  kernel.merge_options = QKVET_MERGE_LSE_HEADS_FIRST;
  const auto refusal = [&kernel](const char* layout) {
    const CaseCall one(std::string("f32,B3,H2,Tk2,dv1,merge") + layout,
                       Operation::kMerge);
    std::string why;
    capability_allows(kernel, one.call, &why);
    return why;
  };
  EXPECT_EQ(refusal(""), "");
  EXPECT_EQ(refusal(",layout=bthd"), "");
  EXPECT_EQ(refusal(",layout=gaps"), "any strides of a merge are not declared");
  kernel.merge_options |= QKVET_MERGE_LSE_HEADS_FIRST_ONLY;
  EXPECT_EQ(refusal(",layout=bthd"), "");
  for (const char* layout : {"", ",layout=gaps"})
    EXPECT_EQ(refusal(layout),
              "lse that does not lie as [n, H, T] is not declared");
}

// The kernel's input is exact in base 2, and the bias has the same value.
TEST(MergeCase, BaseTwoIsRoundedOnce) {
  const Case value = parsed("f32,B1,H1,Tk1,dv1,merge");
  Inputs inputs = make_inputs(value);
  inputs.bias = {1};
  store_inputs(value, inputs);
  fill_merge_in_base2(value, inputs);
  const float stored = numbers<float>(inputs.states_lse_bytes)[0];
  EXPECT_EQ(stored, 1.44269502f);
  EXPECT_EQ(inputs.bias[0], static_cast<double>(stored) * std::numbers::ln2);
}

}  // namespace
}  // namespace qkvet::merge_case_test
