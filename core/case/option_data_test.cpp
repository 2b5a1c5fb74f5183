// SPDX-License-Identifier: Apache-2.0
// The tensors of the options of attention, and their effect on q, k, v.
#include "core/case/option_data.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "core/testing/case_calls.h"

namespace qkvet::option_data_test {
namespace {

// One line per row of Tq, members and heads one after another.
std::string picture(std::string_view text) {
  const Case c = parsed(text);
  const std::vector<uint8_t> mask = full_mask(c, make_inputs(c));
  EXPECT_EQ(mask.size(), static_cast<size_t>(c.shape.weights_elements()));
  std::string rows;
  for (size_t i = 0; i < mask.size(); ++i) {
    rows += mask[i] != 0 ? '1' : '0';
    if ((i + 1) % static_cast<size_t>(c.shape.Tk) == 0) rows += ' ';
  }
  return rows;
}

TEST(MaskData, EveryKindByHand) {
  const std::pair<const char*, const char*> rows[] = {
      {"mask=band0", "1000 0100 0010 "},
      {"mask=band", "1100 1110 0111 "},
      {"mask=band2.qk", "1110 1111 1111 "},
      {"mask=only2", "0010 0010 0010 "},
      {"mask=only5", "0100 0100 0100 "},  // 5 % Tk
      {"mask=but1", "1011 1011 1011 "},
      {"mask=emptyrow1", "1111 0000 1111 "},
      {"mask=emptyrow5", "1111 1111 0000 "},  // 5 % Tq
      {"mask=padding", "1110 1110 1110 "},
      {"mask=padding3", "1000 1000 1000 "},
      {"mask=padding4", "0000 0000 0000 "},
      {"mask=padding9", "0000 0000 0000 "},
      {"mask=padding0", "1111 1111 1111 "},
      {"mask=random0", "0000 0000 0000 "},
      {"mask=random100", "1111 1111 1111 "},
      // A broadcast extent counts as index 0.
      {"mask=band1.k", "1100 1100 1100 "},
      {"mask=band1.q", "1111 1111 0000 "},
      {"mask=band1.bh", "1111 1111 1111 "},
      {"mask=only2.q", "0000 0000 0000 "},
      {"mask=only4.q", "1111 1111 1111 "},
      {"mask=emptyrow0.k", "0000 0000 0000 "},
      {"mask=emptyrow1.k", "1111 1111 1111 "},
      {"mask=padding4.b", "0000 0000 0000 "},
      {"mask=padding3.b", "1111 1111 1111 "}};
  for (const auto& [mask, expected] : rows)
    EXPECT_EQ(picture("f32,B1,H1,Tq3,Tk4,d1," + std::string(mask)), expected)
        << mask;
  const Case c = parsed("f32,B1,H1,Tq3,Tk4,d1");
  EXPECT_TRUE(full_mask(c, make_inputs(c)).empty());
  EXPECT_TRUE(full_bias(c, make_inputs(c)).empty());
}

// Row i is token i + Tk - Tq.
TEST(MaskData, TextsByHand) {
  const std::pair<const char*, const char*> rows[] = {
      {"Tq4,Tk4,d1,mask=prefix0", "1000 1100 1110 1111 "},
      {"Tq4,Tk4,d1,mask=prefix2", "1100 1100 1110 1111 "},
      {"Tq2,Tk4,d1,mask=prefix3", "1110 1111 "},
      {"Tq4,Tk2,d1,mask=prefix1", "10 10 10 11 "},
      {"Tq2,Tk4,d1,mask=prefix", "1111 1111 "},
      {"Tq4,Tk4,d1,mask=chunk2", "1100 1100 0011 0011 "},
      {"Tq3,Tk5,d1,mask=chunk3", "11100 00011 00011 "},
      {"Tq4,Tk2,d1,mask=chunk1", "00 00 10 01 "},
      {"Tq2,Tk3,d1,mask=chunk0", "111 111 "},
      {"Tq3,Tk4,d1,mask=docs0", "1111 1111 1111 "},
      {"Tq3,Tk4,d1,mask=docs1", "0100 0010 0001 "},
      {"Tq3,Tk4,d1,mask=ranges1", "1100 1110 1111 "},
      // A history of one key and a chain; two children each; no history.
      {"Tq3,Tk4,d1,mask=tree1", "1100 1110 1111 "},
      {"Tq5,Tk6,d1,mask=tree2", "110000 111000 110100 111010 111001 "},
      {"Tq3,Tk3,d1,mask=tree2", "100 110 101 "},
      // Drafts without a key of their own, and those that follow them.
      {"Tq4,Tk2,d1,mask=tree2", "00 00 10 01 "},
      // A broadcast extent counts as row, or key, 0.
      {"Tq2,Tk4,d1,mask=chunk2.k", "0011 0011 "},
      {"Tq2,Tk4,d1,mask=prefix1.q", "1111 1111 "}};
  for (const auto& [mask, expected] : rows)
    EXPECT_EQ(picture("f32,B1,H1," + std::string(mask)), expected) << mask;
}

// Documents of drawn lengths, and ranges that are seen both ways: they are the
// same for every row and head and differ between members, and a border stays
// where it is when an extent shrinks.
TEST(MaskData, DocumentsAndRangesAreOfOneText) {
  const Case docs = parsed("f32,B2,H2,Tq9,Tk40,d1,mask=docs5,seed=3");
  const std::vector<uint8_t> mask = full_mask(docs, make_inputs(docs));
  const auto row = [&](int64_t b, int64_t h, int64_t i) {
    return std::vector<uint8_t>(mask.begin() + ((b * 2 + h) * 9 + i) * 40,
                                mask.begin() + ((b * 2 + h) * 9 + i + 1) * 40);
  };
  EXPECT_EQ(row(0, 0, 0), row(0, 1, 0));
  EXPECT_NE(row(0, 0, 0), row(1, 0, 0));
  int64_t borders = 0;
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t i = 0; i < 9; ++i) {
      const TokenRange range = range_of_token(docs, b, i + 31);
      EXPECT_LE(range.from, i + 31);
      EXPECT_GT(range.end, i + 31);
      borders += i > 0 && range.from == i + 31;
      for (int64_t j = 0; j < 40; ++j)
        EXPECT_EQ(row(b, 0, i)[static_cast<size_t>(j)],
                  range.from <= j && j < range.end);
    }
  EXPECT_GT(borders, 0);
  Case shorter = docs;
  shorter.shape.Tk = 33;
  EXPECT_EQ(range_of_token(shorter, 0, 20).from,
            range_of_token(docs, 0, 20).from);

