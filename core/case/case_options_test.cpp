// SPDX-License-Identifier: Apache-2.0
// The spelling of the options of attention.
#include "core/case/case_options.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/philox.h"
#include "core/testing/case_calls.h"

namespace qkvet::case_options_test {
namespace {

const std::string kPlain = "f32,B2,H2,Tq4,Tk5,d3";

Case with(const std::string& options) { return parsed(kPlain + "," + options); }

// Every refusal is one line with the expected spelling.
void expect_wrong(const Refusals& rows) { expect_refused(kPlain + ",", rows); }

TEST(OptionText, EveryOptionIsReadAndPrinted) {
  const char* const texts[] = {"window=3.0",
                               "window=-1.2",
                               "window=-1.-1",
                               "mask=random",
                               "mask=random30",
                               "mask=random30.qk",
                               "mask=random0.k",
                               "mask=random100",
                               "mask=band2.bq",
                               "mask=only3.h",
                               "mask=but.bhq",
                               "mask=emptyrow1.q",
                               "mask=padding2.bk",
                               "mask=padding",
                               "mask=prefix",
                               "mask=prefix0.bqk",
                               "mask=ranges3.qk",
                               "mask=docs",
                               "mask=docs1.bqk",
                               "mask=chunk512",
                               "mask=tree",
                               "mask=tree2.qk",
                               "bias=normal",
                               "bias=large5.k",
                               "bias=masking",
                               "bias=masking309.qk",
                               "bias=raised9.k",
                               "calls=a",
                               "calls=aof260aexnwm",
                               "bias=small.hqk",
                               "softcap=2.5",
                               "softcap=1e-30",
                               "sink=normal",
                               "sink=large4",
                               "alibi=one",
                               "alibi=descending2",
                               "alibi=one.bh",
                               "alibi=large2.bh",
                               "alibi=one.bh,qlen=4.0,lens=i32",
                               "qlen=4.0",
                               "kvlen=0.5",
                               "qlen=1.2,kvlen=3.4",
                               "layout=bthd",
                               "layout=gaps",
                               "share=b",
                               "share=h",
                               "share=bh",
                               "share=b,dropout=0.1",
                               "layout=gaps,values=keys",
                               "values=keys,page=4"};
  for (const char* const text : texts) {
    const Case c = with(text);
    EXPECT_EQ(to_string(c), kPlain + "," + text);
    EXPECT_NE(c, parsed(kPlain)) << text;
    // Layers and stories also have a layout.
    if (c.layout == Layout::kBhtd) {
      EXPECT_NE(first_option(c), "") << text;
    }
  }
}

TEST(OptionText, FieldsAreTheOnesThatWereSpelled) {
  const Case c = with(
      "share=h,layout=gaps,kvlen=5.1,qlen=4.2,alibi=one,sink=zero,softcap=50,"
      "bias=small.bk,mask=random30.qk,window=3.-1");
  EXPECT_EQ(c.window, (Window{3, -1}));
  EXPECT_EQ(c.mask, (Mask{MaskKind::kRandomN, 30, kOwnQ | kOwnK}));
  EXPECT_EQ(c.score_bias, make_recipe(RecipeKind::kSmall));
  EXPECT_EQ(c.score_bias_own, kOwnB | kOwnK);
  EXPECT_EQ(c.softcap, 50);
  EXPECT_EQ(c.sink, make_recipe(RecipeKind::kZero));
  EXPECT_EQ(c.slopes, make_recipe(RecipeKind::kOne));
  EXPECT_EQ(c.q_len, (std::vector<int64_t>{4, 2}));
  EXPECT_EQ(c.kv_len, (std::vector<int64_t>{5, 1}));
  EXPECT_EQ(c.layout, Layout::kGaps);
  EXPECT_EQ(c.share, kShareH);
  EXPECT_EQ(to_string(c),
            kPlain +
                ",window=3.-1,mask=random30.qk,bias=small.bk,softcap=50,"
                "sink=zero,alibi=one,qlen=4.2,kvlen=5.1,layout=gaps,share=h");
}

TEST(OptionText, DefaultsAreLeftOut) {
  EXPECT_EQ(to_string(with("mask=random50.bhqk,bias=normal.bhqk,"
                           "alibi=one.h,layout=bhtd")),
            kPlain + ",mask=random,bias=normal,alibi=one");
  // Between the scale and the data.
  EXPECT_EQ(to_string(with("k=zero,scale=2,seed=3,mask=only0")),
            kPlain + ",scale=2,mask=only,k=zero,seed=3");
}

TEST(OptionText, PackedBatches) {
  const std::string text =
      "f32,B1,H2,Hkv1,Tq9,Tk12,d3,cuq=0.3.3.8,cuk=0.5.5.12,layout=bthd";
  const Case c = parsed(text);
  EXPECT_EQ(c.cu_q, (std::vector<int64_t>{0, 3, 3, 8}));
  EXPECT_EQ(counted_queries(c, 0), 8);
  EXPECT_EQ(counted_keys(c, 0), 12);
  expect_canonical("", {text, "f16,B2,H4,Hkv2,Tq3,Tk3,d8,layout=packed"});
}

TEST(OptionText, EmptyExtents) {
  expect_canonical("",
                   {"f32,B0,H2,Tq4,Tk5,d3", "f32,B2,H2,Tq0,Tk5,d3",
                    "f32,B2,H2,Tq4,Tk0,d3", "f32,B0,H2,Tq0,Tk0,d3,causal=br",
                    "f32,B2,H2,Tq4,Tk0,d3,mask=only.bhq,kvlen=0.0",
                    "f32,B1,H2,Tq0,Tk4,d3,cuq=0.0,cuk=0.4"});
}

TEST(OptionText, SequencesOfCallsAreReadAndRefused) {
  const Case c = with("calls=aao2oaf3");
  EXPECT_EQ(c.calls, (CallSequence{{CallStepKind::kAsIs, 2},
                                   {CallStepKind::kOther, 3},
                                   {CallStepKind::kAsIs, 1},
                                   {CallStepKind::kFew, 3}}));
  EXPECT_EQ(to_string(c), kPlain + ",calls=a2o3af3");
  expect_wrong({{"calls=", "no value"},
                {"calls=b", "letters of aoexnwmf"},
                {"calls=3a", "letters of aoexnwmf"},
                {"calls=a0", "2 .. 1000"},
                {"calls=a1001", "2 .. 1000"},
                {"calls=a600a600", "2 .. 1000"},
                {"calls=aoaoaoaoaoaoaoaoaoaoaoaoaoaoaoaoa", "up to 32"}});
}

TEST(OptionText, ValuesInKeysStandAlone) {
  expect_wrong({{"values=k", "allowed values=keys"},
                {"values=keys,v=one", "v= and set=v have no place"},
                {"values=keys,set=v.0.0.0.0:0x1p+1", "v= and set=v"},
                {"values=keys,share=b", "v is no tensor of its own"},
                {"values=keys,append=1", "bring values of their own"},
                {"values=keys,layout=far", "values=keys: they are in k"},
                {"values=keys,backward", "backward has no values="}});
  expect_refused(
      "", {{"f32,B1,H1,Tq1,Tk1,d2,dv3,values=keys", "dv3 is more than d2"}});
}

TEST(OptionText, RecipesOfABiasAreOfNothingElse) {
  expect_wrong({{"k=masking", "of the bias of a forward call"},
                {"sink=masking9", "of the bias of a forward call"},
                {"alibi=raised", "of the bias of a forward call"},
                {"bias=masking,backward", "of the bias of a forward call"},
                {"bias=masking310", "is 0 .. 309"}});
  parsed("f32,B3,H2,Tk2,dv8,merge,bias=masking");
  // A number beyond the type's range becomes the type's last number.
  for (const auto& [type, lowest] : {std::pair{"f16", -65504.0},
                                     {"bf16", -0x1.fep127},
                                     {"f32", -0x1.fffffep127},
                                     {"f64", -0x1.fffffffffffffp1023}}) {
    const Inputs inputs =
        inputs_of(std::string(type) + ",B1,H1,Tq9,Tk9,d2,bias=masking309");
    EXPECT_EQ(*std::min_element(inputs.bias.begin(), inputs.bias.end()),
              lowest);
  }
}

TEST(OptionText, BadMasksAndRecipesGetOneClearLine) {
  expect_wrong({
      {"window=3", "write window=LEFT.RIGHT"},
      {"window=3.0.1", "write window=LEFT.RIGHT"},
      {"window=a.b", "write window=LEFT.RIGHT"},
      {"window=3.", "write window=LEFT.RIGHT"},
      {"window=-2.0", "window=-2.0: both sides are -1 .. 4611686018427387904"},
      {"window=0.4611686018427387905",
       "both sides are -1 .. 4611686018427387904"},
      {"window=1.1,window=1.1", "window is given twice"},
      {"mask=", "no value after"},
      {"mask=none", "unknown mask \"none\"; allowed: random band only but"},
      {"mask=noise3", "unknown mask \"noise3\""},
      {"mask=trees", "emptyrow padding prefix ranges docs chunk tree file"},
      {"mask=docs-1", "unknown mask \"docs-1\""},
      {"mask=tree16777217", "the number after tree is 0 .. 16777216"},
      {"mask=tree0.1.2", "letters of b h q k, in this order"},
      {"mask=random101", "mask=random101: the number after random is 0 .. 100"},
      {"mask=band16777217", "the number after band is 0 .. 16777216"},
      {"mask=band99999999999999999999", "the number after band is 0 .."},
      {"mask=only1x", "the number after only is 0 .."},
      {"mask=random30.", "letters of b h q k, in this order"},
      {"mask=random30.x", "letters of b h q k"},
      {"mask=random30.kq", "in this order"},
      {"mask=random30.qq", "letters of b h q k"},
      {"mask=random30,mask=band", "mask is given twice"},
      {"bias=loud", "unknown recipe \"loud\""},
      {"bias=zero3", "takes no number"},
      {"bias=normal.", "letters of b h q k"},
      {"bias=normal.hb", "in this order"},
      {"bias=normal,bias=one", "bias is given twice"},
      {"softcap=0", "the softcap must be finite and above 0"},
      {"softcap=-1", "the softcap must be finite and above 0"},
      {"softcap=inf", "the softcap must be finite and above 0"},
      {"softcap=nan", "the softcap must be finite and above 0"},
      {"softcap=much", "the softcap must be finite and above 0"},
      {"sink=loud", "unknown recipe"},
      {"alibi=loud", "unknown recipe"},
  });
}

TEST(OptionText, BadLengthsLayoutsAndValuesGetOneClearLine) {
  expect_wrong({
      {"qlen=3", "qlen=3: one number for each of B2"},
      {"qlen=3.0.1", "one number for each of B2"},
      {"qlen=3.5", "qlen=3.5: allowed 0 .. 4 (Tq)"},
      {"qlen=3.-1", "allowed 0 .. 4 (Tq)"},
      {"qlen=3.x", "numbers with dots between, for example qlen=3.0.7"},
      {"kvlen=6.0", "kvlen=6.0: allowed 0 .. 5 (Tk)"},
      {"kvlen=1.", "numbers with dots between"},
      {"cuq=0.3,cuk=0.3", "B2: a packed batch (cuq=, cuk=) is one member"},
      {"layout=bhdt",
       "allowed layout=bthd, layout=packed, layout=gaps, layout=apart, "
       "layout=far"},
      {"layout=packed", "Tq = Tk, dv = d and one storage type are needed"},
      {"share=k", "allowed share=b, h or bh"},
      {"share=hb", "allowed share=b, h or bh"},
      {"set=bias.0.0.0.0:0x1p+0", "the case has no bias"},
      {"set=sink.0:0x1p+0", "the case has no sink"},
      {"set=alibi.0:0x1p+0", "the case has no slopes"},
      {"set=slopes.0:0x1p+0", "write set="},
      {"mask=random,set=mask.0.0.0.0:0x1p+0", "write set="},
      {"qlen=1.1,set=q_len.0:0x1p+0", "write set="},
      {"bias=one.k,set=bias.0.0.1.0:0x1p+0", "outside of bias"},
      {"bias=one.k,set=bias.0.0.0.5:0x1p+0", "outside of bias"},
      {"sink=one,set=sink.2:0x1p+0", "outside of sink"},
      {"alibi=one,set=alibi.0.0:0x1p+0", "write set=alibi.h:HEX"},
      {"alibi=one.bh,set=alibi.0:0x1p+0", "write set=alibi.b.h:HEX"},
      {"alibi=one.bh,set=alibi.2.0:0x1p+0", "set=alibi.2.0:0x1p+0: index"},
      {"alibi=one.bh,set=alibi.0.2:0x1p+0", "outside of slopes"},
      {"alibi=one.b",
       "allowed after the dot is h, one slope for each head, or"},
      {"alibi=one.", "allowed after the dot is h"},
      {"alibi=one.hb", "allowed after the dot is h"},
      {"share=b,set=k.1.0.0.0:0x1p+0", "outside of k"},
      {"share=h,set=v.0.1.0.0:0x1p+0", "outside of v"},
  });
}

TEST(OptionText, BadPackedBatchesGetOneClearLine) {
  expect_refused(
      "f32,B1,H2,Tq4,Tk5,d3,",
      {{"cuq=0.3", "cuk= is missing"},
       {"cuk=0.3", "cuq= is missing"},
       {"cuq=0.3,cuk=0.3,qlen=1", "has no qlen= and kvlen="},
       {"cuq=0.3,cuk=0.3,kvlen=1", "has no qlen= and kvlen="},
       {"cuq=0,cuk=0", "cuq= has 1 numbers: allowed 2 .. 65"},
       {"cuq=1.3,cuk=0.3", "cuq=1.3: the first member begins at 0"},
       {"cuq=0.3.2,cuk=0.1.2", "cuq=0.3.2: the numbers must not fall"},
       {"cuq=0.5,cuk=0.1", "cuq=0.5: ends at most at 4 (Tq)"},
       {"cuq=0.4,cuk=0.6", "cuk=0.6: ends at most at 5 (Tk)"},
       {"cuq=0.4,cuk=0.2.5", "cuq= has 2 numbers and cuk= 3"},
       {"cuq=0.a,cuk=0.2", "for example cuq=0.3.3.8"},
       {"layout=packed", "one buffer [B,T,H+2Hkv,d]"}});
  std::string many = "f32,B65,H1,Tq1,Tk1,d1,qlen=1";
  for (int i = 1; i < 65; ++i) many += ".1";
  expect_refused("", {{many, "at most 64 are allowed"},
                      {"f32,B1,H2,Tq5,Tk5,d3,dv2,layout=packed",
                       "one buffer [B,T,H+2Hkv,d]"},
                      {"q=f32,kv=f16,o=f32,B1,H2,Tq5,Tk5,d3,layout=packed",
                       "one buffer [B,T,H+2Hkv,d]"},
                      {"f32,B1,H2,Tq5,Tk5,d3,layout=packed,share=h",
                       "share= needs another layout"}});
}

// Layers have none of them. Stories have those of creating a cache and of its
// steps, from text or built.
TEST(OptionText, LayersAndStoriesHaveNoOptions) {
  const std::pair<const char*, const char*> options[] = {
      {"window=1.1", "window"}, {"mask=random", "mask"},
      {"softcap=1", "softcap"}, {"sink=one", "sink"},
      {"alibi=one", "alibi"},   {"qlen=1", "qlen"},
      {"kvlen=1", "kvlen"},     {"cuq=0.1", "cuq"},
      {"cuk=0.1", "cuk"},       {"share=b", "share"}};
  const std::string layer = "f32,B1,H1,T2,D2";
  const std::string story = "f32,B1,H1,d2,cap4,story=step.a.2";
  for (const std::string& one : {layer, story}) {
    for (const char* layout : {"gaps", "apart", "turned"})
      EXPECT_EQ(parse_case(one + ",layout=" + layout).error, "") << layout;
    for (const char* layout : {"bthd", "packed", "far"})
      EXPECT_EQ(parse_case(one + ",layout=" + layout).error,
                "case: a layer and a story have layout=gaps, apart or turned")
          << layout;
  }
  for (const auto& [text, key] : options) {
    EXPECT_EQ(parse_case(layer + "," + text).error,
              "case: a layer has no " + std::string(key));
    const bool of_stories =
        key == std::string("softcap") || key == std::string("sink") ||
        key == std::string("alibi") || key == std::string("mask");
    EXPECT_EQ(parse_case(story + "," + text).error,
              of_stories ? "" : "case: a story has no " + std::string(key));
  }
  expect_canonical("f32,B1,H1,d2,cap4,",
                   {"mask=random30.hqk,bias=small.k,softcap=2,sink=one,"
                    "alibi=lattice,story=step.a.2"});
  for (const char* bad :
       {",alibi=one.bh", ",softcap=-1", ",sink=masking2", ",mask=random101",
        ",mask=file", ",bias=one,set=bias.0.0.0.0:0x1p+0"})
    EXPECT_NE(parse_case(story + bad).error, "") << bad;
  expect_refused(layer, {{",bias=one.k", "a recipe alone"}});
  Case built = parsed(layer);
  built.mask = {MaskKind::kBandN, 1, kOwnAll};
  EXPECT_EQ(invalid_reason(built), "a layer has no mask");
  built = parsed(story);
  built.share = kShareB;
  EXPECT_EQ(invalid_reason(built), "a story has no share");
  EXPECT_EQ(parse_case(layer + ",bias=one").value->bias,
            make_recipe(RecipeKind::kOne));
  EXPECT_EQ(parse_case("f32,B0,H1,T2,D2").error,
            "case: B0: allowed 1 .. 16777216");
}

// A case without a spelling is invalid.
TEST(OptionText, CasesThatCannotBeSpelledAreInvalid) {
  const std::pair<void (*)(Case&), const char*> rows[] = {
      {[](Case& c) { c.mask.parameter = 3; }, "no mask has a number"},
      {[](Case& c) { c.mask.own = kOwnK; }, "no mask has a number"},
      {[](Case& c) {
         c.mask = {MaskKind::kBandN, -1, kOwnAll};
       },
       "0 .. 167"},
      {[](Case& c) {
         c.mask = {MaskKind::kBandN, 1, 0};
       },
       "at least one"},
      {[](Case& c) { c.score_bias_own = kOwnK; }, "no bias has extents"},
      {[](Case& c) {
         c.score_bias = Recipe{};
         c.score_bias_own = 0;
       },
       "at least one"},
      {[](Case& c) { c.softcap = -1; }, "softcap=-1: must be finite"},
      {[](Case& c) { c.share = 4; }, "share= takes b, h or bh"},
      {[](Case& c) { c.layout = static_cast<Layout>(7); }, "no such layout"},
      {[](Case& c) { c.o_dtype = Dtype::kUint8; }, "uint8: no storage type"},
      {[](Case& c) { c.q_dtype = Dtype::kInt64; }, "int64: no storage type"},
  };
  const Case plain = parsed(kPlain);
  EXPECT_EQ(invalid_reason(plain), "");
  for (const auto& [spoil, expected] : rows) {
    Case c = plain;
    spoil(c);
    EXPECT_NE(invalid_reason(c).find(expected), std::string::npos)
        << expected << ": " << invalid_reason(c);
  }
  EXPECT_FALSE(parse_case("uint8,B1,H1,Tq1,Tk1,d1").value);
  EXPECT_FALSE(parse_case("q=int64,kv=f32,o=f32,B1,H1,Tq1,Tk1,d1").value);
}

// Options at random, on extents that may be empty.
Case random_case(uint32_t n) {
  const auto draw = [n](uint32_t field) { return philox_u64(17, n, field, 0); };
  const auto below = [&](uint32_t field, int64_t limit) {
    return static_cast<int64_t>(draw(field) % static_cast<uint64_t>(limit));
  };
  const auto recipe = [&](uint32_t field) {
    return make_recipe(static_cast<RecipeKind>(below(field, kRecipeCount)));
  };
  Case c;
  const bool packed_batch = draw(0) % 3 == 0;
  c.shape = {
      packed_batch ? 1 : below(1, 4), 4, 2, below(2, 6), below(3, 6), 2, 2};
  if (draw(4) % 2) c.window = Window{below(5, 5) - 1, below(6, 5) - 1};
  if (draw(7) % 2)
    c.mask = {static_cast<MaskKind>(1 + below(8, kMaskKindCount - 1)),
              below(9, 101), static_cast<uint8_t>(1 + below(10, 15))};
  if (draw(11) % 2) {
    c.score_bias = recipe(12);
    c.score_bias_own = static_cast<uint8_t>(1 + below(13, 15));
  }
  if (draw(14) % 2)
    c.softcap = static_cast<float>(1 + below(15, 1 << 20)) / 1000;
  if (draw(16) % 2) c.sink = recipe(17);
  if (draw(18) % 2) c.slopes = recipe(19);
  c.member_slopes = c.slopes && draw(47) % 2 == 0;
  const auto members = [&](uint32_t field, int64_t extent) {
    std::vector<int64_t> ends = {0};
    for (uint32_t i = 0; i < 3; ++i)
      ends.push_back(below(field + i, extent + 1));
    std::sort(ends.begin(), ends.end());
    return ends;
  };
  if (packed_batch) {
    c.cu_q = members(20, c.shape.Tq);
    c.cu_k = members(23, c.shape.Tk);
  } else {
    for (uint32_t b = 0; b < c.shape.B && draw(26) % 2; ++b)
      c.q_len.push_back(below(27 + b, c.shape.Tq + 1));
    for (uint32_t b = 0; b < c.shape.B && draw(31) % 2; ++b)
      c.kv_len.push_back(below(32 + b, c.shape.Tk + 1));
  }
  c.int32_lengths = gives_lengths(c) && draw(46) % 2 == 0;
  c.layout = static_cast<Layout>(below(36, kLayoutCount));
  if (c.layout == Layout::kPacked && c.shape.Tq != c.shape.Tk)
    c.layout = Layout::kGaps;
  if (c.layout != Layout::kPacked) c.share = static_cast<uint8_t>(below(37, 4));
  if (c.sink && draw(38) % 2)
    c.set.push_back({TensorName::kSink, {below(39, 4)}, 0.5});
  const int64_t sets_of_slopes = tensor_extents(c, TensorName::kSlopes)[0];
  if (c.slopes && sets_of_slopes > 0 && draw(40) % 2)
    c.set.push_back(
        {TensorName::kSlopes, {below(48, sets_of_slopes), below(41, 4)}, -2});
  const auto extents = tensor_extents(c, TensorName::kBias);
  if (c.score_bias && *std::min_element(extents.begin(), extents.end()) > 0)
    c.set.push_back({TensorName::kBias,
                     {below(42, extents[0]), below(43, extents[1]),
                      below(44, extents[2]), below(45, extents[3])},
                     1.25});
  return c;
}

TEST(OptionText, RoundTripIsTheIdentity) {
  int with_options = 0;
  expect_round_trips([&](uint32_t n) {
    const Case c = random_case(n);
    with_options += !first_option(c).empty();
    return c;
  });
  EXPECT_GT(with_options, 15000);
}

// Control of the above: no option is left out of the text.
TEST(OptionText, EveryFieldChangesTheText) {
  void (*const changes[])(Case&) = {[](Case& c) { c.window = Window{}; },
                                    [](Case& c) {
                                      c.window = Window{0, 7};
                                    },
                                    [](Case& c) {
                                      c.mask = {MaskKind::kOnlyN, 0, kOwnAll};
                                    },
                                    [](Case& c) {
                                      c.mask = {MaskKind::kOnlyN, 1, kOwnAll};
                                    },
                                    [](Case& c) {
                                      c.mask = {MaskKind::kOnlyN, 1, kOwnQ};
                                    },
                                    [](Case& c) { c.score_bias = Recipe{}; },
                                    [](Case& c) { c.softcap = 3; },
                                    [](Case& c) { c.sink = Recipe{}; },
                                    [](Case& c) { c.slopes = Recipe{}; },
                                    [](Case& c) {
                                      c.slopes = Recipe{};
                                      c.member_slopes = true;
                                    },
                                    [](Case& c) {
                                      c.q_len = {1, 1};
                                    },
                                    [](Case& c) {
                                      c.kv_len = {1, 1};
                                    },
                                    [](Case& c) { c.layout = Layout::kGaps; },
                                    [](Case& c) { c.share = kShareH; }};
  std::vector<std::string> texts = {kPlain};
  for (const auto change : changes) {
    Case c = parsed(kPlain);
    change(c);
    texts.push_back(to_string(c));
  }
  std::sort(texts.begin(), texts.end());
  EXPECT_EQ(std::adjacent_find(texts.begin(), texts.end()), texts.end());
}

}  // namespace
}  // namespace qkvet::case_options_test
