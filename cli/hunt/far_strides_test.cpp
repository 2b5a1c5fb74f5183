// SPDX-License-Identifier: Apache-2.0
// Kernels that take any strides also take those of layout=far. Kernels with
// 32-bit offsets are wrong only there.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>

#include "cli/kernels/kernels.h"
#include "properties/run/runner.h"
#include "properties/run/shrink.h"

namespace qkvet::cli::far_strides_test {
namespace {

using Words = std::vector<std::string>;

const SelectedKernels& selected(const Words& globs) {
  static std::map<Words, SelectedKernels> known;
  const auto found = known.find(globs);
  return found != known.end()
             ? found->second
             : known.emplace(globs, select_kernels({globs, {}, false}))
                   .first->second;
}

// Judged by the law of agreement for its subject.
Verdict judged(const KernelUnderTest& kernel, Executor& executor,
               const std::string& text, std::string* why) {
  const ParsedCase parsed = parse_case(text);
  EXPECT_TRUE(parsed.value) << parsed.error;
  const char* const id = parsed.value->dropout ? "dropout_same_in_backward"
                         : parsed.value->backward
                             ? "backward_agrees_with_oracle"
                         : parsed.value->merge ? "merge_agrees_with_oracle"
                                               : "agrees_with_oracle";
  TimeUse time;
  const Judgement judgement =
      check_case(*find_law(id), *parsed.value, kernel.judged, kernel.index,
                 executor, /*with_twin=*/false, time);
  *why =
      judgement.reason + (judgement.finding ? judgement.finding->actual : "");
  return judgement.verdict;
}

// Batch elements, heads and rows far apart, and the tensor of each option, too.
constexpr const char* kCases[] = {
    "f32,B2,H2,Tq3,Tk3,d16,causal=br,layout=far",
    "f32,B3,H2,Hkv1,Tq2,Tk2,d8,layout=far",
    "f32,B1,H2,Tq3,Tk3,d16,layout=far",
    "f32,B1,H1,Tq5,Tk5,d64,causal=br,layout=far",
    "f16,B2,H2,Tq3,Tk3,d64,causal=br,layout=far",
    "bf16,B1,H4,Hkv2,Tq3,Tk3,d32,layout=far",
    "f64,B2,H1,Tq3,Tk3,d8,layout=far",
    "f32,B2,H2,Tq3,Tk5,d8,layout=far,share=b",
    "f32,B2,H2,Tq3,Tk5,d8,mask=but1,bias=normal,layout=far",
    "f32,B2,H1,Tq3,Tk5,d8,qlen=2.3,kvlen=5.3,layout=far",
    "f32,B1,H2,Tq4,Tk4,d8,cuq=0.1.4,cuk=0.2.4,layout=far",
    "f32,B2,H2,Tq2,Tk6,d8,layout=far,page=2",
    "f16,B2,H2,Tq2,Tk6,d16,layout=far,append=2",
    "f32,B2,H2,Tq3,Tk3,d8,dropout=0.5,layout=far,backward",
    "f32,B2,H2,Tq3,Tk4,d8,layout=far,backward",
    "f16,B1,H4,Hkv2,Tq3,Tk3,d16,causal=br,layout=far,backward",
    "f32,B3,H2,Tk3,dv8,layout=far,merge",
    "f16,B2,H2,Tk2,dv16,kvlen=2.1,layout=far,merge"};

bool takes_any_strides(const KernelInfo& info) {
  return (info.capabilities.layouts & QKVET_LAYOUT_ANY_STRIDES) != 0 ||
         (info.merge_options & QKVET_MERGE_ANY_STRIDES) != 0;
}

TEST(FarStrides, EveryKernelOnTheCpuThatTakesAnyTakesThem) {
  const SelectedKernels all = selected({"*"});
  ASSERT_EQ(all.error, "");
  const ExecutorFactory open = executor_factory(all, false);
  std::map<size_t, std::unique_ptr<Executor>> executors;  // of libraries
  std::set<std::string> agreeing;
  std::map<std::string, int> agree;  // per case
  for (const KernelUnderTest& kernel : all.kernels) {
    const KernelInfo& info = kernel.judged.info;
    if (info.fault || info.device() != QKVET_DEVICE_CPU ||
        !takes_any_strides(info))
      continue;
    std::unique_ptr<Executor>& executor = executors[kernel.library];
    if (executor == nullptr) executor = open(kernel.library).executor;
    ASSERT_NE(executor, nullptr) << info.name;
    for (const char* const text : kCases) {
      std::string why;
      const Verdict verdict = judged(kernel, *executor, text, &why);
      EXPECT_NE(verdict, Verdict::kFailed)
          << info.name << " " << text << ": " << why;
      if (verdict != Verdict::kPassed) continue;
      ++agree[text];
      agreeing.insert(info.name);
    }
  }
  for (const char* const text : kCases) EXPECT_GT(agree[text], 0) << text;
  EXPECT_GT(agreeing.size(), 20u);
}

TEST(FarStrides, OffsetsOf32BitsAreWrongThereAlone) {
  const struct {
    const char* fault;
    const char* options;
    std::string said;
  } rows[] = {
      {"key_offset_in_32_bits", "f32,B2,H1,Tq1,Tk2,d4", "READ of k"},
      {"key_offset_in_32_bits", "f32,B3,H1,Tq1,Tk2,d4", "READ of k"},
      {"key_offset_in_32_bits", "f32,B1,H1,Tq2,Tk9,d4", "READ of k"},
      {"member_stride_in_int", "f32,B2,H1,Tq1,Tk2,d4", "READ of k"},
      {"member_stride_in_int", "f32,B3,H1,Tq1,Tk2,d4", "before its start"},
      {"head_stride_in_32_bits", "f32,B1,H2,Tq1,Tk2,d4", "none of its parts"},
      {"mask_index_in_int", "f32,B2,H1,Tq1,Tk2,d4,mask=but0", "READ of mask"},
      {"serving_append_offset_in_int", "f32,B2,H1,Tq1,Tk2,d4,append=1",
       "WRITE of k"}};
  for (const auto& row : rows) {
    const SelectedKernels all = selected({std::string("faulty/") + row.fault});
    ASSERT_EQ(all.kernels.size(), 1u) << all.error;
    const auto executor = executor_factory(all, false)(0).executor;
    const auto verdict = [&](const std::string& layout, std::string* why) {
      return judged(all.kernels[0], *executor, row.options + layout, why);
    };
    std::string why;
    EXPECT_EQ(verdict(",layout=far", &why), Verdict::kFailed) << row.options;
    EXPECT_NE(why.find(row.said), std::string::npos) << why;
    for (const char* const other : {"", ",layout=gaps", ",layout=apart"})
      EXPECT_EQ(verdict(other, &why), Verdict::kPassed)
          << row.options << other << why;
  }
}

}  // namespace
}  // namespace qkvet::cli::far_strides_test