  const Case ranges = parsed("f32,B1,H1,Tq40,Tk40,d1,mask=ranges4,seed=3");
  const std::vector<uint8_t> seen = full_mask(ranges, make_inputs(ranges));
  int64_t both = 0, ahead = 0;
  for (int64_t i = 0; i < 40; ++i) {
    const TokenRange range = range_of_token(ranges, 0, i);
    both += range.both_ways;
    for (int64_t j = 0; j < 40; ++j) {
      const bool sees = seen[static_cast<size_t>(i * 40 + j)] != 0;
      ahead += j > i && sees;
      EXPECT_EQ(sees, j <= i || (range.both_ways && j < range.end));
    }
  }
  EXPECT_GT(both, 0);
  EXPECT_LT(both, 40);
  EXPECT_GT(ahead, 0);
}

TEST(MaskData, DraftsFollowOneAnother) {
  const Case tree = parsed("f32,B2,H1,Tq30,Tk33,d1,mask=tree,seed=5");
  const std::vector<uint8_t> mask = full_mask(tree, make_inputs(tree));
  int64_t siblings = 0;
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t n = 0; n < 30; ++n) {
      const int64_t parent = parent_of_draft(tree, b, n);
      ASSERT_GE(parent, -1);
      ASSERT_LT(parent, n);
      siblings += parent < n - 1;
      // A draft sees the same as its parent, and itself.
      for (int64_t j = 0; j < 33; ++j) {
        const bool before =
            parent < 0 ? j < 3
                       : mask[static_cast<size_t>((b * 30 + parent) * 33 + j)];
        EXPECT_EQ(mask[static_cast<size_t>((b * 30 + n) * 33 + j)] != 0,
                  before || j == n + 3);
      }
    }
  EXPECT_GT(siblings, 20);
}

