// SPDX-License-Identifier: Apache-2.0
// Options of forward() through the door: testdata/scripted_plugin.cpp returns
// the type, extents, strides and values of its arguments.
#include <gtest/gtest.h>

#include "core/capability/capability.h"
#include "core/testing/scripted_calls.h"

namespace qkvet::option_calls_test {
namespace {

class Options : public BothWays {
 protected:
  const std::unique_ptr<Executor> executor_ = open("scripted");
};
INSTANTIATE_TEST_SUITE_P(Ways, Options, testing::Bool(), way_name);

const std::vector<Shown> kOptions = {
    {"f32,B1,H1,Tq2,Tk3,d1", "mask", "absent"},
    {"f32,B1,H1,Tq2,Tk3,d1", "cu_seqlens_q", "absent"},
    {"f32,B1,H1,Tq2,Tk3,d1", "scalars", "window 0 -1 -1 softcap 0"},
    {"f32,B1,H1,Tq2,Tk3,d1,window=2.-1,softcap=1.5", "scalars",
     "window 1 2 -1 softcap 1.5"},
    {"f32,B1,H1,Tq2,Tk3,d1,mask=band0", "mask",
     "uint8 1,1,2,3 / x,x,3,1: 1 0 0 0 1 0"},
    {"f32,B2,H2,Tq2,Tk2,d1,mask=band0", "mask",
     "uint8 2,2,2,2 / 8,4,2,1: 1 0 0 1 1 0 0 1 1 0 0 1 1 0 0 1"},
    {"f32,B2,H2,Tq1,Tk3,d1,mask=only1.k", "mask",
     "uint8 2,2,1,3 / 0,0,0,1: 0 1 0 0 1 0 0 1 0 0 1 0"},
    {"f32,B2,H1,Tq3,Tk2,d1,mask=emptyrow1.q", "mask",
     "uint8 2,1,3,2 / 0,0,1,0: 1 1 0 0 1 1 1 1 0 0 1 1"},
    {"f32,B2,H2,Tq1,Tk1,d1,mask=padding1.bh", "mask",
     "uint8 2,2,1,1 / 2,1,0,0: 0 0 0 0"},
    {"f32,B1,H1,Tq2,Tk3,d1,mask=but0.bk", "mask",
     "uint8 1,1,2,3 / x,0,0,1: 0 1 1 0 1 1"},
    {"f32,B2,H1,Tq1,Tk2,d1,bias=one.h,set=bias.0.0.0.0:0x1p+2", "bias",
     "float32 2,1,1,2 / 0,x,0,0: 4 4 4 4"},
    {"f64,B1,H2,Tq1,Tk2,d1,bias=zero.hk,set=bias.0.1.0.0:0x1p+2", "bias",
     "float64 1,2,1,2 / 0,2,0,1: 0 0 4 0"},
    {"f16,B1,H1,Tq1,Tk2,d1,bias=one", "bias",
     "float16 1,1,1,2 / x,x,x,1: 15360 15360"},
    {"f16,B1,H2,Tq1,Tk2,d1,sink=one,set=sink.1:0x1p+3", "sink",
     "float32 2 / 1: 1 8"},
    {"f64,B1,H2,Tq1,Tk2,d1,alibi=one,set=alibi.0:0x1p-1", "slopes",
     "float64 2 / 1: 0.5 1"},
    {"f32,B2,H2,Tq1,Tk2,d1,alibi=one.bh,set=alibi.1.0:0x1p-1", "slopes",
     "float32 2,2 / 2,1: 1 1 0.5 1"},
    {"f32,B1,H2,Tq2,Tk2,d1,alibi=one.bh,set=alibi.1.1:0x1p-1,cuq=0.1.2,"
     "cuk=0.1.2",
     "slopes", "float32 2,2 / 2,1: 1 1 1 0.5"},
    {"f32,B3,H1,Tq2,Tk2,d1,qlen=2.0.1", "q_len", "int64 3 / 1: 2 0 1"},
    {"f32,B1,H1,Tq2,Tk2,d1,kvlen=2", "kv_len", "int64 1 / x: 2"},
    {"f32,B1,H1,Tq7,Tk2,d1,cuq=0.3.3.6,cuk=0.1.2.2", "cu_seqlens_q",
     "int64 4 / 1: 0 3 3 6"},
    {"f32,B1,H1,Tq7,Tk2,d1,cuq=0.3.3.6,cuk=0.1.2.2", "cu_seqlens_k",
     "int64 4 / 1: 0 1 2 2"},
    {"f32,B1,H1,Tq2,Tk3,d1", "key_indices", "absent"},
    {"f32,B1,H2,Tq2,Tk3,d1,keys=2", "topk_length", "absent"},
    // A minus is not shown.
    {"f32,B1,H2,Tq2,Tk1,d1,keys=2.h,seed=2", "key_indices",
     "int32 1,2,2,2 / x,4,2,1: 0 1 0 1 0 1 0 1"},
    {"f32,B2,H1,Tq2,Tk1,d1,keys=1.n", "topk_length",
     "int32 2,2 / 2,1: 1 0 1 1"},
    {"f32,B1,H1,Tq2,Tk3,d1,segments=0", "segments_q", "int32 1,2 / x,1: 2 2"},
    {"f32,B1,H1,Tq2,Tk3,d1,segments=0.i64", "segments_k",
     "int64 1,3 / x,1: 2 2 2"},
    {"f32,B1,H1,Tq2,Tk3,d1,ranges=1", "full_ranges",
     "int32 1,1,2 / x,x,1: 1 1"},
    {"f32,B1,H1,Tq3,Tk3,d1,tree=2", "tree_mask",
     "uint8 1,3,3 / x,3,1: 1 0 0 1 1 0 1 0 1"},
};

constexpr char kTiny[] = "f32,B2,H4,Hkv2,Tq3,Tk3,d5,q=zero,k=zero,v=zero";

// Only strides: all values are zero. x: an extent of 1.
const std::vector<Shown> kLayouts = {
    {"", "q", "2,4,3,5 / 60,15,5,1"},
    {"", "k", "2,2,3,5 / 30,15,5,1"},
    {",layout=bthd", "q", "2,4,3,5 / 60,5,20,1"},
    {",layout=bthd", "k", "2,2,3,5 / 30,5,10,1"},
    {",layout=bthd", "v", "2,2,3,5 / 30,5,10,1"},
    {",layout=bthd", "o", "2,4,3,5 / 60,5,20,1"},
    {",layout=packed", "q", "2,4,3,5 / 120,5,40,1"},
    {",layout=packed", "k", "2,2,3,5 / 120,5,40,1"},
    {",layout=packed", "v", "2,2,3,5 / 120,5,40,1"},
    {",layout=packed", "o", "2,4,3,5 / 60,5,20,1"},
    {",layout=gaps", "q", "2,4,3,5 / 123,29,8,1"},
    {",layout=gaps", "k", "2,2,3,5 / 65,29,8,1"},
    {",layout=gaps", "v", "2,2,3,5 / 65,29,8,1"},
    {",layout=gaps", "o", "2,4,3,5 / 123,29,8,1"},
    {",layout=apart", "q", "2,4,3,5 / 120,30,10,2"},
    {",layout=apart", "v", "2,2,3,5 / 60,30,10,2"},
    {",layout=apart", "o", "2,4,3,5 / 120,30,10,2"},
    {",layout=far", "q", "2,4,3,5 / 4295032832,15,5,1"},
    {",layout=far", "k", "2,2,3,5 / 4295032832,15,5,1"},
    {",layout=far", "o", "2,4,3,5 / 4295032832,15,5,1"},
    {",share=b", "k", "2,2,3,5 / 0,15,5,1"},
    {",share=h", "v", "2,2,3,5 / 15,0,5,1"},
    {",share=bh", "k", "2,2,3,5 / 0,0,5,1"},
    {",share=bh", "q", "2,4,3,5 / 60,15,5,1"},
    {",share=h,layout=bthd", "k", "2,2,3,5 / 15,0,5,1"},
    {",share=b,layout=gaps", "v", "2,2,3,5 / 0,29,8,1"},
    {",share=b,layout=far", "v", "2,2,3,5 / 0,4295032832,5,1"},
    {",share=bh,layout=far", "v", "2,2,3,5 / 0,0,2147549184,1"},
};

// Pages of two tokens with keys in groups of channels, four in the pool.
constexpr char kPool[] =
    "f32,B1,H2,Hkv2,Tq1,Tk3,d8,q=lattice,k=lattice,v=lattice,page=2,"
    "pages=order,unowned=others";
const std::vector<Shown> kGroups = {
    {"", "k", "4,2,2,8 / 32,16,8,1"},
    {",pool=x", "k", "4,2,2,2,4 / 32,16,4,8,1"},
    {",pool=x", "v", "4,2,2,8 / 32,16,1,2"},
    {",pool=x,append=1", "k", "4,2,2,2,4 / 32,16,4,8,1"},
    {",pool=x,layout=bthd", "k", "4,2,2,2,4 / 32,16,4,8,1"},
    {",pool=x,layout=gaps", "k", "4,2,2,2,4 / 61,27,4,11,1"},
    {",pool=x,layout=gaps", "v", "4,2,2,8 / 97,45,1,5"},
    {",pool=x,layout=apart", "k", "4,2,2,2,4 / 64,32,8,16,2"},
    {",pool=x,layout=apart", "v", "4,2,2,8 / 64,32,2,4"},
    {",pool=x,layout=far", "k", "4,2,2,2,4 / 1431699456,16,4,8,1"},
    {",pool=x,layout=far", "v", "4,2,2,8 / 1431699456,16,1,2"},
};

TEST_P(Options, Arrive) { expect_shown(*executor_, kOptions); }
TEST_P(Options, LieAsTheLayoutSays) {
  expect_strides(*executor_, kTiny, kLayouts);
}

// The same elements in the same order, in every layout; as many as fit into a
// reason.
TEST_P(Options, GroupsOfChannels) {
  expect_strides(*executor_, kPool, kGroups);
  const auto values = [&](const std::string& options, const Shown& row,
                          Placement placement) {
    const std::string told =
        shown(*executor_, row.tensor, kPool + options, placement);
    return told.substr(told.find(':'));
  };
  for (const Placement placement : kPlacements)
    for (const Shown& row : kGroups) {
      const std::string told = values(row.text, row, placement);
      const std::string rows = values(
          row.text.ends_with("append=1") ? ",append=1" : "", row, placement);
      EXPECT_GT(told.size(), 150U) << row.text;
      EXPECT_TRUE(rows.starts_with(told)) << row.text << rows;
    }
  EXPECT_EQ(shown(*executor_, "scalars", std::string(kPool) + ",pool=x"),
            "window 0 -1 -1 softcap 0 groups 4");
}

TEST_P(Options, ValuesGoWhereTheStridesSay) {
  const std::string base =
      "f32,B2,H2,Hkv1,Tq2,Tk2,d2,q=lattice,k=lattice,v=lattice";
  const auto values = [&](const char* tensor, const std::string& options) {
    const std::string text = shown(*executor_, tensor, base + options);
    return text.substr(text.find(':'));
  };
  for (const char* const tensor : {"q", "k", "v"}) {
    const std::string plain = values(tensor, "");
    EXPECT_NE(plain, values(tensor, ",seed=2"));
    for (const char* const layout :
         {",layout=bthd", ",layout=packed", ",layout=gaps", ",layout=apart",
          ",layout=far"})
      EXPECT_EQ(values(tensor, layout), plain) << layout;
  }
  EXPECT_EQ(values("k", ",share=b"), values("k", ",share=b,layout=gaps"));
  EXPECT_EQ(
      shown(*executor_, "k", "f32,B2,H2,Tq1,Tk2,d1,k=one,share=b,kvlen=1.0"),
      "float32 2,2,2,1 / 0,2,1,x: 1 nan 1 nan 1 nan 1 nan");
  EXPECT_EQ(shown(*executor_, "q", "f32,B2,H1,Tq2,Tk1,d1,q=one,qlen=1.0"),
            "float32 2,1,2,1 / 2,x,1,x: 1 nan nan nan");
}

// Present, with a pointer, and without an element.
TEST_P(Options, EmptyTensors) {
  const Shown rows[] = {
      {"f32,B2,H1,Tq0,Tk2,d1,mask=band,bias=one", "q", "0"},
      {"f32,B2,H1,Tq0,Tk2,d1,mask=band,bias=one", "mask", "uint8"},
      {"f32,B2,H1,Tq2,Tk0,d1,mask=band.q,bias=one.k", "mask", "uint8"},
      {"f32,B2,H1,Tq2,Tk0,d1,mask=band.q,bias=one.k", "bias", "float32"},
      {"f32,B2,H1,Tq2,Tk0,d1,layout=gaps", "k", "float32"},
      {"f32,B0,H1,Tq2,Tk3,d1,sink=one,layout=bthd", "v", "float32"},
      {"f32,B0,H1,Tq2,Tk3,d1,sink=one,share=b", "k", "float32"}};
  for (const Shown& row : rows)
    for (const Placement placement : kPlacements) {
      const std::string told =
          shown(*executor_, row.tensor, row.text, placement);
      EXPECT_NE(told.find(row.expected), std::string::npos) << told;
      EXPECT_EQ(told.find("absent"), std::string::npos) << told;
      EXPECT_EQ(told.find("no data"), std::string::npos) << told;
      EXPECT_EQ(told.back(), ':') << told;  // no value
      const CallOutcome done =
          run_case(*executor_, "rows", row.text, placement, true);
      EXPECT_EQ(done.status, CallStatus::kDone) << done.text;
      EXPECT_FALSE(done.unwritten);
      EXPECT_FALSE(done.damage);
    }
}

// Rows beyond the lengths need not be written, and may be; all others must.
TEST_P(Options, RowsThatCountMustBeWritten) {
  for (const char* const options :
       {",qlen=2.0", ",qlen=3.1,kvlen=0.2", ",qlen=0.1,layout=bthd",
        ",qlen=1.3,layout=gaps", ""})
    for (const Placement placement : kPlacements)
      for (const char* const batch : {"B2", "B1"}) {
        std::string text = options;
        if (batch[1] == '1') text = ",cuq=0.1.2,cuk=0.3.3";
        text = "f32," + std::string(batch) + ",H2,Tq3,Tk3,d2" + text;
        SCOPED_TRACE(text);
        for (const char* const kernel : {"rows", "all_rows"}) {
          const auto outcome =
              run_case(*executor_, kernel, text, placement, true);
          EXPECT_EQ(outcome.status, CallStatus::kDone) << outcome.text;
          EXPECT_FALSE(outcome.unwritten);
          EXPECT_FALSE(outcome.damage);
          EXPECT_EQ(outcome.o.size(), batch[1] == '1' ? 48u : 96u);
        }
        EXPECT_EQ(
            run_case(*executor_, "short_rows", text, placement, true).unwritten,
            TensorName::kO);
      }
  // Member 0 has no row, member 1 misses its last one: o[1,0,1,0].
  const auto outcome =
      run_case(*executor_, "short_rows", "f32,B2,H2,Tq3,Tk3,d2,qlen=0.2");
  EXPECT_EQ(outcome.unwritten_index, (3 * 2 + 1) * 2);
}

TEST_P(Options, GapsAreWatched) {
  for (const char* const layout : {"gaps", "bthd", "packed"}) {
    const std::string text =
        "f32,B2,H2,Tq3,Tk3,d2,layout=" + std::string(layout);
    const auto outcome = run_case(*executor_, "into_gap", text);
    EXPECT_EQ(outcome.status, CallStatus::kDone) << outcome.text;
    EXPECT_FALSE(outcome.unwritten);
    // The others have no gap there: o is contiguous.
    ASSERT_EQ(outcome.damage.has_value(), std::string(layout) == "gaps");
    if (!outcome.damage) continue;
    EXPECT_EQ(outcome.damage->tensor, TensorName::kO);
    EXPECT_TRUE(outcome.damage->inside);
    EXPECT_EQ(outcome.damage->bytes, 8);
  }
}

TEST(SandboxOptions, FaultsNameTheTensor) {
  const auto executor = scripted();
  const std::string past = "read past the end of ";
  const struct {
    std::string kernel, text;
    TensorName tensor;
    std::string expected;
  } rows[] = {
      {"past_mask", "mask=band", TensorName::kMask, past + "mask"},
      {"past_mask", "mask=band.k", TensorName::kMask, past + "mask"},
      {"past_bias", "bias=normal", TensorName::kBias, past + "bias"},
      {"past_bias", "bias=normal.h", TensorName::kBias, past + "bias"},
      {"past_sink", "sink=one", TensorName::kSink, past + "sink"},
      {"past_slopes", "alibi=one", TensorName::kSlopes, past + "slopes"},
      {"past_q_len", "qlen=1.1", TensorName::kQLen, past + "q_len"},
      {"past_kv_len", "kvlen=1.1", TensorName::kKvLen, past + "kv_len"},
      {"past_k", "share=bh", TensorName::kK, past + "k"},
      {"past_k", "layout=gaps", TensorName::kK, past + "k"},
      {"past_k", "layout=far", TensorName::kK, past + "k"},
      {"cut_k", "layout=far", TensorName::kK, "read between the parts of k"},
      {"into_mask", "mask=band", TensorName::kMask, "write into mask"},
      {"into_bias", "bias=one", TensorName::kBias, "write into bias"},
      {"into_kv_len", "kvlen=1.1", TensorName::kKvLen, "write into kv_len"}};
  for (const auto& row : rows) {
    const std::string text = "f32,B2,H2,Tq3,Tk3,d2," + row.text;
    const bool is_cut = row.kernel == "cut_k";
    const auto outcome = run_case(*executor, row.kernel, text);
    expect_outcome(outcome, CallStatus::kFault,
                   row.expected + (is_cut ? ", offset 262188" : ", offset 0"));
    ASSERT_TRUE(outcome.fault);
    EXPECT_EQ(outcome.fault->tensor, row.tensor);
    EXPECT_EQ(outcome.fault->between, is_cut);
    // Control: the same call of a kernel that stays inside.
    expect_ends(*executor, {{text, "rows", CallStatus::kDone, ""}});
  }
  for (const std::string side : {"cu_seqlens_q", "cu_seqlens_k"})
    EXPECT_EQ(run_case(*executor, "past_" + side,
                       "f32,B1,H1,Tq3,Tk3,d2,cuq=0.3,cuk=0.3")
                  .text,
              past + side + ", offset 0");
}

// The first channels of the keys, with the steps of the keys; the control: the
// same case with values of its own.
TEST(OptionCalls, ValuesInKeysLieThere) {
  const auto executor = in_process("scripted");
  const std::string base = "f32,B2,H2,Hkv1,Tq1,Tk3,d5,dv2,k=lattice";
  const Shown rows[] = {{"", "v", "2,1,3,2 / 15,x,5,1"},
                        {",layout=bthd", "v", "2,1,3,2 / 15,x,5,1"},
                        {",layout=gaps", "v", "2,1,3,2 / 36,x,8,1"},
                        {",layout=apart", "v", "2,1,3,2 / 30,x,10,2"},
                        {",page=2,pages=order", "v", "6,1,2,2 / 10,x,5,1"}};
  for (const Placement placement : kPlacements)
    for (const Shown& row : rows) {
      SCOPED_TRACE(row.text);
      // values= goes between layout= and page=.
      std::string text = base + row.text;
      text.insert(std::min(text.find(",page"), text.size()), ",values=keys");
      const auto told = [&](const char* tensor) {
        return shown(*executor, tensor, text, placement);
      };
      EXPECT_EQ(shown(*executor, "place", base + row.text, placement),
                "v lies apart");
      EXPECT_EQ(told("place"), "v lies in k");
      EXPECT_EQ(without_values(told("v")), "float32 " + row.expected);
    }
  const Inputs inputs = inputs_of(base + ",values=keys");
  for (size_t row = 0; row < 6; ++row)
    for (size_t n = 0; n < 2; ++n)
      EXPECT_EQ(inputs.v[row * 2 + n], inputs.k[row * 5 + n]);
}

// A library only gets calls that its version of the ABI defines. The control:
// the same kernels under today's version.
TEST(OptionCalls, OlderLibrariesAreNotAskedForNewerCalls) {
  const CaseCall paged("f32,B1,H1,Tq2,Tk3,d1,kvlen=3,page=2,keys=2");
  KernelCall rows = paged.call, dense = paged.call;
  rows.page_size = rows.pages = rows.table_columns = 0;
  rows.block_table = nullptr;
  dense.listed = {};
  dense.key_indices = nullptr;
  for (const char* config : {"minor=3", "minor=4", ""}) {
    Opened opened = open_in_process({plugin("scripted"), config});
    ASSERT_NE(opened.executor, nullptr) << opened.error;
    const KernelInfo& info = opened.executor->kernels()[0];
    const bool older = std::string(config) == "minor=3";
    std::string why;
    EXPECT_EQ(capability_allows(info, paged.call, &why), !older) << config;
    EXPECT_EQ(why.find("lists of keys together with pages") != why.npos, older)
        << config << ": " << why;
    EXPECT_TRUE(capability_allows(info, rows, &why)) << why;
    EXPECT_TRUE(capability_allows(info, dense, &why)) << why;
  }
}

}  // namespace
}  // namespace qkvet::option_calls_test
