// SPDX-License-Identifier: Apache-2.0
#include "core/case/case.h"

#include <gtest/gtest.h>

#include "core/base/philox.h"
#include "core/testing/case_calls.h"

namespace qkvet::case_test {
namespace {

TEST(CaseText, ReadsTheExampleOfTheDesign) {
  const std::string text =
      "f32,B1,H4,Hkv2,Tq17,Tk33,d64,causal=br,k=onehot,seed=7";
  const Case c = parsed(text);
  EXPECT_EQ(c.shape, (Shape{1, 4, 2, 17, 33, 64, 64}));
  EXPECT_EQ(c.causal, Causal::kBottomRight);
  EXPECT_EQ(c.k.kind, RecipeKind::kOnehotN);
  EXPECT_EQ(c.seed, 7u);
  EXPECT_EQ(to_string(c), text);
}

TEST(CaseText, LeavesDefaultsOut) {
  EXPECT_EQ(to_string(parsed("seed=1,Hkv3,dv5,d5,Tk4,Tq2,H3,B1,f32,q=normal,"
                             "k=onehot0,v=cancelling8")),
            "f32,B1,H3,Tq2,Tk4,d5,k=onehot,v=cancelling");
}

TEST(CaseText, MixedTypesAndRecipesShareTheKeyQ) {
  const std::string text = "q=f32,kv=f16,o=f32,B1,H1,Tq1,Tk1,d40,q=zero";
  const Case c = parsed(text);
  EXPECT_EQ(c.kv_dtype, Dtype::kF16);
  EXPECT_EQ(c.q.kind, RecipeKind::kZero);
  EXPECT_EQ(to_string(c), text);
}

TEST(CaseText, BareCausalNeedsNoAlignmentWhereBothAgree) {
  EXPECT_EQ(to_string(parsed("f32,B1,H1,Tq2,Tk2,d1,causal")),
            "f32,B1,H1,Tq2,Tk2,d1,causal=br");
  expect_refused("", {{"f32,B1,H1,Tq2,Tk3,d1,causal", "causal=tl"}});
}

TEST(CaseText, PresetsAreShortForThreeRecipes) {
  EXPECT_EQ(to_string(parsed("f32,B1,H1,Tq1,Tk9,d2,data=count")),
            "f32,B1,H1,Tq1,Tk9,d2,q=zero,v=count");
}

TEST(CaseText, VersionOneMayBeWritten) {
  EXPECT_EQ(to_string(parsed("1,f32,B1,H1,Tq1,Tk1,d1")),
            "f32,B1,H1,Tq1,Tk1,d1");
  expect_refused("", {{"2,f32,B1,H1,Tq1,Tk1,d1", "reads version 1"}});
}

// Every error names the thing, what is wrong and what is allowed.
TEST(CaseText, BadInputGetsOneClearLine) {
  const std::string plain = "f32,B1,H1,Tq1,Tk1,d1";
  expect_refused(
      "",
      {
          {"", "empty case"},
          {"f32,B1,H1,Tq1,Tk1", "d is missing"},
          {"B1,H1,Tq1,Tk1,d1", "dtype is missing"},
          {plain + ",", "comma"},
          {"f32,,B1,H1,Tq1,Tk1,d1", "empty token"},
          {"f32,B1,H1,Tq,Tk1,d1", "Tq has no value"},
          {"f32,B1,H0,Tq1,Tk1,d1", "H0: allowed 1 .. 16777216"},
          {"f32,B-1,H1,Tq1,Tk1,d1", "B-1: allowed"},
          {"f32,B1,H1,Tq1,Tk99999999999999999999,d1", "allowed 0 .. 16777216"},
          {"f32,B1,H1,Tq1,Tk16777217,d1", "Tk16777217: allowed 0 .. 16777216"},
          {"f32,B4096,H4096,Tq4096,Tk1,d1", "more than 268435456 elements"},
          {"f32,B1,H16777216,Tq16777216,Tk16777216,d1", "more than"},
          {"f32,B1,H3,Hkv2,Tq1,Tk1,d1", "multiple of Hkv"},
          {plain + ",colour=red", "unknown key \"colour\""},
          {plain + ",X3", "unknown key \"X3\""},
          {plain + ",X3",
           "alibi=, qlen=, kvlen=, cuq=, cuk=, lens=, layout=, share=, "
           "values=, "
           "dropout=, "
           "page=, pages=, unowned=, table=, pool=, append="},
          {plain + ",B2", "B is given twice"},
          {"f32,f64,B1,H1,Tq1,Tk1,d1", "given twice"},
          {plain + ",seed=-3", "allowed 0 .. 18446744073709551615"},
          {plain + ",seed=18446744073709551616", "allowed 0"},
          {plain + ",seed=", "no value after"},
          {plain + ",scale=nan", "finite"},
          {plain + ",scale=1e99", "finite"},
          {plain + ",causal=left", "causal=tl"},
          {plain + ",k=gauss", "unknown recipe \"gauss\""},
          {plain + ",k=zero3", "takes no number"},
          {plain + ",k=large99", "is 0 .. 12"},
          {plain + ",data=foo", "unknown data"},
          {plain + ",k=zero,data=count", "one or the other"},
          {plain + ",kv=zero", "allowed after kv="},
          {plain + ",set=k.0.0.1.0:0x1p+0", "outside of k"},
          {plain + ",set=k.0.0.0.0:0x1p+200", "finite"},
          {plain + ",set=k.0.0.0:0x1p+0", "write set="},
          {plain + ",set=o.0.0.0.0:0x1p+0", "write set="},
          {plain + ",set=k.0.0.0.0:1.5", "write set="},
          {"f32 ,B1,H1,Tq1,Tk1,d1", "character 4 is not allowed"},
      });
  expect_refused("", {{std::string(5000, 'B'), "4096"}});
}

// A case drawn from every field that has a spelling.
Case random_case(uint32_t n) {
  const auto draw = [n](uint32_t field) { return philox_u64(11, n, field, 0); };
  Case c;
  constexpr Dtype kTypes[] = {Dtype::kF32, Dtype::kF64, Dtype::kBf16,
                              Dtype::kInt8};
  c.q_dtype = kTypes[draw(0) % 4];
  c.kv_dtype = draw(1) % 2 ? c.q_dtype : kTypes[draw(2) % 4];
  c.o_dtype = draw(3) % 2 ? c.q_dtype : kTypes[draw(4) % 4];
  const auto extent = [&](uint32_t f) {
    return static_cast<int64_t>(1 + draw(f) % 5);
  };
  c.shape.Hkv = extent(5);
  c.shape.H = c.shape.Hkv * extent(6);
  c.shape.B = extent(7);
  c.shape.Tq = extent(8);
  c.shape.Tk = extent(9);
  c.shape.d = extent(10);
  c.shape.dv = draw(11) % 2 ? c.shape.d : extent(12);
  c.causal = static_cast<Causal>(draw(13) % 3);
  if (draw(14) % 2)
    c.scale = static_cast<float>(static_cast<double>(draw(15)) * 0x1p-63 - 1);
  const auto recipe = [&](uint32_t f) {
    Recipe r = make_recipe(static_cast<RecipeKind>(draw(f) % kRecipeCount));
    if (recipe_text(r) == "onehot" || recipe_text(r) == "dominant")
      r.parameter = static_cast<int64_t>(draw(f + 1) % 5);
    return r;
  };
  c.q = recipe(16);
  c.k = recipe(18);
  c.v = recipe(20);
  c.seed = draw(22);
  for (uint64_t i = 0; i < draw(23) % 4; ++i)
    c.set.push_back(
        {TensorName::kQ,
         {0, 0, 0, 0},
         static_cast<double>(draw(24 + static_cast<uint32_t>(i))) * 0x1p-60 -
             3});
  return c;
}

TEST(CaseText, RoundTripIsTheIdentity) { expect_round_trips(random_case); }

// Control of the above: the comparison notices a change of any one field.
TEST(CaseText, DifferentCasesHaveDifferentSpellings) {
  const Case base = random_case(3);
  Case other = base;
  other.seed ^= 1;
  EXPECT_NE(to_string(base), to_string(other));
  other = base;
  other.v = make_recipe(base.v.kind == RecipeKind::kOne ? RecipeKind::kZero
                                                        : RecipeKind::kOne);
  EXPECT_NE(to_string(base), to_string(other));
}

// Text at random never crashes the parser, and every refusal is one line.
TEST(CaseText, RandomTextIsRefusedOrRead) {
  const std::string alphabet = "f3264,BHTqkvd=.:-0x1p+causlet[](),,==11";
  for (uint32_t n = 0; n < 50000; ++n) {
    std::string text = n % 2 ? "f32,B1,H1,Tq1,Tk1,d1," : "";
    const uint64_t length = philox_u64(5, n, 0, 1) % 24;
    for (uint32_t i = 0; i < length; ++i)
      text += alphabet[philox_u64(5, n, i, 2) % alphabet.size()];
    const ParsedCase result = parse_case(text);
    if (result.value) {
      ASSERT_EQ(invalid_reason(*result.value), "") << text;
      ASSERT_EQ(parse_case(to_string(*result.value)).value, result.value);
    } else {
      ASSERT_EQ(result.error.find('\n'), std::string::npos);
      ASSERT_FALSE(result.error.empty());
    }
  }
}

TEST(CaseData, ShrinkingAnExtentKeepsTheSurvivingValues) {
  const Case large = parsed("f32,B2,H4,Hkv2,Tq5,Tk6,d7,dv3,seed=9");
  const Case small = parsed("f32,B1,H2,Hkv1,Tq3,Tk4,d5,dv2,seed=9");
  const Inputs a = make_inputs(large);
  const Inputs b = make_inputs(small);
  for (int64_t t = 0; t < 4; ++t)
    for (int64_t c = 0; c < 5; ++c)
      EXPECT_EQ(a.k[static_cast<size_t>(t * 7 + c)],
                b.k[static_cast<size_t>(t * 5 + c)]);
  for (int64_t h = 0; h < 2; ++h)
    EXPECT_EQ(a.q[static_cast<size_t>(h * 5 * 7)],
              b.q[static_cast<size_t>(h * 3 * 5)]);
}

TEST(CaseData, SetReplacesOneValue) {
  const Case c = parsed("f32,B1,H2,Tq2,Tk3,d2,v=zero,set=v.0.1.2.1:0x1.8p+1");
  const Inputs inputs = make_inputs(c);
  for (size_t i = 0; i < inputs.v.size(); ++i)
    EXPECT_EQ(inputs.v[i], i == 11 ? 3.0 : 0.0);
}

// Frozen: golden sets and corpora depend on the data of a case.
TEST(CaseData, DigestIsTheSameOnEveryMachine) {
  const std::string text = "f32,B1,H2,Hkv1,Tq3,Tk5,d4";
  EXPECT_EQ(input_digest(inputs_of(text)), 0x22e10344u);
  EXPECT_NE(input_digest(inputs_of(text + ",seed=2")), 0x22e10344u);
}

}  // namespace
}  // namespace qkvet::case_test