// For every choice of own extents: the packed size, and that the full mask and
// bias depend on these indices and on no other.
TEST(MaskData, OwnExtentsAreTheOnesThatMatter) {
  Case c = parsed("f32,B5,H6,Tq7,Tk8,d1,mask=random50,bias=normal,seed=4");
  const Shape& s = c.shape;
  const int64_t extents[] = {s.B, s.H, s.Tq, s.Tk};
  const int64_t steps[] = {s.H * s.Tq * s.Tk, s.Tq * s.Tk, s.Tk, 1};
  for (uint8_t own = 1; own <= kOwnAll; ++own) {
    c.mask.own = c.score_bias_own = own;
    ASSERT_EQ(invalid_reason(c), "");
    const Inputs inputs = make_inputs(c);
    size_t elements = 1;
    for (size_t n = 0; n < 4; ++n)
      if ((own >> n & 1) != 0) elements *= static_cast<size_t>(extents[n]);
    EXPECT_EQ(inputs.mask.size(), elements);
    EXPECT_EQ(inputs.bias.size(), elements);
    EXPECT_EQ(inputs.bias_bytes.size(), 4 * elements);
    const auto mask = full_mask(c, inputs);
    const auto bias = full_bias(c, inputs);
    ASSERT_EQ(mask.size(), 1680u);
    ASSERT_EQ(bias.size(), 1680u);
    for (size_t n = 0; n < 4; ++n) {
      size_t other_mask = 0;
      size_t other_bias = 0;
      for (int64_t at = 0; at < 1680; ++at) {
        if (at / steps[n] % extents[n] == 0) continue;
        const auto here = static_cast<size_t>(at);
        const auto before = static_cast<size_t>(at - steps[n]);
        other_mask += mask[here] != mask[before];
        other_bias += bias[here] != bias[before];
      }
      EXPECT_EQ(other_mask > 0, (own >> n & 1) != 0) << int{own} << " " << n;
      EXPECT_EQ(other_bias > 0, (own >> n & 1) != 0) << int{own} << " " << n;
    }
  }
}

TEST(MaskData, RandomIsAChanceAndSurvivesShrinking) {
  const Case large = parsed("f32,B2,H3,Tq40,Tk50,d1,mask=random30,seed=2");
  const Case small = parsed("f32,B1,H2,Tq7,Tk9,d1,mask=random30,seed=2");
  const Inputs a = make_inputs(large);
  const Inputs b = make_inputs(small);
  size_t ones = 0;
  for (const uint8_t bit : a.mask) ones += bit;
  EXPECT_NEAR(static_cast<double>(ones), 12000 * 0.3, 4 * std::sqrt(2520.0));
  for (size_t h = 0; h < 2; ++h)
    for (size_t i = 0; i < 7; ++i)
      for (size_t j = 0; j < 9; ++j)
        EXPECT_EQ(b.mask[(h * 7 + i) * 9 + j], a.mask[(h * 40 + i) * 50 + j]);
}

// Rows and columns of a step are those of a tensor over all positions, for any
// number of tokens.
TEST(OptionData, StepsOfAStoryAreSlicesOfOneTensor) {
  const std::vector<int64_t> all = {0, 1, 2, 3, 4, 5}, some = {0, 2, 3, 5};
  for (const char* kind :
       {"random50", "band", "only2", "but3", "emptyrow3", "padding4", "prefix2",
        "ranges2", "docs2", "chunk2", "tree"})
    for (const char* own : {"", ".hqk", ".qk", ".hk", ".k", ".q", ".h", ".b"}) {
      const Case c = parsed("f32,B2,H2,d1,cap6,mask=" + std::string(kind) +
                            own + ",bias=normal" + own + ",story=step.a.6");
      EXPECT_TRUE(make_inputs(c).mask.empty());
      EXPECT_TRUE(make_inputs(c).bias.empty());
      Inputs whole, part, longer;
      fill_step_options(c, all, all, whole);
      fill_step_options(c, std::span(some).last(2), some, part);
      Case after = c;  // other tokens at the same positions
      after.shape.Tk += 9;
      fill_step_options(after, std::span(some).last(2), some, longer);
      EXPECT_EQ(longer.mask, part.mask);
      EXPECT_EQ(longer.bias, part.bias);
      const auto has = [&c](uint8_t extent) {
        return (c.mask.own & extent) != 0;
      };
      const size_t heads = has(kOwnH) ? 2 : 1;
      const size_t rows = has(kOwnQ) ? 2 : 1, keys = has(kOwnK) ? 4 : 1;
      ASSERT_EQ(part.mask.size(), heads * rows * keys);
      ASSERT_EQ(part.bias.size(), part.mask.size());
      for (size_t n = 0; n < part.mask.size(); ++n) {
        const size_t h = n / keys / rows, i = n / keys % rows, j = n % keys;
        const size_t row =
            has(kOwnQ) ? h * 6 + static_cast<size_t>(some[2 + i]) : h;
        const size_t at =
            has(kOwnK) ? row * 6 + static_cast<size_t>(some[j]) : row;
        EXPECT_EQ(part.mask[n], whole.mask[at]) << kind << own;
        EXPECT_EQ(part.bias[n], whole.bias[at]) << kind << own;
      }
    }
}

