// SPDX-License-Identifier: Apache-2.0
// The worked examples of the textbooks, on every correct kernel. Scores are
// given with one channel: q = 1 and k = the score, scale 1.
#include <gtest/gtest.h>

#include <cmath>

#include "cli/kernels/kernels.h"
#include "include/testing/coarse.h"
#include "properties/judging/compare.h"

namespace qkvet::cli::textbook_test {
namespace {

struct Example {
  const char* name;
  Causal causal;
  int64_t Tq;
  std::vector<float> scores;                  // of every row: [Tk], or [Tq][Tk]
  std::vector<std::vector<float>> values;     // [Tk][dv]
  std::vector<std::vector<double>> expected;  // [Tq][dv]
};

std::vector<Example> examples() {
  const auto log = [](double w) { return static_cast<float>(std::log(w)); };
  return {{"equal scores, causal",
           Causal::kTopLeft,
           4,
           {0, 0, 0, 0},
           {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}},
           {{1, 0, 0, 0},
            {0.5, 0.5, 0, 0},
            {1.0 / 3, 1.0 / 3, 1.0 / 3, 0},
            {0.25, 0.25, 0.25, 0.25}}},
          // Weights 0.80, 0.20, and 0 for the third key, which the mask hides.
          {"weights 0.80, 0.20, 0",
           Causal::kTopLeft,
           2,
           {log(0.8), log(0.2), 0},
           {{10, 1}, {4, 2}, {7, 3}},
           {{10, 1}, {8.8, 1.2}}},
          {"weights 0.05, 0.90, 0.05",
           Causal::kNone,
           1,
           {log(0.05), log(0.9), log(0.05)},
           {{1, 9}, {3, 6}, {5, 2}},
           {{3.0, 5.95}}},
          // Row 2 sees scores 2, 1, 4; the value (9, 9) is in its future.
          {"a value in the future never arrives",
           Causal::kTopLeft,
           3,
           {2, 1, 4, 3},
           {{0, 0}, {0, 0}, {0, 0}, {9, 9}},
           {{0, 0}, {0, 0}, {0, 0}}}};
}

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const auto* at = reinterpret_cast<const std::byte*>(values.data());
  return {at, at + values.size() * sizeof(T)};
}

std::vector<double> run(Executor& executor, int kernel,
                        const Example& example) {
  KernelCall call;
  call.shape.Tq = example.Tq;
  call.shape.Tk = static_cast<int64_t>(example.scores.size());
  call.shape.dv = static_cast<int64_t>(example.values[0].size());
  call.causal = example.causal;
  call.scale = 1.0f;
  std::vector<float> v;
  for (const auto& row : example.values)
    v.insert(v.end(), row.begin(), row.end());
  const auto q =
      bytes_of(std::vector<float>(static_cast<size_t>(example.Tq), 1.0f));
  auto k = bytes_of(example.scores), v_bytes = bytes_of(v);
  const std::vector<int64_t> length = {call.shape.Tk};
  const auto kv_len = bytes_of(length), table = bytes_of(std::vector{0}),
             starts = bytes_of(std::vector{0, 1}),
             last = bytes_of(std::vector{static_cast<int32_t>(length[0])});
  const KernelInfo& info = executor.kernels()[static_cast<size_t>(kernel)];
  if (info.has_flag(QKVET_FLAG_PAGES_ONLY)) {  // all of it is one page
    call.page_size = info.capabilities.page_size_count > 0
                         ? info.capabilities.page_sizes[0]
                         : 4;
    call.pages = 1;
    if (info.has_option(QKVET_OPTION_PAGED)) {
      call.table_columns = 1;
      call.block_table = table.data();
      call.kv_len = kv_len.data();
    } else {
      call.page_entries = 1;
      call.page_indptr = starts.data();
      call.page_indices = table.data();
      call.last_page_len = last.data();
    }
    k.resize(static_cast<size_t>(call.page_size) * sizeof(float));
    v_bytes.resize(static_cast<size_t>(call.page_size * call.shape.dv) *
                   sizeof(float));
  }
  call.q = q.data();
  call.k = k.data();
  call.v = v_bytes.data();
  const CallOutcome outcome = executor.run(kernel, {&call, 1})[0];
  EXPECT_EQ(outcome.status, CallStatus::kDone) << outcome.text;
  return as_doubles(outcome.o, Dtype::kF32);
}

// The books give two or three digits, and log() is rounded to f32: a few units
// of 2^-24 times values up to 10.
constexpr double kBookError = 10 * 0x1p-22;

// The examples have no sink, and lse is not compared.
constexpr uint64_t kUnused = QKVET_KNOB_LSE_DTYPE | QKVET_KNOB_SINK_DTYPE;

TEST(Textbook, ExamplesComeOutOnEveryCorrectKernel) {
  const SelectedKernels selected = select_kernels(
      {{"scalar/*", "eigen/*", "avx2/*", "serving/*", "controls/*"},
       {},
       false});
  ASSERT_EQ(selected.error, "");
  const ExecutorFactory open = executor_factory(selected, false);
  int judged = 0;
  for (const KernelUnderTest& kernel : selected.kernels) {
    const Opened opened = open(kernel.library);
    ASSERT_NE(opened.executor, nullptr) << opened.error;
    if (!unavailable_reason(*opened.executor, kernel.index).empty()) continue;
    if (!kernel.judged.info.has_forward) continue;
    if (is_coarse(kernel.judged.info.precision, kBookError, ~kUnused)) continue;
    if (kernel.judged.info.capabilities.layouts == QKVET_LAYOUT_PACKED_QKV)
      continue;  // the examples are in three tensors
    if (kernel.judged.info.has_flag(QKVET_FLAG_CHANNEL_GROUPS_ONLY))
      continue;  // their keys are no groups of 16 bytes
    if (kernel.judged.info.has_flag(QKVET_FLAG_VALUES_IN_KEYS_ONLY))
      continue;  // nor are their values keys
    if (declared_dtypes({kernel})[0] != Dtype::kF32) continue;  // half only
    for (const Example& example : examples()) {
      const std::vector<double> o =
          run(*opened.executor, kernel.index, example);
      size_t n = 0;
      for (const auto& row : example.expected)
        for (const double expected : row) {
          ASSERT_LT(n, o.size());
          EXPECT_NEAR(o[n++], expected, kBookError)
              << kernel.judged.info.name << ": " << example.name;
        }
      EXPECT_EQ(n, o.size());
    }
    ++judged;
  }
  EXPECT_GE(judged, 20);
}

// Control: a kernel without a mask shows the future.
TEST(Textbook, AFaultDoesNotComeOut) {
  const SelectedKernels selected =
      select_kernels({{"faulty/no_mask"}, {}, false});
  const Opened opened = executor_factory(selected, false)(0);
  ASSERT_NE(opened.executor, nullptr) << opened.error;
  const std::vector<double> o =
      run(*opened.executor, selected.kernels[0].index, examples()[3]);
  EXPECT_GT(o[0], 1);
}

}  // namespace
}  // namespace qkvet::cli::textbook_test
