// SPDX-License-Identifier: Apache-2.0
// Laws about masks in a few numbers: each fails a kernel that reads them
// differently, and every law that allows them passes one that reads them
// correctly.
#include <gtest/gtest.h>

#include <vector>

#include "properties/conventions/domain.h"
#include "properties/testing/fake_check.h"

namespace qkvet::properties::field_law_test {
namespace {

using Numbers = std::vector<int64_t>;

// The numbers of the keys' segments, changed.
FakeExecutor::Question with_segments(void (*change)(Numbers& keys)) {
  return [change, keys = Numbers()](KernelCall&, Problem& p) mutable {
    if (p.fields.segments_k == nullptr) return;
    keys.assign(p.fields.segments_k,
                p.fields.segments_k + p.shape.B * p.shape.Tk);
    change(keys);
    p.fields.segments_k = keys.data();
  };
}

// In each pair of keys, the first replaces both.
void of_first_in_tile(Numbers& keys) {
  for (size_t n = 1; n < keys.size(); n += 2) keys[n] = keys[n - 1];
}

void no_fields(KernelCall&, Problem& p) { p.fields = {}; }

constexpr const char* kAbout[] = {"mask_fields_equal_masks",
                                  "mask_fields_equal_rows_alone",
                                  "agrees_with_oracle"};

TEST(FieldLaws, SegmentsKeepApart) {
  const std::string text = "f32,B2,H2,Tq5,Tk9,d3,segments=2";
  for (const char* law : kAbout) {
    fails(law, text, with_segments(of_first_in_tile));
    fails(law, text + ".i64", no_fields);
  }
  fails("segments_equal_sequences", text, with_segments(of_first_in_tile));
  fails("segments_equal_sequences", text, no_fields);
}

TEST(FieldLaws, NumbersOfSegmentsAreNames) {
  // Assumes ascending numbers: keys after a larger number are hidden.
  fails("rest_of_mask_fields_changes_nothing",
        "f32,B1,H1,Tq6,Tk8,d3,segments=2", with_segments([](Numbers& keys) {
          for (size_t n = 1; n < keys.size(); ++n)
            if (keys[n] < keys[n - 1]) keys[n] = -1;
        }));
}

// The law calls three rows alone; not every case has one that shows the
// mistake.
int failures_of(const char* law, const FakeExecutor::Question& wrong) {
  int failures = 0;
  for (int seed = 1; seed <= 32; ++seed) {
    FakeExecutor executor(wrong);
    failures +=
        check(law,
              "f32,B2,H2,Tq8,Tk8,d3,causal=br,window=1.0,ranges=1,seed=" +
                  std::to_string(seed),
              executor)
            .verdict == Verdict::kFailed;
  }
  return failures;
}

TEST(FieldLaws, RangesFollowTheDialect) {
  for (const char* law : kAbout) {
    EXPECT_GT(failures_of(law, no_fields), 1) << law;
    EXPECT_GT(failures_of(law,
                          [](KernelCall&, Problem& p) {
                            if (p.fields.ranges > 0) p.window.reset();
                          }),
              1)
        << law;
    EXPECT_GT(failures_of(law,
                          [](KernelCall&, Problem& p) {
                            p.fields.in_window = !p.fields.in_window;
                          }),
              1)
        << law;
  }
}

TEST(FieldLaws, ChunksAreBlocks) {
  const std::string text = "f32,B1,H2,Tq6,Tk8,d3,causal=br,chunk=3";
  for (const char* law : kAbout) {
    fails(law, text, no_fields);
    fails(law, text, [](KernelCall&, Problem& p) {
      if (p.fields.chunk > 0) p.window = Window{p.fields.chunk - 1, 0};
      p.fields.chunk = 0;
    });
  }
}

TEST(FieldLaws, BranchesOfATreeAreSequences) {
  const std::string text = "f32,B2,H2,Tq6,Tk9,d3,tree=2";
  const auto below = [all = std::vector<uint8_t>()](KernelCall&,
                                                    Problem& p) mutable {
    if (p.fields.tree == nullptr) return;
    const int64_t T = p.shape.Tq;
    all.assign(p.fields.tree, p.fields.tree + p.shape.B * T * T);
    for (size_t n = 0; n < all.size(); ++n) {
      const auto at = static_cast<int64_t>(n);
      if (at % T < at / T % T) all[n] = 1;
    }
    p.fields.tree = all.data();
  };
  for (const char* law : kAbout) fails(law, text, below);
  fails("tree_paths_equal_sequences", text, below);
  fails("tree_paths_equal_sequences", text, no_fields);
}

// A kernel may check the positions of all rows, and refuse one that is outside
// of the tables.
TEST(FieldLaws, EveryDraftStandsInTheTables) {
  const Law* law = find_law("tree_paths_equal_sequences");
  const KernelInfo kernel = FakeExecutor::under_test().judged.info;
  for (const char* text :
       {"f32,B1,H1,Tq2,Tk2,d2,tree=1,qlen=1,rope=half",
        "f32,B2,H1,Tq6,Tk6,d2,tree=1,qlen=2.5,rope=half.3",
        "f32,B2,H1,Tq6,Tk4,d2,tree=0,qlen=6.3,kvlen=4.2,rope=half"}) {
    const Case value = *parse_case(text).value;
    const Plan plan = law->plan(value, kernel);
    ASSERT_TRUE(plan.not_applicable.empty()) << text;
    ASSERT_NE(plan.calls[0].edit, nullptr) << text;
    Inputs inputs = make_inputs(value);
    plan.calls[0].edit(value, plan.calls[0].argument, inputs);
    const int64_t rows =
        value.rope.first + std::max(value.shape.Tq, value.shape.Tk);
    for (const int64_t position : inputs.q_positions)
      EXPECT_LT(position, rows) << text;
    for (const int64_t position : inputs.k_positions)
      EXPECT_LT(position, rows) << text;
    // The tree is used: in a chain, each draft is one position after the
    // previous.
    if (value.fields.children == 1 && value.q_len[0] > 1) {
      EXPECT_EQ(inputs.q_positions[1], inputs.q_positions[0] + 1) << text;
    }
  }
}

// The definition passes every law of attention that allows one of them.
TEST(FieldLaws, TheDefinitionPassesAllOfThem) {
  int judged = 0;
  for (const Law* law : all_laws()) {
    if (law->domain.subject != Subject::kAttention ||
        (law->domain.allows & kAllowFields) == 0)
      continue;
    for (const char* text :
         {"f32,B2,H4,Hkv2,Tq4,Tk6,d3,segments=2",
          "f32,B2,H2,Tq3,Tk7,d2,causal=br,window=4.0,segments=3.i64,bias="
          "normal",
          "f32,B2,H2,Tq6,Tk6,d2,causal,window=1.0,ranges=2,sink=normal",
          "f32,B2,H2,Tq3,Tk7,d2,causal=br,ranges=3.i64,kvlen=7.5,page=2",
          "f32,B2,H2,Tq5,Tk7,d2,causal=br,chunk=3,rope=half",
          "f32,B1,H2,Tq5,Tk9,d2,causal=br,cuq=0.2.5,cuk=0.5.9,chunk=2",
          "f16,B2,H2,Tq4,Tk7,d2,tree=2,qlen=3.4,kvlen=7.4,page=4,append=1",
          "bf16,B2,H2,Tq4,Tk7,d2,tree=0,segments=4,layout=gaps",
          "f32,B1,H2,Tq5,Tk3,d2,tree=3,chunk=2,alibi=one"}) {
      const Case value = constrained(*law, *parse_case(text).value);
      judged += definition_passes(law->id, value);
    }
  }
  EXPECT_GT(judged, 50);
}

}  // namespace
}  // namespace qkvet::properties::field_law_test