TEST(OptionData, StorageFollowsQ) {
  Case c = parsed("f16,B1,H3,Tq2,Tk2,d1,bias=normal,sink=normal,alibi=normal");
  Inputs inputs = make_inputs(c);
  EXPECT_EQ(inputs.bias_bytes.size(), 3u * 2 * 2 * 2);
  EXPECT_EQ(inputs.sink_bytes.size(), 3u * 4);
  EXPECT_EQ(inputs.slopes_bytes.size(), 3u * 4);
  c.q_dtype = Dtype::kF64;
  inputs = make_inputs(c);
  EXPECT_EQ(inputs.bias_bytes.size(), 3u * 2 * 2 * 8);
  EXPECT_EQ(inputs.sink_bytes.size(), 3u * 8);
  EXPECT_EQ(storage_type(c, TensorName::kSlopes), Dtype::kF64);
  EXPECT_NE(inputs.sink, inputs.slopes);
}

// A member's slopes depend only on its number. The first member has the slopes
// that all members have where they are equal.
TEST(OptionData, SlopesOfEachMember) {
  const std::string plain = "f32,B3,H2,Tq2,Tk2,d1,alibi=normal";
  const std::vector<double> all = inputs_of(plain).slopes;
  const Case c = parsed(plain + ".bh,set=alibi.2.1:0x1p+0");
  const Inputs inputs = make_inputs(c);
  ASSERT_EQ(inputs.slopes.size(), 6u);
  EXPECT_EQ(std::vector(inputs.slopes.begin(), inputs.slopes.begin() + 2), all);
  EXPECT_NE(inputs.slopes[2], all[0]);
  EXPECT_NE(inputs.slopes[3], all[1]);
  EXPECT_EQ(inputs.slopes[5], 1);
  EXPECT_EQ(inputs.slopes_bytes.size(), 6u * 4);
  const KernelCall call = call_of(c, inputs, Operation::kForward);
  EXPECT_TRUE(call.member_slopes);
  EXPECT_EQ(call.slopes, inputs.slopes_bytes.data());
  // Members of a packed batch have theirs as those of a batch have.
  const Inputs packed = make_inputs(
      parsed("f32,B1,H2,Tq3,Tk3,d1,alibi=normal.bh,cuq=0.1.2.3,cuk=0.1.1.3"));
  ASSERT_EQ(packed.slopes.size(), 6u);
  EXPECT_TRUE(std::equal(packed.slopes.begin(), packed.slopes.begin() + 5,
                         inputs.slopes.begin()));
}

TEST(OptionData, SetReachesBiasSinkAndSlopes) {
  const Case c = parsed(
      "f32,B2,H3,Tq2,Tk2,d1,bias=zero.hk,sink=zero,alibi=zero,"
      "set=bias.0.2.0.1:0x1.8p+1,set=sink.1:0x1p+0,set=alibi.2:-0x1p+0");
  const Inputs inputs = make_inputs(c);
  EXPECT_EQ(inputs.bias, (std::vector<double>{0, 0, 0, 0, 0, 3}));
  EXPECT_EQ(inputs.sink, (std::vector<double>{0, 1, 0}));
  EXPECT_EQ(inputs.slopes, (std::vector<double>{0, 0, -1}));
  float last = 0;
  std::memcpy(&last, inputs.bias_bytes.data() + 20, sizeof last);
  EXPECT_EQ(last, 3);
}

