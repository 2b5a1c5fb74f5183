// SPDX-License-Identifier: Apache-2.0
// Laws about pages and appended tokens: each fails a kernel that is wrong in
// its subject.
#include <gtest/gtest.h>

#include <cmath>

#include "core/capability/capability.h"
#include "properties/cases/generate.h"
#include "properties/conventions/domain.h"
#include "properties/run/fault_of.h"
#include "properties/testing/fake_check.h"

namespace qkvet::properties::served_law_test {
namespace {

int32_t first_page(const KernelCall& call) {
  int32_t page = 0;
  std::memcpy(&page, call.block_table, sizeof page);
  return page;
}

TEST(ServedLaws, PlacementIsSeen) {
  fails("page_placement_changes_nothing",
        "f32,B1,H1,Tq1,Tk6,d2,page=2,pages=order",
        [](KernelCall& call, Problem& problem) {
          if (first_page(call) != 0) problem.scale *= 1.01;
        });
}

TEST(ServedLaws, PageSizeIsSeen) {
  fails("page_size_changes_nothing", "f32,B1,H1,Tq1,Tk6,d2,page=2",
        [](KernelCall& call, Problem& problem) {
          if (call.page_size != 2) problem.scale *= 1.01;
        });
}

// One bit, and only with numbers in pages of others.
TEST(ServedLaws, WhatNobodyOwnsMayNotMatter) {
  const Judgement judgement = fails(
      "unowned_pages_change_nothing", "f32,B2,H1,Tq1,Tk3,d2,kvlen=3.2,page=2",
      {}, [](const KernelCall& call, OracleOutput& oracle, CallOutcome&) {
        const int64_t floats = call.pages * call.page_size * call.shape.d;
        const auto k = stored_as_doubles(call.k, floats, call.kv_dtype);
        for (const double x : k)
          if (std::isnan(x)) return;
        oracle.o[0] = std::nextafter(static_cast<float>(oracle.o[0]), 9.0f);
      });
  EXPECT_NE(judgement.finding->looks.find("does not own"), std::string::npos);
}

TEST(ServedLaws, AppendedTokensAreAttended) {
  fails("append_equals_given", "f32,B1,H1,Tq2,Tk5,d2,causal=br,append=2",
        [shorter = int64_t{0}](KernelCall& call, Problem& problem) mutable {
          if (call.new_tokens == 0) return;
          shorter = problem.kv_len[0] - 1;
          problem.kv_len = &shorter;
        });
}

TEST(ServedLaws, EverySlotIsHeldAgainstWhatItShallBe) {
  for (const char* page : {"", ",page=2"}) {
    const std::string text =
        "f32,B2,H2,Hkv2,Tq1,Tk4,d1,kvlen=4.3,append=2" + std::string(page);
    // Each slot of v in turn, unowned ones included: 2 members, 2 heads and 4
    // rows, or 6 pages, 2 heads and 2 slots. Then k.
    const size_t slots = *page != 0 ? 24 : 16;
    FakeExecutor good;
    ASSERT_EQ(check("append_writes_only_its_tokens", text, good).verdict,
              Verdict::kPassed);
    for (size_t n = 0; n < slots; ++n) {
      const Judgement judgement = fails(
          "append_writes_only_its_tokens", text, {},
          [n, slots](const KernelCall&, OracleOutput&, CallOutcome& outcome) {
            ASSERT_EQ(outcome.v_cache.size(), slots * 4);
            outcome.v_cache[n * 4] ^= std::byte{1};
          });
      EXPECT_TRUE(
          judgement.finding->where.starts_with(*page != 0 ? "v[page=" : "v[b="))
          << judgement.finding->where;
    }
    const Judgement judgement =
        fails("append_writes_only_its_tokens", text, {},
              [](const KernelCall& call, OracleOutput&, CallOutcome& outcome) {
                const auto* from = call.k;
                outcome.k_cache.assign(from, from + outcome.k_cache.size());
              });
    EXPECT_EQ(judgement.finding->looks,
              "a new token is not stored where its member finds it");
  }
}

// Laws about pages are about those of packed members, too.
TEST(ServedLaws, PackedMembersStayPackedInPages) {
  const std::string text =
      "f32,B1,H1,Tq5,Tk6,d2,cuq=0.1.5,cuk=0.3.6,page=2,pages=order";
  for (const char* append : {"", ",append=2"}) {
    const Case value = *parse_case(text + append).value;
    for (const char* id :
         {"page_placement_changes_nothing", "page_size_changes_nothing",
          "unowned_pages_change_nothing", "packed_members_equal_calls",
          "packed_order_changes_nothing", "agrees_with_oracle",
          "reads_only_its_inputs", "same_call_same_bits"}) {
      FakeExecutor good;
      EXPECT_EQ(constrained(*find_law(id), value), value) << id;
      EXPECT_EQ(check(id, to_string(value), good).verdict, Verdict::kPassed)
          << id;
    }
  }
  const std::string appends = text + ",append=2";
  for (const char* id :
       {"append_equals_given", "append_writes_only_its_tokens"}) {
    FakeExecutor good;
    EXPECT_EQ(check(id, appends, good).verdict, Verdict::kPassed) << id;
  }
  // A law that does not allow them keeps the pages.
  const Case alone = constrained(*find_law("permuted_members_permute_output"),
                                 *parse_case(text).value);
  EXPECT_TRUE(alone.cu_q.empty());
  EXPECT_EQ(alone.paging.size, 2);
}

TEST(ServedLaws, APackedMemberInPagesIsHeldAgainstItselfAlone) {
  fails("packed_members_equal_calls",
        "f32,B1,H1,Tq5,Tk6,d2,cuq=0.2.5,cuk=0.3.6,page=2,seed=2",
        [](KernelCall& call, Problem& problem) {
          if (call.members > 0 && call.page_size > 0) problem.scale *= 1.01;
        });
}

// The fake with both forms of table, and lengths of both widths.
JudgedKernel with_lists() {
  JudgedKernel kernel = FakeExecutor::under_test().judged;
  kernel.info.capabilities.options |= QKVET_OPTION_PACKED_PAGES |
                                      QKVET_OPTION_PAGED_CSR |
                                      QKVET_OPTION_INT32_LENGTHS;
  return kernel;
}

TEST(ServedLaws, ListsOfPagesAreHeldAgainstABlockTable) {
  for (const char* text :
       {"f32,B2,H1,Tq2,Tk5,d2,kvlen=5.2,page=2,table=csr",
        "f32,B1,H1,Tq5,Tk6,d2,cuq=0.1.5,cuk=0.3.6,page=2,table=csr,append=2"}) {
    for (const char* id :
         {"page_lists_equal_block_table", "page_placement_changes_nothing",
          "page_size_changes_nothing", "unowned_pages_change_nothing",
          "append_equals_given", "append_writes_only_its_tokens",
          "agrees_with_oracle"}) {
      const Case asked = *parse_case(text).value;
      if (constrained(*find_law(id), asked) != asked)
        continue;  // none appended
      FakeExecutor good;
      const Judgement judgement = check(id, text, good, with_lists());
      EXPECT_EQ(judgement.verdict, Verdict::kPassed)
          << id << " " << text << " " << finding_of(judgement);
    }
    // Pages keep their form where a law has other things to change.
    const Case value = *parse_case(text).value;
    EXPECT_EQ(constrained(*find_law("page_size_changes_nothing"), value),
              value);
    fails_as<FakeExecutor>(
        with_lists(), "page_lists_equal_block_table", text,
        [](KernelCall& call, Problem& problem) {
          if (call.page_indptr != nullptr) problem.scale *= 1.01;
        },
        FakeExecutor::Answer());
  }
  FakeExecutor lists_alone;
  JudgedKernel kernel = with_lists();
  kernel.info.capabilities.options &= ~QKVET_OPTION_PAGED;
  EXPECT_EQ(check("page_lists_equal_block_table",
                  "f32,B2,H1,Tq2,Tk5,d2,page=2,table=csr", lists_alone, kernel)
                .verdict,
            Verdict::kUnsupported);
}

TEST(ServedLaws, TheWidthOfLengthsIsSeen) {
  for (const char* text :
       {"f32,B2,H1,Tq2,Tk5,d2,kvlen=5.2,lens=i32",
        "f32,B1,H1,Tq5,Tk6,d2,cuq=0.1.5,cuk=0.3.6,lens=i32",
        "f32,B2,H1,Tq2,Tk5,d2,kvlen=5.2,lens=i32,page=2,append=1"}) {
    FakeExecutor good;
    EXPECT_EQ(
        check("int32_lengths_change_nothing", text, good, with_lists()).verdict,
        Verdict::kPassed)
        << text;
    fails_as<FakeExecutor>(
        with_lists(), "int32_lengths_change_nothing", text,
        [](KernelCall& call, Problem& problem) {
          if (!call.int32_lengths) problem.scale *= 1.01;
        },
        FakeExecutor::Answer());
  }
}

// Dropout with pages has no derivation, and lists of keys are not drawn.
bool is_beside_pages(const Law& law) {
  return law.domain.about == QKVET_OPTION_DROPOUT ||
         law.domain.about == QKVET_OPTION_SEGMENTS ||
         (law.domain.about &
          (QKVET_OPTION_KEY_LISTS | QKVET_OPTION_KEY_LIST_LENGTHS)) != 0;
}

TEST(ServedLaws, TheFormOfPagesIsSeen) {
  fails("channel_groups_change_nothing", "f32,B1,H1,Tq1,Tk6,d8,page=2,pool=x",
        [](KernelCall& call, Problem& problem) {
          if (call.channel_group != 0) problem.scale *= 1.01;
        });
}

TEST(ServedLaws, ValuesInKeysAreSeen) {
  for (const char* text : {"f32,B1,H2,Hkv1,Tq1,Tk4,d5,dv3,values=keys",
                           "f32,B1,H1,Tq2,Tk6,d4,dv2,values=keys,page=2"})
    fails("values_in_keys_equal_own_values", text,
          [](KernelCall& call, Problem& problem) {
            if (call.values_in_keys) problem.scale *= 1.01;
          });
}

// No law that allows them requires other values than those of the keys.
TEST(ServedLaws, TheDefinitionPassesWithValuesInKeys) {
  int judged = 0;
  for (const Law* law : all_laws()) {
    if (law->domain.subject != Subject::kAttention ||
        (allowed_in(law->domain) & QKVET_OPTION_VALUES_IN_KEYS) == 0)
      continue;
    for (const char* text :
         {"f32,B2,H4,Hkv2,Tq4,Tk6,d3,dv2,values=keys",
          "f32,B2,H2,Tq3,Tk7,d4,causal=br,window=4.0,mask=random60,values=keys",
          "bf16,B2,H2,Hkv1,Tq2,Tk5,d6,dv4,kvlen=5.3,layout=gaps,values=keys",
          "f32,B2,H2,Hkv1,Tq2,Tk7,d4,dv3,kvlen=7.4,keys=4.n,values=keys,page=2",
          "f32,B1,H2,Tq5,Tk9,d2,cuq=0.2.5,cuk=0.5.9,values=keys,page=2"}) {
      const Case value = constrained(*law, *parse_case(text).value);
      EXPECT_TRUE(value.values_in_keys) << law->id << " " << text;
      judged += definition_passes(law->id, value);
    }
  }
  EXPECT_GT(judged, 60);
}

// Every law about pages draws both forms, and a law that wants other widths
// only removes the groups.
TEST(ServedLaws, BothFormsOfPagesAreDrawn) {
  for (const char* id :
       {"page_placement_changes_nothing", "page_size_changes_nothing",
        "unowned_pages_change_nothing", "append_writes_only_its_tokens",
        "agrees_with_oracle"}) {
    int groups = 0, rows = 0;
    for (int64_t n = 1; n <= 200; ++n) {
      const Case value = planned_case(*find_law(id), 1, n, Scope{});
      if (value.paging.size == 0) continue;
      ++(value.paging.pool == PageForm::kGroups ? groups : rows);
    }
    EXPECT_GT(groups, 1) << id;
    EXPECT_GT(rows, 1) << id;
  }
  Case value = *parse_case("f32,B1,H1,Tq1,Tk6,d8,page=2,pool=x").value;
  value.shape.d = 6;
  const Case kept =
      keep_allowed(value, kAllowAll | QKVET_OPTION_PAGED_CHANNEL_GROUPS);
  EXPECT_EQ(kept.paging.pool, PageForm::kRows);
  EXPECT_EQ(kept.paging.size, 2);
}

// A kernel that only takes groups of channels gets only cases with them.
TEST(ServedLaws, CasesKeepToGroupsWhereNothingElseIsTaken) {
  Scope scope;
  scope.pages_only = scope.groups_only = true;
  scope.options &= ~QKVET_OPTION_PACKED;
  for (const Law* law : all_laws()) {
    // Values in keys have no groups.
    if (law->domain.subject != Subject::kAttention || is_beside_pages(*law) ||
        law->domain.about == QKVET_OPTION_VALUES_IN_KEYS)
      continue;
    int64_t grouped = 0;
    constexpr int64_t kCases = 40;
    for (int64_t n = 1; n <= kCases; ++n)
      grouped +=
          planned_case(*law, 1, n, scope).paging.pool == PageForm::kGroups;
    // A law that sets the width has none.
    EXPECT_GE(grouped, kCases / 2) << law->id;
  }
}

TEST(ServedLaws, PagesOfRowsAreRefusedWhereOnlyGroupsAreDeclared) {
  KernelInfo info = FakeExecutor::info();
  info.capabilities.flags |= QKVET_FLAG_CHANNEL_GROUPS_ONLY;
  info.has_forward = true;
  KernelCall call;
  call.shape = {1, 1, 1, 1, 1, 4, 4};
  const std::byte byte{};
  call.q = call.k = call.v = call.kv_len = call.block_table = &byte;
  call.page_size = call.pages = call.table_columns = 1;
  std::string why;
  EXPECT_FALSE(capability_allows(info, call, &why));
  EXPECT_EQ(why, "pages of rows are not declared");
  call.channel_group = 4;
  EXPECT_TRUE(capability_allows(info, call, &why)) << why;
}

// A kernel that only takes lists of pages gets only cases with lists.
TEST(ServedLaws, CasesKeepToListsWhereNoTableIsTaken) {
  Scope scope;
  scope.pages_only = true;
  scope.options &= ~(QKVET_OPTION_PACKED | QKVET_OPTION_PAGED);
  for (const Law* law : all_laws()) {
    if (law->domain.subject != Subject::kAttention || is_beside_pages(*law))
      continue;
    for (int64_t n = 1; n <= 20; ++n) {
      const Case value = planned_case(*law, 1, n, scope);
      EXPECT_EQ(value.paging.table, PageTable::kCsr)
          << law->id << " " << to_string(value);
    }
  }
}

// The report on a kernel that agrees_with_oracle fails on a case.
StoryFault told_of(const std::string& text, FakeExecutor::Question question,
                   FakeExecutor::Answer answer = {}) {
  FakeExecutor bad(std::move(question), std::move(answer));
  const Case value = *parse_case(text).value;
  const JudgedKernel judged = FakeExecutor::under_test().judged;
  const Law& law = *find_law("agrees_with_oracle");
  TimeUse time;
  const Judgement judgement =
      check_case(law, value, judged, 0, bad, /*with_twin=*/false, time);
  EXPECT_EQ(judgement.verdict, Verdict::kFailed);
  return fault_of(law, value, judgement, judged, 0, bad, time);
}

constexpr char kTwoMembers[] = "f32,B2,H1,Tq1,Tk3,d1,kvlen=3.2,page=2";
constexpr char kWhose[] =
    "The kernel's: pages, block tables and lengths are given, and right.";

TEST(ServedFault, SlotsThatNobodyOwnsAndTokensOfOthersAreLeaks) {
  // The whole pool joins the first answer of member 1.
  const StoryFault pool =
      told_of(kTwoMembers, {},
              [](const KernelCall& call, OracleOutput& oracle, CallOutcome&) {
                for (const double x :
                     stored_as_doubles(call.v, call.pages * 2, Dtype::kF32))
                  oracle.o[1] += std::isnan(x) ? 1 : x;
              });
  EXPECT_EQ(pool.whose, kWhose);
  ASSERT_EQ(pool.reaches.size(), 2u);
  EXPECT_EQ(reach_text(pool.reaches[0]),
            "LEAK: the content of unowned slots reaches member 1");
  EXPECT_EQ(reach_text(pool.reaches[1]),
            "LEAK: a token of another member reaches member 1");
}

TEST(ServedFault, WhatIsWrongOtherwiseIsNoLeak) {
  const StoryFault scale = told_of(
      kTwoMembers, [](KernelCall&, Problem& problem) { problem.scale *= 2; });
  EXPECT_TRUE(scale.reaches.empty());
  EXPECT_EQ(scale.whose, kWhose);
  // In a packed batch the member is that of the row.
  const StoryFault packed =
      told_of("f32,B1,H1,Tq3,Tk5,d1,cuq=0.1.3,cuk=0.3.5,page=2", {},
              [](const KernelCall& call, OracleOutput& oracle, CallOutcome&) {
                for (const double x :
                     stored_as_doubles(call.v, call.pages * 2, Dtype::kF32))
                  oracle.o[2] += std::isnan(x) ? 1 : x;
              });
  ASSERT_EQ(packed.reaches.size(), 1u);
  EXPECT_EQ(reach_text(packed.reaches[0]),
            "LEAK: the content of unowned slots reaches member 1");
  // Its bits change by themselves.
  int calls = 0;
  const StoryFault unsteady =
      told_of(kTwoMembers, {},
              [&calls](const KernelCall&, OracleOutput& oracle, CallOutcome&) {
                oracle.o[0] += ++calls;
              });
  EXPECT_TRUE(unsteady.reaches.empty());
  // Rows have no pages.
  const StoryFault rows =
      told_of("f32,B2,H1,Tq1,Tk3,d1",
              [](KernelCall&, Problem& problem) { problem.scale *= 2; });
  EXPECT_TRUE(rows.reaches.empty());
  EXPECT_EQ(rows.whose, "");
}

// A kernel that only takes pages gets only cases with pages, law by law.
TEST(ServedLaws, CasesKeepToPagesWhereNothingElseIsTaken) {
  Scope scope;
  scope.pages_only = true;
  scope.page_sizes = {4, 16};
  scope.options &= ~QKVET_OPTION_PACKED;
  for (const Law* law : all_laws()) {
    if (law->domain.subject != Subject::kAttention || is_beside_pages(*law))
      continue;
    EXPECT_NE(law->domain.allows & QKVET_OPTION_PAGED, 0u) << law->id;
    for (int64_t n = 1; n <= 40; ++n) {
      const Case value = planned_case(*law, 1, n, scope);
      const int64_t size = value.paging.size;
      const bool fits = size == 4 || size == 16 ||
                        law->id == std::string("page_size_changes_nothing");
      EXPECT_TRUE(fits) << law->id << " " << to_string(value);
    }
  }
}

TEST(ServedLaws, RowsAreRefusedWhereOnlyPagesAreDeclared) {
  KernelInfo info = FakeExecutor::info();
  info.capabilities.flags |= QKVET_FLAG_PAGES_ONLY;
  info.has_forward = true;
  KernelCall call;
  call.shape = {1, 1, 1, 1, 1, 1, 1};
  const std::byte byte{};
  call.q = call.k = call.v = &byte;
  std::string why;
  EXPECT_FALSE(capability_allows(info, call, &why));
  EXPECT_EQ(why, "k and v in rows are not declared");
  call.kv_len = call.block_table = &byte;
  call.page_size = call.pages = call.table_columns = 1;
  EXPECT_TRUE(capability_allows(info, call, &why)) << why;
  info.capabilities.page_size_count = 1;
  info.capabilities.page_sizes[0] = 16;
  EXPECT_FALSE(capability_allows(info, call, &why));
  EXPECT_EQ(why, "pages of 1 tokens are not declared");
}

// A kernel that adds all slots of the pool, times 0, to its sums.
void add_pool_times_zero(const KernelCall& call, OracleOutput& oracle,
                         CallOutcome&) {
  double zero = 0;
  const int64_t elements =
      call.pages * call.shape.Hkv * call.page_size * call.shape.dv;
  for (const double x : stored_as_doubles(call.v, elements, Dtype::kF32))
    zero += 0 * x;
  for (double& x : oracle.o) x += zero;
}

TEST(ServedLaws, SlotsAreFiniteForWhoDeclaresIt) {
  JudgedKernel finite = FakeExecutor::under_test().judged;
  finite.info.dialect.unowned_nonfinite = QKVET_UNOWNED_NOT_IGNORED;
  for (const char* unowned : {"", ",unowned=others", ",unowned=zero"}) {
    const std::string text = kTwoMembers + std::string(unowned);
    for (const char* law :
         {"unowned_pages_change_nothing", "agrees_with_oracle",
          "page_placement_changes_nothing", "same_call_same_bits"}) {
      FakeExecutor kernel({}, add_pool_times_zero);
      const Judgement judgement = check(law, text, kernel, finite);
      EXPECT_EQ(judgement.verdict, Verdict::kPassed)
          << law << " " << text << " " << finding_of(judgement);
      EXPECT_GT(judgement.compared, 0);
    }
  }
  // It must declare this; finite numbers there must not matter either.
  FakeExecutor undeclared({}, add_pool_times_zero);
  EXPECT_EQ(check("agrees_with_oracle", kTwoMembers, undeclared).verdict,
            Verdict::kFailed);
  fails_as<FakeExecutor>(
      finite, "unowned_pages_change_nothing", kTwoMembers, {},
      [](const KernelCall& call, OracleOutput& oracle, CallOutcome&) {
        const int64_t elements = call.pages * call.page_size;
        for (const double x : stored_as_doubles(call.v, elements, Dtype::kF32))
          oracle.o[0] += x;
      });
}

TEST(ServedLaws, PaddingIsFiniteForWhoDeclaresIt) {
  const std::string text = "f32,B2,H1,Tq1,Tk4,d2,kvlen=4.2";
  const auto times_zero = [](const KernelCall& call, OracleOutput& oracle,
                             CallOutcome&) {
    double zero = 0;
    for (const double x :
         stored_as_doubles(call.v, call.shape.v_elements(), Dtype::kF32))
      zero += 0 * x;
    for (double& x : oracle.o) x += zero;
  };
  JudgedKernel finite = FakeExecutor::under_test().judged;
  finite.info.dialect.padding_nonfinite = QKVET_PADDING_NOT_IGNORED;
  for (const char* law : {"poison_beyond_lengths_changes_nothing",
                          "agrees_with_oracle", "lengths_equal_shorter_call"}) {
    FakeExecutor kernel({}, times_zero);
    const Judgement judgement = check(law, text, kernel, finite);
    EXPECT_EQ(judgement.verdict, Verdict::kPassed)
        << law << " " << finding_of(judgement);
    EXPECT_GT(judgement.compared, 0);
  }
  FakeExecutor undeclared({}, times_zero);
  EXPECT_EQ(check("agrees_with_oracle", text, undeclared).verdict,
            Verdict::kFailed);
  fails_as<FakeExecutor>(
      finite, "poison_beyond_lengths_changes_nothing", text, {},
      [](const KernelCall& call, OracleOutput& oracle, CallOutcome&) {
        for (const double x :
             stored_as_doubles(call.v, call.shape.v_elements(), Dtype::kF32))
          oracle.o[2] += x;
      });
}

}  // namespace
}  // namespace qkvet::properties::served_law_test
