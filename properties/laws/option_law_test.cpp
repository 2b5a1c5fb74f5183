// SPDX-License-Identifier: Apache-2.0
// Laws about options: each fails a kernel that is wrong in its subject.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/base/half.h"
#include "properties/conventions/domain.h"
#include "properties/testing/fake_check.h"

namespace qkvet::properties::option_law_test {
namespace {

std::string looks(const Judgement& judgement) {
  return judgement.finding ? judgement.finding->looks : "no finding";
}

TEST(OptionLaws, PairsNameTheFirstWrongKey) {
  // A window that is one key short, and one that is a key too wide.
  const std::string text = "f32,B1,H2,Tq5,Tk5,d3,window=2.0,q=zero,v=count";
  EXPECT_EQ(looks(fails("every_pair_is_seen_as_asked", text,
                        [](KernelCall&, Problem& p) { --p.window->left; })),
            "row b=0,h=0,i=2: key 0 is missing");
  EXPECT_EQ(looks(fails("every_pair_is_seen_as_asked", text,
                        [](KernelCall&, Problem& p) { ++p.window->left; })),
            "row b=0,h=0,i=3: key 0 is seen and should not be");
  EXPECT_EQ(looks(fails("every_pair_is_seen_as_asked", text, {},
                        [](const KernelCall&, OracleOutput& oracle,
                           CallOutcome&) { oracle.o[0] *= 1.01; })),
            "row b=0,h=0,i=0: no set of keys, each counted once, gives it");
}

TEST(OptionLaws, PairsNeedSeveralCallsForManyKeys) {
  // 16 bits in one column: 40 keys are three calls, and key 39 is in the last.
  const Judgement judgement = fails("every_pair_is_seen_as_asked",
                                    "f32,B1,H1,Tq1,Tk40,d2,dv1,q=zero,v=count",
                                    [](KernelCall&, Problem& p) {
                                      p.causal = Causal::kBottomRight;
                                      p.window = Window{38, -1};
                                    });
  EXPECT_EQ(looks(judgement), "row b=0,h=0,i=0: key 0 is missing");
}

TEST(OptionLaws, BiasIsNotScaledAndAlibiCountsFromTheDiagonal) {
  fails("bias_alone_decides", "f32,B1,H1,Tq2,Tk3,d16,bias=normal,q=zero",
        [copy = std::vector<double>()](KernelCall&, Problem& p) mutable {
          copy.assign(p.bias, p.bias + 6);
          for (double& x : copy) x *= p.scale;
          p.bias = copy.data();
        });
  fails("bias_alone_decides", "f32,B1,H1,Tq2,Tk5,d2,causal=br,alibi=one,q=zero",
        [](KernelCall&, Problem& p) { p.slopes = nullptr; });
  // Only lse shows a constant that all keys have.
  fails("bias_alone_decides", "f32,B1,H1,Tq1,Tk3,d2,bias=normal,q=zero", {},
        [](const KernelCall&, OracleOutput& oracle, CallOutcome&) {
          oracle.lse[0] += 1e-3;
        });
}

TEST(OptionLaws, ABiasMayBeAnywhere) {
  // The second of two calls has another bias. It is cut off there, or becomes
  // infinite.
  for (double (*kept)(double) :
       {+[](double x) { return std::max(x, -10000.0); },
        +[](double x) { return round_to(Dtype::kF16, x); }})
    fails(
        "shifted_bias_changes_nothing",
        "f32,B1,H1,Tq2,Tk3,d2,bias=lattice,seed=2",
        [kept, copy = std::vector<double>()](KernelCall&, Problem& p) mutable {
          copy.assign(p.bias, p.bias + 6);
          for (double& x : copy) x = kept(x);
          p.bias = copy.data();
        });
}

// Changes the bias of a call before the answer is computed.
FakeExecutor::Question with_bias(double (*kept)(double)) {
  return [kept, copy = std::vector<double>()](KernelCall&, Problem& p) mutable {
    if (p.bias == nullptr) return;
    copy.assign(p.bias, p.bias + p.shape.weights_elements());
    for (double& x : copy) x = kept(x);
    p.bias = copy.data();
  };
}

TEST(OptionLaws, ARowOfFiniteMasksIsStillARow) {
  constexpr double kNone = -HUGE_VAL;
  for (const char* number : {"masking", "masking5"}) {
    const std::string text =
        std::string("f32,B1,H2,Tq5,Tk4,d3,v=offset,bias=") + number;
    // Treated as a mask, whatever else there is; and added once more.
    fails("one_bias_for_a_row_changes_nothing", text,
          with_bias([](double x) { return x <= -1e4 ? kNone : x; }));
    fails("one_bias_for_a_row_changes_nothing", text,
          with_bias([](double x) { return round_to(Dtype::kF32, x + x); }));
    // Zeros instead.
    fails("one_bias_for_a_row_changes_nothing", text, {},
          [](const KernelCall& call, OracleOutput& oracle, CallOutcome&) {
            float first = 0;
            std::memcpy(&first, call.bias, sizeof first);
            if (first < 0) oracle.o[0] = 0;
          });
  }
  fails("one_bias_for_a_row_changes_nothing",
        "f32,B1,H2,Tq5,Tk4,d3,v=offset,bias=raised5",
        with_bias([](double x) { return round_to(Dtype::kF16, x); }));
}

TEST(OptionLaws, AMaskIsABiasOfAnyNumberThatHides) {
  // Seeds 0 to 4 take -10000, -1e9, the lowest number, -infinity, and all.
  const auto text = [](int seed) {
    return "f32,B1,H1,Tq4,Tk9,d3,mask=random,seed=" + std::to_string(seed);
  };
  fails("mask_equals_bias", text(5),
        with_bias([](double x) { return std::max(x, -8.0); }));
  for (const int seed : {3, 8, 4, 9})
    fails("mask_equals_bias", text(seed),
          with_bias([](double x) { return std::isinf(x) ? 0.0 : x; }));
}

TEST(OptionLaws, SoftcapNamesWhatItLooksLike) {
  const std::string text =
      "f32,B1,H1,Tq1,Tk3,d16,softcap=2,q=zero,k=zero,v=zero,seed=";
  const auto with_score = [](double (*score)(const Problem&, double)) {
    return [score, q = std::vector<double>()](KernelCall&, Problem& p) mutable {
      q.assign(p.q, p.q + p.shape.d);
      for (double& x : q)
        if (x != 0) x = score(p, p.scale * x) / p.scale;
      p.q = q.data();
      p.softcap = 0;
    };
  };
  const std::pair<double (*)(const Problem&, double), const char*> wrongs[] = {
      {[](const Problem&, double x) { return x; }, "no cap"},
      {[](const Problem& p, double x) { return std::tanh(x / p.softcap); },
       "without the factor"},
      {[](const Problem& p, double x) {
         return std::fabs(p.softcap * std::tanh(x / p.softcap));
       },
       "sign"}};
  for (const auto& [wrong, name] : wrongs) {
    // Seeds 2 and 3 have a negative score.
    const Judgement judgement =
        fails("softcap_is_tanh", text + "2", with_score(wrong));
    EXPECT_NE(looks(judgement).find(name), std::string::npos)
        << looks(judgement);
  }
}

TEST(OptionLaws, SinkIsPartOfTheDenominatorAndOfLse) {
  const std::string text = "f32,B1,H2,Tq2,Tk3,d2,sink=normal,q=zero,v=one";
  EXPECT_EQ(looks(fails("sink_joins_the_denominator", text,
                        [](KernelCall&, Problem& p) { p.sink = nullptr; })),
            "the sink is left out of the denominator");
  EXPECT_NE(looks(fails("sink_joins_the_denominator", text,
                        [](KernelCall&, Problem& p) { p.sink_in_lse = false; }))
                .find("lse counts the sink"),
            std::string::npos);
}

TEST(OptionLaws, RulesEqualMasks) {
  fails("window_equals_mask", "f32,B1,H1,Tq4,Tk6,d2,window=1.1",
        [](KernelCall&, Problem& p) {
          if (p.window) ++p.window->right;
        });
  fails("causal_equals_mask", "f32,B1,H1,Tq3,Tk5,d2,causal=br",
        [](KernelCall&, Problem& p) {
          if (p.causal != Causal::kNone) p.causal = Causal::kTopLeft;
        });
  fails("mask_equals_bias", "f32,B1,H1,Tq3,Tk5,d2,mask=random50",
        [](KernelCall&, Problem& p) { p.mask = nullptr; });
  // Slopes counted from the top left, where the diagonal ends bottom right.
  fails("alibi_equals_bias", "f32,B1,H1,Tq2,Tk5,d2,alibi=normal,window=2.2",
        [slope = 0.0](KernelCall&, Problem& p) mutable {
          if (p.slopes == nullptr) return;
          slope = 2 * p.slopes[0];
          p.slopes = &slope;
        });
}

// The slopes of a call's members, looked up elsewhere in their list.
FakeExecutor::Question with_slopes(size_t (*place)(size_t n, size_t H)) {
  return
      [place, copy = std::vector<double>()](KernelCall&, Problem& p) mutable {
        if (!p.member_slopes || p.slopes == nullptr) return;
        copy.clear();
        for (int64_t n = 0; n < slope_count(p); ++n)
          copy.push_back(
              p.slopes[place(static_cast<size_t>(n), size_t(p.shape.H))]);
        p.slopes = copy.data();
      };
}

TEST(OptionLaws, SlopesBelongToTheirMembers) {
  for (const char* text :
       {"f32,B3,H2,Tq3,Tk5,d2,alibi=normal.bh",
        "f32,B3,H2,Hkv1,Tq3,Tk5,d2,alibi=normal.bh,qlen=3.2.3,kvlen=5.4.3",
        "f32,B1,H2,Tq6,Tk9,d2,alibi=normal.bh,cuq=0.2.4.6,cuk=0.3.6.9"}) {
    // The list from its end to its beginning: no head keeps its slope.
    for (const char* law : {"member_slopes_equal_calls", "bias_alone_decides",
                            "alibi_equals_bias", "agrees_with_oracle"})
      fails(law, text,
            with_slopes([](size_t n, size_t H) { return 3 * H - 1 - n; }));
    fails("bias_alone_decides", text,
          with_slopes([](size_t n, size_t H) { return n % H; }));
    fails("bias_alone_decides", text,
          with_slopes([](size_t n, size_t H) { return n / H + n % H; }));
    for (const char* law :
         {"permuted_members_permute_output", "packed_order_changes_nothing",
          "other_members_change_nothing", "packed_members_equal_calls",
          "lengths_equal_shorter_call"}) {
      const Case asked = *parse_case(text).value;
      if (constrained(*find_law(law), asked) != asked) continue;
      FakeExecutor good;
      EXPECT_EQ(
          check(law, text, good, FakeExecutor::under_test().judged).verdict,
          Verdict::kPassed)
          << law << " " << text;
    }
  }
  // A member with the slopes of the next one.
  fails("other_members_change_nothing", "f32,B2,H1,Tq1,Tk3,d2,alibi=normal.bh",
        with_slopes([](size_t n, size_t H) { return (n + H) % (2 * H); }));
}

TEST(OptionLaws, RotationsTurnPairsByPositions) {
  const std::string text = "f32,B1,H1,Tq3,Tk5,d6,rope=interleaved";
  const auto other_style = [](KernelCall&, Problem& p) {
    if (p.rotation.style != RopeStyle::kNone)
      p.rotation.style = RopeStyle::kHalf;
  };
  fails("rope_turns_pairs_of_channels", text, other_style);
  // Queries with their rows as positions.
  const auto from_zero = [rows = std::vector<int64_t>{0, 1, 2}](KernelCall&,
                                                                Problem& p) {
    if (p.rotation.style != RopeStyle::kNone)
      p.rotation.q_positions = rows.data();
  };
  fails("rope_turns_pairs_of_channels", text, from_zero);
  fails("rope_sees_only_distances", text, from_zero);
}

TEST(OptionLaws, FormsInMemory) {
  // A kernel that takes the mask of the first head for all heads.
  fails("broadcast_equals_materialised",
        "f32,B1,H2,Tq2,Tk4,d2,mask=random50.qk",
        [](KernelCall& call, Problem& p) {
          if (call.mask_own != kOwnAll) p.mask = nullptr;
        });
  fails("layout_changes_nothing", "f32,B1,H2,Tq2,Tk4,d2,layout=gaps",
        [](KernelCall& call, Problem& p) {
          if (call.layout != Layout::kBhtd) p.scale *= 1.01;
        });
}

TEST(OptionLaws, MembersEqualCalls) {
  fails("lengths_equal_shorter_call",
        "f32,B2,H1,Tq4,Tk4,d2,causal=br,kvlen=3.2,qlen=2.2,seed=2",
        [](KernelCall&, Problem& p) {
          if (p.kv_len != nullptr) p.causal = Causal::kTopLeft;
        });
  fails("packed_members_equal_calls",
        "f32,B1,H1,Tq5,Tk6,d2,cuq=0.2.5,cuk=0.3.6,seed=2",
        [](KernelCall&, Problem& p) {
          if (p.members > 0) p.scale *= 1.01;
        });
}

// A kernel that takes another path for tiny keys, and one for huge ones.
TEST(OptionLaws, KeysOfAllMagnitudesAreAlike) {
  const auto scaled_if = [](bool (*path)(double largest)) {
    return [path](KernelCall&, Problem& p) {
      double largest = 0;
      const Shape& s = p.shape;
      for (int64_t n = 0; n < s.B * s.Hkv * s.Tk * s.d; ++n)
        largest = std::max(largest, std::fabs(p.k[n]));
      if (path(largest)) p.scale *= 1.01;
    };
  };
  // The seed modulo 20 is the exponent: -8 and 9.
  for (const char* type : {"f32", "f16", "bf16"}) {
    const std::string text = type + std::string(",B1,H1,Tq2,Tk5,d4,seed=");
    fails("magnitude_moves_to_queries", text + "2",
          scaled_if([](double largest) { return largest < 0.02; }));
    fails("magnitude_moves_to_queries", text + "18",
          scaled_if([](double largest) { return largest > 200; }));
  }
}

// A kernel that is right but rounds otherwise beside other sequences.
TEST(OptionLaws, BatchMatesChangeNothing) {
  const JudgedKernel claims = FakeExecutor::under_test().judged;
  JudgedKernel silent = claims;
  silent.info.capabilities.flags &= ~QKVET_FLAG_BATCH_MATES_INVARIANT;
  const char* const law = "batch_mates_change_nothing";
  const char* const padded = "f32,B3,H2,Tq3,Tk5,d2,kvlen=2.5.3,qlen=2.3.1";
  const char* const packed = "f32,B1,H2,Tq6,Tk9,d2,cuq=0.2.4.6,cuk=0.2.6.9";
  FakeExecutor unclaimed;
  EXPECT_EQ(check(law, padded, unclaimed, silent).reason,
            "batch_mates_invariant is not declared");
  // The case has three sequences, the further calls have one and four.
  for (const int64_t number : {1, 3, 4}) {
    fails_as<FakeExecutor>(claims, law, padded,
                           [=](KernelCall&, Problem& p) {
                             if (p.shape.B == number) p.scale *= 1 + 1e-7;
                           },
                           {});
    fails_as<FakeExecutor>(claims, law, packed,
                           [=](KernelCall&, Problem& p) {
                             if (p.members == number) p.scale *= 1 + 1e-7;
                           },
                           {});
  }
}

// A kernel that is wrong wherever a mask is given, and right without one.
TEST(OptionLaws, WhatAMaskKeepsApartEqualsCalls) {
  const auto sees_all = [](KernelCall&, Problem& p) { p.mask = nullptr; };
  const struct {
    const char* law;
    const char* text;
    const char* second;
  } rows[] = {
      {"documents_equal_sequences", "f32,B2,H1,Tq5,Tk7,d2,mask=docs2,seed=3",
       "the document alone"},
      {"documents_equal_sequences",
       "f32,B1,H1,Tq6,Tk6,d2,causal=tl,mask=docs2,seed=3",
       "the document alone"},
      {"local_chunks_equal_calls",
       "f32,B1,H2,Tq5,Tk7,d2,causal=br,window=1.-1,mask=chunk3",
       "the chunk alone"},
      {"prefix_equals_two_calls", "f32,B1,H1,Tq5,Tk7,d2,mask=prefix4",
       "the part alone"},
      {"ranges_equal_blocks", "f32,B1,H1,Tq6,Tk7,d2,mask=ranges2,seed=4",
       "the range alone"},
      {"tree_branches_equal_sequences",
       "f32,B1,H1,Tq6,Tk9,d2,mask=tree2,bias=normal.qk", "the branch alone"},
      {"tree_branches_equal_sequences",
       "f32,B1,H1,Tq6,Tk9,d2,mask=tree2,rope=half.7", "the branch alone"}};
  for (const auto& row : rows) {
    FakeExecutor right;
    EXPECT_EQ(check(row.law, row.text, right).verdict, Verdict::kPassed)
        << row.text;
    const Judgement judgement = fails(row.law, row.text, sees_all);
    EXPECT_NE(judgement.finding->actual.find(row.second), std::string::npos)
        << judgement.finding->actual;
  }
}

// Without the causal rule that a part needs, a row is a step of decoding.
TEST(OptionLaws, PartsNeedNoCausalRule) {
  JudgedKernel kernel = FakeExecutor::under_test().judged;
  kernel.info.capabilities.options &= ~QKVET_OPTION_CAUSAL_BOTTOM_RIGHT;
  const std::pair<const char*, const char*> rows[] = {
      {"prefix_equals_two_calls", ",mask=prefix2"},
      {"ranges_equal_blocks", ",mask=ranges2"},
      {"tree_branches_equal_sequences", ",mask=tree2"}};
  for (const auto& [law, mask] : rows) {
    const std::string text = "f32,B1,H1,Tq4,Tk6,d2" + std::string(mask);
    const Plan plan = find_law(law)->plan(*parse_case(text).value, kernel.info);
    ASSERT_GT(plan.calls.size(), 1u);
    for (const PlannedCall& call : plan.calls)
      EXPECT_EQ(call.variant.value_or(Case{}).causal, Causal::kNone);
    FakeExecutor right;
    EXPECT_EQ(check(law, text, right, kernel).verdict, Verdict::kPassed);
  }
}

// The first row is wrong, whichever member it belongs to.
TEST(OptionLaws, TheOrderOfPackedMembersIsSeen) {
  for (const char* page : {"", ",page=2"})
    fails("packed_order_changes_nothing",
          "f32,B1,H1,Tq5,Tk6,d2,cuq=0.2.5,cuk=0.3.6" + std::string(page), {},
          [](const KernelCall&, OracleOutput& oracle, CallOutcome&) {
            oracle.o[0] += 1;
          });
}

// Adds a trace of the data of a key that counts for nothing.
FakeExecutor::Answer leak_of_key(int64_t key) {
  return [key](const KernelCall& call, OracleOutput& oracle, CallOutcome&) {
    const double leaked =
        floats_as_doubles(call.k + key * call.shape.d * 4, 1)[0];
    for (double& o : oracle.o) o += 1e-6 * leaked;
  };
}

TEST(OptionLaws, WhatIsHiddenChangesNothing) {
  fails("poison_beyond_lengths_changes_nothing", "f32,B1,H1,Tq2,Tk4,d2,kvlen=3",
        {}, [](const KernelCall& call, OracleOutput& oracle, CallOutcome&) {
          if (!std::isnan(floats_as_doubles(call.k + 3 * 2 * 4, 1)[0]))
            oracle.o[0] = std::nextafter(static_cast<float>(oracle.o[0]), 9.0f);
        });
  fails("masked_keys_change_nothing", "f32,B1,H1,Tq2,Tk3,d2,mask=but1", {},
        leak_of_key(1));
  fails("masked_nonfinite_is_ignored", "f32,B1,H1,Tq2,Tk3,d2,mask=but1", {},
        leak_of_key(1));
}

TEST(OptionLaws, NonFiniteIsOnlyAskedOfThoseThatDeclareIt) {
  JudgedKernel kernel = FakeExecutor::under_test().judged;
  kernel.info.dialect.masked_nonfinite = QKVET_MASKED_NOT_IGNORED;
  const Case value = *parse_case("f32,B1,H1,Tq2,Tk3,d2,mask=but1").value;
  EXPECT_FALSE(find_law("masked_nonfinite_is_ignored")
                   ->plan(value, kernel.info)
                   .unsupported.empty());
}

TEST(OptionLaws, RowsWithoutAKeyFollowTheDialect) {
  const std::string law = "rows_without_a_key_follow_the_dialect";
  const std::string text = "f32,B1,H1,Tq2,Tk3,d2,mask=emptyrow0";
  fails(law, text, {},
        [](const KernelCall&, OracleOutput& oracle, CallOutcome&) {
          oracle.o[0] = 0;
        });
  fails(law, text, {},
        [](const KernelCall&, OracleOutput& oracle, CallOutcome&) {
          oracle.lse[0] = INFINITY;
        });
  // The same rows, hidden by a bias of -infinity.
  fails(law, text, {},
        [](const KernelCall& call, OracleOutput& oracle, CallOutcome&) {
          if (call.bias != nullptr) oracle.o[0] = 0;
        });
  JudgedKernel other = FakeExecutor::under_test().judged;
  other.info.dialect.empty_row_by_bias = QKVET_EMPTY_ROW_ZERO;
  FakeExecutor by_reason(
      {}, [](const KernelCall& call, OracleOutput& oracle, CallOutcome&) {
        if (call.bias != nullptr) oracle.o[0] = oracle.o[1] = 0;
      });
  EXPECT_EQ(check(law, text, by_reason, other).verdict, Verdict::kPassed);
  // The mean of the values below the length, not of all that are there.
  KernelUnderTest kernel = FakeExecutor::under_test();
  kernel.judged.info.dialect.empty_row = QKVET_EMPTY_ROW_MEAN;
  const Case value = *parse_case(text + ",kvlen=2").value;
  for (const int64_t keys : {2, 3}) {
    FakeExecutor mean(
        {}, [keys](const KernelCall& call, OracleOutput& oracle, CallOutcome&) {
          const auto v = floats_as_doubles(call.v, 4);
          for (size_t c = 0; c < 2; ++c)
            oracle.o[c] = (v[c] + v[c + 2]) / static_cast<double>(keys);
        });
    TimeUse time;
    EXPECT_EQ(check_case(*find_law(law), value, kernel.judged, 0, mean,
                         /*with_twin=*/false, time)
                  .verdict,
              keys == 2 ? Verdict::kPassed : Verdict::kFailed);
  }
}

// 0 for every reason but Tk = 0.
TEST(OptionLaws, EmptyExtentsHaveAWordOfTheirOwn) {
  JudgedKernel kernel = FakeExecutor::under_test().judged;
  kernel.info.dialect.empty_row = QKVET_EMPTY_ROW_ZERO;
  FakeExecutor oracle;  // NaN
  const std::string law = "empty_extents_are_legal";
  const std::string text = "f32,B1,H1,Tq2,Tk3,d2";
  EXPECT_EQ(check(law, text, oracle, kernel).verdict, Verdict::kFailed);
  kernel.info.dialect.empty_row_by_extent = QKVET_EMPTY_ROW_NAN;
  EXPECT_EQ(check(law, text, oracle, kernel).verdict, Verdict::kPassed);
}

TEST(OptionLaws, WhatIsMalformedIsAskedOneByOne) {
  const std::string law = "malformed_calls_are_refused";
  const struct {
    Mistake mistake;
    const char* options;
    const char* where;
  } rows[] = {
      {Mistake::kKeyWidth, "", "k with d + 1 channels"},
      {Mistake::kValueAbsent, "", "k without v"},
      {Mistake::kHeads, "", "v with one head more than k"},
      {Mistake::kInputRows, "", "v with one token more than k"},
      {Mistake::kMaskExtent, ",mask=random", "a mask of Tk + 1 keys"},
      {Mistake::kBiasExtent, ",bias=normal", "a bias of Tk + 1 keys"},
      {Mistake::kLengthsExtent, ",qlen=2",
       "one length or one start of a member too many"},
      {Mistake::kSlopesExtent, ",alibi=one.bh",
       "slopes of one head or one member too many"},
      {Mistake::kUnknownField, "", "a field that is set behind the known ones"},
      {Mistake::kOffsetsFall, ",cuq=0.2.3,cuk=0.2.3",
       "a member of a packed batch that begins behind its end"},
      {Mistake::kOffsetsStart, ",cuq=0.2.3,cuk=0.2.3",
       "a packed batch that begins at row 1"},
      {Mistake::kOffsetsEnd, ",cuq=0.2.3,cuk=0.2.3",
       "a packed batch that ends behind the last row"},
      {Mistake::kLengthNegative, ",kvlen=2", "a length of -1"},
      {Mistake::kLengthBeyond, ",qlen=2",
       "a length for which there are no rows"},
      {Mistake::kLengthsType, ",qlen=2",
       "lengths, or starts of members, in f32"},
      {Mistake::kLengthsRank, ",cuq=0.2.3,cuk=0.2.3",
       "lengths, or starts of members, of two dimensions"},
      {Mistake::kBothForms, ",cuq=0.2.3,cuk=0.2.3",
       "starts of members, and lengths beside them"},
      {Mistake::kPagesStart, ",page=2,table=csr",
       "a list of pages that begins at page 1"},
      {Mistake::kPagesEnd, ",page=2,table=csr",
       "a list of pages that ends behind its last entry"},
      {Mistake::kLastPageEmpty, ",page=2,table=csr",
       "a last page with no token"},
      {Mistake::kLastPageBeyond, ",page=2,table=csr",
       "a last page with more tokens than slots"},
      {Mistake::kBothTables, ",page=2,table=csr",
       "a list of pages, and a block table beside it"},
      {Mistake::kPagesFall, ",cuq=0.2.3,cuk=0.2.3,page=2,table=csr",
       "a list of pages in which a member begins behind its end"}};
  for (const auto& row : rows) {
    const std::string text = std::string("f32,B1,H2,Tq3,Tk3,d2") + row.options;
    const auto accepts = [&](const KernelCall& call, OracleOutput&,
                             CallOutcome& outcome) {
      if (call.mistake == row.mistake) outcome.status = CallStatus::kDone;
    };
    const Judgement accepted = fails(law, text, {}, accepts);
    EXPECT_EQ(accepted.finding->where, row.where);
    EXPECT_EQ(accepted.finding->actual, "accepted");
    const auto says_nothing = [&](const KernelCall& call, OracleOutput&,
                                  CallOutcome& outcome) {
      if (call.mistake == row.mistake) outcome.gave_reason = false;
    };
    EXPECT_EQ(fails(law, text, {}, says_nothing).finding->actual,
              "refused without a reason");
  }
  JudgedKernel kernel = FakeExecutor::under_test().judged;
  kernel.info.capabilities.flags &= ~QKVET_FLAG_REFUSES_MALFORMED;
  FakeExecutor claims_nothing;
  EXPECT_EQ(check(law, "f32,B1,H2,Tq3,Tk3,d2", claims_nothing, kernel).verdict,
            Verdict::kUnsupported);
}

// A row without a key changes from call to call where it is not judged.
TEST(OptionLaws, WhatNobodyLooksAtIsNotCompared) {
  JudgedKernel kernel = FakeExecutor::under_test().judged;
  const auto turns = [turn = 0](const KernelCall&, OracleOutput& oracle,
                                CallOutcome&) mutable {
    for (size_t row = 0; row < oracle.visible.size(); ++row)
      if (oracle.visible[row] <= 0)
        oracle.lse[row] = oracle.o[2 * row] =
            ++turn % 2 != 0 ? NAN : 1.0 * turn;
  };
  const std::string text = "f32,B1,H1,Tq3,Tk2,d2,causal=br,qlen=2";
  for (const char* law : {"reads_only_its_inputs", "empty_extents_are_legal"}) {
    const std::string own =
        law[0] == 'r' ? text : "f32,B1,H1,Tq3,Tk2,d2,causal=br";
    kernel.info.dialect.empty_row = QKVET_EMPTY_ROW_UNSPECIFIED;
    kernel.info.dialect.empty_row_lse = QKVET_EMPTY_LSE_UNSPECIFIED;
    FakeExecutor unspecified({}, turns);
    EXPECT_EQ(check(law, own, unspecified, kernel).verdict, Verdict::kPassed);
    kernel.info.dialect.empty_row = QKVET_EMPTY_ROW_NAN;
    FakeExecutor declared({}, turns);
    if (own != text) {
      EXPECT_EQ(check(law, own, declared, kernel).verdict, Verdict::kFailed);
    }
  }
}

TEST(OptionLaws, ASinkIsAllOfARowWithoutAKey) {
  // The oracle has 0 and the sink there, and NaN and -inf are declared.
  const std::string text = "f32,B1,H2,Tq3,Tk2,d2,causal=br,sink=normal";
  fails("agrees_with_oracle", text, {},
        [](const KernelCall&, OracleOutput& oracle, CallOutcome&) {
          oracle.o[0] = 1;
        });
  fails("agrees_with_oracle", text, {},
        [](const KernelCall&, OracleOutput& oracle, CallOutcome&) {
          oracle.lse[0] += 0.125;
        });
  fails("sink_joins_the_denominator", text + ",q=zero,v=one", {},
        [](const KernelCall&, OracleOutput& oracle, CallOutcome&) {
          oracle.o[0] = 1;
        });
}

TEST(OptionLaws, NanReachesItsRowAndNoOther) {
  const std::string law = "nan_reaches_its_row";
  const std::string text =
      "f32,B2,H2,Hkv1,Tq3,Tk4,d2,causal=br,bias=normal.hk,seed=5";
  // As the fused kernel of a library has it: 0 for a query of NaN.
  const auto zeroed = [](const KernelCall&, OracleOutput& oracle,
                         CallOutcome&) {
    for (double& o : oracle.o)
      if (std::isnan(o)) o = 0;
  };
  EXPECT_EQ(looks(fails(law, text, {}, zeroed)),
            "NaN in a query vanishes on its way");
  JudgedKernel declared = FakeExecutor::under_test().judged;
  declared.info.dialect.visible_nan = QKVET_VISIBLE_NAN_MAY_VANISH;
  EXPECT_FALSE(find_law(law)
                   ->plan(*parse_case(text).value, declared.info)
                   .unsupported.empty());
  // lse alone.
  fails(law, text, {},
        [](const KernelCall&, OracleOutput& oracle, CallOutcome&) {
          for (double& lse : oracle.lse)
            if (std::isnan(lse)) lse = 0;
        });
  // One row corrupts all.
  EXPECT_EQ(
      looks(fails(law, text, {},
                  [](const KernelCall&, OracleOutput& oracle, CallOutcome&) {
                    double sum = 0;
                    for (const double o : oracle.o) sum += o;
                    if (std::isnan(sum))
                      for (double& o : oracle.o) o = sum;
                  })),
      "NaN in a query reaches another row");
  // A row of one key may be its value.
  EXPECT_FALSE(find_law(law)
                   ->plan(*parse_case("f32,B1,H1,Tq3,Tk1,d2").value,
                          FakeExecutor::info())
                   .not_applicable.empty());
}

TEST(OptionLaws, EmptyExtentsAreLegal) {
  const std::string law = "empty_extents_are_legal";
  const std::string text = "f32,B1,H1,Tq2,Tk3,d2";
  fails(law, text, {},
        [](const KernelCall& call, OracleOutput& oracle, CallOutcome&) {
          if (call.shape.Tk == 0 && !oracle.o.empty()) oracle.o[0] = 0;
        });
  fails(law, text, {},
        [](const KernelCall& call, OracleOutput&, CallOutcome& outcome) {
          if (call.shape.B > 0) return;
          outcome.status = CallStatus::kRefused;
          outcome.text = "no members";
        });
  // An empty call that corrupts the next one.
  fails(law, text, {},
        [empty = false](const KernelCall& call, OracleOutput& oracle,
                        CallOutcome&) mutable {
          if (empty && !oracle.o.empty() && call.shape.Tk > 0) oracle.o[0] += 1;
          empty = call.shape.B == 0 || call.shape.Tq == 0;
        });
}

}  // namespace
}  // namespace qkvet::properties::option_law_test