TEST(OptionData, SharedKeysAndValuesAreTheSame) {
  for (const char* const share : {"b", "h", "bh"}) {
    const Case c =
        parsed("f32,B2,H4,Hkv2,Tq1,Tk3,d2,dv3,share=" + std::string(share) +
               ",set=k.0.0.1.1:0x1p+3");
    const Case apart = parsed("f32,B2,H4,Hkv2,Tq1,Tk3,d2,dv3");
    const Inputs in = make_inputs(c);
    EXPECT_NE(in.k, make_inputs(apart).k);
    EXPECT_EQ(in.q, make_inputs(apart).q);
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t h = 0; h < 2; ++h) {
        const int64_t source = ((c.share & kShareB) != 0 ? 0 : b) * 2 +
                               ((c.share & kShareH) != 0 ? 0 : h);
        for (int64_t n = 0; n < 6; ++n)
          EXPECT_EQ(in.k[static_cast<size_t>((b * 2 + h) * 6 + n)],
                    in.k[static_cast<size_t>(source * 6 + n)]);
        for (int64_t n = 0; n < 9; ++n)
          EXPECT_EQ(in.v[static_cast<size_t>((b * 2 + h) * 9 + n)],
                    in.v[static_cast<size_t>(source * 9 + n)]);
      }
    EXPECT_EQ(in.k[3], 8);
    // And only as requested.
    EXPECT_EQ(in.k[0] == in.k[6], (c.share & kShareH) != 0);
    EXPECT_EQ(in.k[0] == in.k[12], (c.share & kShareB) != 0);
  }
}

// [B,heads,rows,width]: NaN in exactly the rows from counted[b] on.
void expect_poison(const std::vector<double>& values,
                   const std::vector<std::byte>& bytes, const Shape& s,
                   int64_t heads, int64_t rows, int64_t width,
                   const std::vector<int64_t>& counted) {
  for (int64_t b = 0; b < s.B; ++b)
    for (int64_t n = 0; n < heads * rows * width; ++n) {
      const auto at = static_cast<size_t>(b * heads * rows * width + n);
      const bool beyond = n / width % rows >= counted[static_cast<size_t>(b)];
      ASSERT_EQ(std::isnan(values[at]), beyond) << at;
      uint32_t bits = 0;
      std::memcpy(&bits, bytes.data() + 4 * at, 4);
      ASSERT_EQ((bits & 0x7fc00000) == 0x7fc00000, beyond) << at;
    }
}

TEST(OptionData, RowsBeyondTheLengthsAreNan) {
  const auto check = [](const std::string& text,
                        const std::vector<int64_t>& queries,
                        const std::vector<int64_t>& keys) {
    SCOPED_TRACE(text);
    const Case c = parsed(text);
    const Shape& s = c.shape;
    const Inputs in = make_inputs(c);
    expect_poison(in.q, in.q_bytes, s, s.H, s.Tq, s.d, queries);
    expect_poison(in.k, in.k_bytes, s, s.Hkv, s.Tk, s.d, keys);
    expect_poison(in.v, in.v_bytes, s, s.Hkv, s.Tk, s.dv, keys);
  };
  check("f32,B2,H4,Hkv2,Tq3,Tk5,d2,dv3", {3, 3}, {5, 5});
  check("f32,B2,H4,Hkv2,Tq3,Tk5,d2,dv3,qlen=3.0", {3, 0}, {5, 5});
  check("f32,B2,H4,Hkv2,Tq3,Tk5,d2,dv3,kvlen=0.4", {3, 3}, {0, 4});
  check("f32,B2,H4,Hkv2,Tq3,Tk5,d2,dv3,qlen=1.2,kvlen=5.1", {1, 2}, {5, 1});
  // A shared row counts as long as one member needs it.
  check("f32,B2,H4,Hkv2,Tq3,Tk5,d2,dv3,kvlen=2.4,share=b", {3, 3}, {4, 4});
  check("f32,B2,H4,Hkv2,Tq3,Tk5,d2,dv3,kvlen=2.4,share=h", {3, 3}, {2, 4});
  // Behind the last member of a packed batch.
  check("f32,B1,H4,Hkv2,Tq7,Tk5,d2,dv3,cuq=0.2.2.6,cuk=0.0.1.3", {6}, {3});
  check("f32,B0,H4,Hkv2,Tq7,Tk5,d2,dv3", {}, {});
}

TEST(OptionData, PoisonStaysInEveryStorageType) {
  for (const char* const type : {"f64", "f32", "f16", "bf16"}) {
    const Case c = parsed(std::string(type) +
                          ",B1,H1,Tq2,Tk2,d1,qlen=1,kvlen=1,"
                          "set=k.0.0.1.0:0x1p+0");
    const Inputs in = make_inputs(c);
    EXPECT_FALSE(std::isnan(in.k[0]));
    EXPECT_TRUE(std::isnan(in.k[1])) << type;
    EXPECT_TRUE(std::isnan(in.q[1])) << type;
  }
}

// The digest identifies the data: options change it, and without options it is
// frozen.
TEST(OptionData, DigestsTellOptions) {
  const std::string plain = "f32,B1,H2,Hkv1,Tq3,Tk5,d4";
  const auto digest = [&](const std::string& options) {
    return input_digest(inputs_of(plain + options));
  };
  EXPECT_EQ(digest(""), 0x22e10344u);
  EXPECT_EQ(digest(",window=1.1,softcap=3,layout=bthd"), 0x22e10344u);
  for (const char* const option :
       {",mask=random", ",mask=band", ",bias=normal", ",bias=normal.k",
        ",sink=normal", ",alibi=normal", ",qlen=2", ",kvlen=2",
        ",cuq=0.1,cuk=0.1", ",cuq=0.3,cuk=0.5"})
    EXPECT_NE(digest(option), 0x22e10344u) << option;
  EXPECT_NE(digest(",cuq=0.1.3,cuk=0.1.5"), digest(",cuq=0.2.3,cuk=0.1.5"));
  // Frozen, as the data of q, k and v is.
  EXPECT_EQ(digest(",mask=random30,bias=normal.qk,sink=normal,alibi=normal"),
            2466093231u);
}

TEST(OptionData, EmptyExtentsGiveEmptyTensors) {
  const CaseCall one("f32,B2,H2,Tq0,Tk3,d1,mask=band,bias=normal,sink=one");
  const auto& [c, in, call] = one;
  EXPECT_TRUE(in.q.empty());
  EXPECT_TRUE(in.mask.empty());
  EXPECT_TRUE(full_mask(c, in).empty());
  EXPECT_NE(call.mask, nullptr);  // present without an element
  EXPECT_NE(call.bias, nullptr);
  EXPECT_NE(call.sink, nullptr);
  EXPECT_EQ(call.slopes, nullptr);
  EXPECT_EQ(call.q_len, nullptr);
}

TEST(OptionData, CallsGetEveryOption) {
  const CaseCall one(
      "f32,B1,H2,Tq4,Tk4,d1,window=1.2,mask=band.k,bias=normal.q,softcap=3,"
      "sink=one,alibi=one,cuq=0.1.3,cuk=0.2.4,layout=gaps,share=h");
  const auto& [c, in, call] = one;
  EXPECT_EQ(call.window, (Window{1, 2}));
  EXPECT_EQ(call.softcap, 3);
  EXPECT_EQ(call.mask_own, kOwnK);
  EXPECT_EQ(call.bias_own, kOwnQ);
  EXPECT_EQ(call.layout, Layout::kGaps);
  EXPECT_EQ(call.share, kShareH);
  EXPECT_EQ(call.members, 2);
  EXPECT_EQ(static_cast<const void*>(call.mask), in.mask.data());
  EXPECT_EQ(call.bias, in.bias_bytes.data());
  EXPECT_EQ(call.sink, in.sink_bytes.data());
  EXPECT_EQ(call.slopes, in.slopes_bytes.data());
  EXPECT_EQ(call.q_len, nullptr);
  EXPECT_EQ(call.kv_len, nullptr);
  int64_t end = 0;
  std::memcpy(&end, call.cu_k + 16, sizeof end);
  EXPECT_EQ(end, 4);
}

TEST(OptionText, DropoutIsAProbability) {
  for (const char* const text : {"dropout=1", "dropout=-0.1", "dropout=nan",
                                 "dropout=0.995", "dropout=half"})
    expect_refused("f32,B1,H1,Tq1,Tk1,d1,",
                   {{text, "the probability of dropout is 0 .. 0.99"}});
  EXPECT_EQ(parsed("f32,B1,H1,Tq1,Tk1,d1,dropout=0.25").dropout, 0.25F);
}

}  // namespace
}  // namespace qkvet::option_data_test
