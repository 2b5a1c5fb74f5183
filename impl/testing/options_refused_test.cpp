// SPDX-License-Identifier: Apache-2.0
// What every kernel that declares an option says to arguments of that option
// that cannot be: INVALID_ARGUMENT with a reason, and nothing written. Lengths
// are data: supports() says yes to them and forward() looks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "impl/testing/options_fixture.h"

namespace qkvet::impl::options_refused_test {
namespace {

constexpr uint64_t kMostOptions = QKVET_OPTION_WINDOW | QKVET_OPTION_MASK |
                                  QKVET_OPTION_BIAS | QKVET_OPTION_SOFTCAP |
                                  QKVET_OPTION_SINK | QKVET_OPTION_ALIBI;

Asked usual(uint64_t options) {
  Asked a;
  a.options = options;
  a.problem = {.batch = 2,
               .heads = 2,
               .kv_heads = 1,
               .queries = 4,
               .keys = 5,
               .width = 3,
               .value_width = 3};
  return a;
}

struct Wrong {
  const char* name;
  uint64_t options;
  std::function<void(qkvet_forward_args&)> spoil;
  qkvet_status status = QKVET_INVALID_ARGUMENT;
};

int64_t kThree[] = {3, 3, 3, 3};
int64_t kThreeOfTwo[] = {3, 2}, kTwoOfThree[] = {2, 3};
constexpr qkvet_dtype kF64 = {QKVET_DTYPE_FLOAT, 64, 1};

std::vector<Wrong> wrong_forms() {
  using A = qkvet_forward_args;
  return {
      {"left", QKVET_OPTION_WINDOW, [](A& a) { a.window_left = -2; }},
      {"right", QKVET_OPTION_WINDOW, [](A& a) { a.window_right = -7; }},
      {"softcap", QKVET_OPTION_SOFTCAP, [](A& a) { a.softcap = -1; }},
      {"softcap nan", QKVET_OPTION_SOFTCAP, [](A& a) { a.softcap = NAN; }},
      {"softcap inf", QKVET_OPTION_SOFTCAP, [](A& a) { a.softcap = INFINITY; }},
      {"mask type", QKVET_OPTION_MASK, [](A& a) { a.mask.dtype = kF32; }},
      {"mask shape", QKVET_OPTION_MASK, [](A& a) { a.mask.shape = kThree; }},
      {"mask rank", QKVET_OPTION_MASK, [](A& a) { a.mask.ndim = 3; },
       QKVET_UNSUPPORTED},
      {"bias shape", QKVET_OPTION_BIAS, [](A& a) { a.bias.shape = kThree; }},
      {"bias type", QKVET_OPTION_BIAS, [](A& a) { a.bias.dtype = kF64; },
       QKVET_UNSUPPORTED},
      {"sink shape", QKVET_OPTION_SINK, [](A& a) { a.sink.shape = kThree; }},
      {"slopes shape", QKVET_OPTION_ALIBI,
       [](A& a) { a.slopes.shape = kThree; }},
      {"slopes members", QKVET_OPTION_ALIBI | QKVET_OPTION_ALIBI_PER_MEMBER,
       [](A& a) { a.slopes.shape = kThreeOfTwo; }},
      {"slopes heads", QKVET_OPTION_ALIBI | QKVET_OPTION_ALIBI_PER_MEMBER,
       [](A& a) { a.slopes.shape = kTwoOfThree; }},
      {"slopes of a packed batch",
       QKVET_OPTION_ALIBI | QKVET_OPTION_ALIBI_PER_MEMBER | QKVET_OPTION_PACKED,
       [](A& a) { a.slopes.shape = kThreeOfTwo; }},
      {"q_len shape", QKVET_OPTION_LENGTHS,
       [](A& a) { a.q_len.shape = kThree; }},
      {"kv_len type", QKVET_OPTION_LENGTHS,
       [](A& a) { a.kv_len.dtype = kF32; }},
      {"one list", QKVET_OPTION_PACKED, [](A& a) { a.cu_seqlens_k = {}; }},
      {"the other list", QKVET_OPTION_PACKED,
       [](A& a) { a.cu_seqlens_q = {}; }},
      {"unequal lists", QKVET_OPTION_PACKED,
       [](A& a) { a.cu_seqlens_q.shape = kThree + 1; }},
      {"both", QKVET_OPTION_PACKED | QKVET_OPTION_LENGTHS, [](A&) {}},
  };
}

Asked asked_for(uint64_t options) {
  Asked asked = usual(options);
  if (asked.has(QKVET_OPTION_PACKED)) {
    asked.problem.batch = 1;
    asked.cu_q = {0, 4};
    asked.cu_k = {0, 5};
  }
  if (asked.has(QKVET_OPTION_LENGTHS)) {
    asked.q_len.assign(size_t(asked.problem.batch), 3);
    asked.kv_len.assign(size_t(asked.problem.batch), 4);
  }
  return asked;
}

bool is_untouched(const OptionCall& call) {
  for (const float x : call.outputs()) {
    if (x != OptionCall::kUnwritten) {
      return false;
    }
  }
  return true;
}

TEST(OptionsRefused, ContradictionsInForm) {
  for (const Wrong& wrong : wrong_forms()) {
    int checked = 0;
    OptionCall call(asked_for(wrong.options), Storage::kF32);
    for (const qkvet_kernel* kernel : kernels_of_any_dialect()) {
      if ((wrong.options & ~kernel->capabilities->options) != 0) {
        continue;
      }
      ++checked;
      qkvet_forward_args args = call.args();
      const bool right =
          wrong.options != (QKVET_OPTION_PACKED | QKVET_OPTION_LENGTHS);
      EXPECT_EQ(kernel->supports(kernel, &args, nullptr) == QKVET_OK, right);
      wrong.spoil(args);
      Reason why;
      EXPECT_EQ(kernel->supports(kernel, &args, &why.text), wrong.status)
          << kernel->name << " " << wrong.name;
      EXPECT_NE(std::string(why.room), "");
      EXPECT_EQ(OpenKernel(kernel).forward(args), wrong.status);
      EXPECT_TRUE(is_untouched(call)) << kernel->name << " " << wrong.name;
    }
    EXPECT_GE(checked, 20) << wrong.name;
  }
}

TEST(OptionsRefused, LengthsThatCannotBe) {
  using List = std::vector<int64_t>;
  const std::pair<List, List> lengths[] = {
      {{3, 5}, {4, 4}}, {{3, -1}, {4, 4}}, {{3, 3}, {4, 6}}, {{3, 3}, {-1, 4}}};
  const std::pair<List, List> packed[] = {
      {{0, 3, 2}, {0, 2, 4}}, {{0, 2, 4}, {0, 4, 3}}, {{-1, 2, 4}, {0, 2, 4}},
      {{1, 2, 4}, {0, 2, 4}}, {{0, 2, 4}, {1, 2, 4}}, {{0, 2, 5}, {0, 2, 4}},
      {{0, 2, 4}, {0, 2, 6}}};
  std::vector<Asked> calls;
  for (const auto& [q_len, kv_len] : lengths) {
    calls.push_back(usual(QKVET_OPTION_LENGTHS));
    calls.back().q_len = q_len;
    calls.back().kv_len = kv_len;
  }
  for (const auto& [cu_q, cu_k] : packed) {
    calls.push_back(usual(QKVET_OPTION_PACKED));
    calls.back().problem.batch = 1;
    calls.back().cu_q = cu_q;
    calls.back().cu_k = cu_k;
  }
  for (const Storage type : kAllStorages) {
    for (const Asked& asked : calls) {
      OptionCall call(asked, type);
      for (const qkvet_kernel* kernel : kernels_of_any_dialect(type)) {
        if ((asked.options & ~kernel->capabilities->options) != 0) {
          continue;
        }
        const qkvet_forward_args args = call.args();
        OpenKernel open(kernel);
        EXPECT_EQ(kernel->supports(kernel, &args, nullptr), QKVET_OK);
        EXPECT_EQ(open.forward(args), QKVET_INVALID_ARGUMENT)
            << kernel->name << " " << asked.text();
        EXPECT_NE(std::string(open.reason().room), "");
        EXPECT_TRUE(is_untouched(call)) << kernel->name << " " << asked.text();
      }
    }
  }
}

// The largest counts that fit into the field: no sum overflows.
TEST(OptionsRefused, WindowsWiderThanAnything) {
  constexpr int64_t kMost = INT64_MAX;
  Asked asked = usual(QKVET_OPTION_WINDOW);
  asked.left = asked.right = kMost;
  OptionCall call(asked, Storage::kF32);
  Asked without = usual(0);
  OptionCall plain(without, Storage::kF32);
  for (const qkvet_kernel* kernel : kernels_of_any_dialect()) {
    if ((asked.options & ~kernel->capabilities->options) == 0) {
      ASSERT_EQ(OpenKernel(kernel).forward(call.args()), QKVET_OK);
      ASSERT_EQ(OpenKernel(kernel).forward(plain.args()), QKVET_OK);
      const std::vector<float> a = call.outputs(), b = plain.outputs();
      for (size_t n = 0; n < a.size(); ++n) {
        EXPECT_NEAR(a[n], b[n], kRoom) << kernel->name;
      }
    }
  }
}

TEST(OptionsRefused, MaskWithCausalByTheKernelThatSaysSo) {
  int refusing = 0;
  Asked asked = usual(QKVET_OPTION_MASK);
  asked.problem.causal = QKVET_CAUSAL_TOP_LEFT;
  OptionCall call(asked, Storage::kF32);
  for (const qkvet_kernel* kernel : kernels_of_any_dialect()) {
    if ((asked.options & ~kernel->capabilities->options) != 0) {
      continue;
    }
    const bool both =
        kernel->dialect->mask_and_causal == QKVET_MASK_AND_CAUSAL_BOTH;
    const qkvet_forward_args args = call.args();
    const qkvet_status status = both ? QKVET_OK : QKVET_UNSUPPORTED;
    EXPECT_EQ(kernel->supports(kernel, &args, nullptr), status);
    EXPECT_EQ(OpenKernel(kernel).forward(args), status) << kernel->name;
    refusing += both ? 0 : 1;
  }
  EXPECT_EQ(refusing, 1);
}

// A kernel declares the options that it takes alone: heads without a width and
// no heads at all are refused by those that take extents of 0, too.
TEST(OptionsRefused, NoHeadsAndNoWidth) {
  OptionCall call(usual(kMostOptions), Storage::kF32);
  int64_t none[] = {2, 2, 4, 0}, no_heads[] = {2, 0, 4, 3};
  for (const qkvet_kernel* kernel : kernels_of_any_dialect()) {
    for (int64_t* shape : {none, no_heads}) {
      qkvet_forward_args args = call.args();
      args.q.shape = shape;
      EXPECT_EQ(kernel->supports(kernel, &args, nullptr), QKVET_UNSUPPORTED)
          << kernel->name;
    }
  }
}

// Whatever stands in them: a list that does not fit is refused, and so is one
// beside a packed batch.
TEST(OptionsRefused, ListsOfKeysThatDoNotFit) {
  int32_t numbers[64] = {};
  int64_t right[] = {2, 1, 4, 2}, rows[] = {2, 1, 5, 2}, heads[] = {2, 2, 4, 2},
          steps[] = {8, 8, 2, 1}, counted[] = {2, 4}, counted_rows[] = {2, 5},
          counted_steps[] = {4, 1};
  const auto list = [&](int32_t rank, int64_t* shape, int64_t* strides) {
    qkvet_tensor t = {};
    t.data = numbers;
    t.device_type = QKVET_DEVICE_CPU;
    t.ndim = rank;
    t.dtype = {QKVET_DTYPE_INT, 32, 1};
    t.shape = shape;
    t.strides = strides;
    return t;
  };
  const qkvet_tensor keys = list(4, right, steps);
  const qkvet_tensor counts = list(2, counted, counted_steps);
  using A = qkvet_forward_args;
  const Wrong wrongs[] = {
      {"rows", 0, [&](A& a) { a.key_indices = list(4, rows, steps); }},
      {"heads", 0, [&](A& a) { a.key_indices = list(4, heads, steps); }},
      {"rank", 0, [&](A& a) { a.key_indices.ndim = 3; }, QKVET_UNSUPPORTED},
      {"type", 0, [&](A& a) { a.key_indices.dtype.bits = 64; }},
      {"counted rows", 0,
       [&](A& a) { a.topk_length = list(2, counted_rows, counted_steps); }},
      {"counted type", 0, [&](A& a) { a.topk_length.dtype = kF32; }},
      {"counts alone", 0, [&](A& a) { a.key_indices = {}; }},
      {"blocks", 0, [](A& a) { a.key_block_size = -1; }},
      {"blocks alone", 0, [](A& a) {
         a.key_indices = a.topk_length = {};
         a.key_block_size = 2;
       }}};
  for (const Wrong& wrong : wrongs) {
    int checked = 0;
    OptionCall call(asked_for(wrong.options), Storage::kF32);
    for (const qkvet_kernel* kernel : kernels_of_any_dialect()) {
      if ((kernel->capabilities->options & QKVET_OPTION_KEY_LISTS) == 0) {
        continue;
      }
      ++checked;
      qkvet_forward_args args = call.args();
      args.key_indices = keys;
      args.topk_length = counts;
      if (wrong.options == 0) {
        EXPECT_EQ(kernel->supports(kernel, &args, nullptr), QKVET_OK);
      }
      wrong.spoil(args);
      Reason why;
      EXPECT_EQ(kernel->supports(kernel, &args, &why.text), wrong.status)
          << kernel->name << " " << wrong.name;
      EXPECT_NE(std::string(why.room), "");
      EXPECT_EQ(OpenKernel(kernel).forward(args), wrong.status);
      EXPECT_TRUE(is_untouched(call)) << kernel->name << " " << wrong.name;
    }
    EXPECT_GE(checked, 2) << wrong.name;
  }
}

// Masks in a few numbers of a call of two members, four rows and five keys,
// which outlive what points to them.
struct FieldTensors {
  int32_t numbers[64] = {};
  uint8_t tree[32];
  int64_t rows[2] = {2, 4}, keys[2] = {2, 5}, ranges[3] = {2, 1, 2},
          drafts[3] = {2, 4, 4};
  int64_t row_steps[2] = {4, 1}, key_steps[2] = {5, 1},
          range_steps[3] = {2, 2, 1}, draft_steps[3] = {16, 4, 1};

  FieldTensors() { std::fill_n(tree, 32, uint8_t{1}); }

  static qkvet_tensor tensor(void* data, qkvet_dtype type, int32_t rank,
                             int64_t* shape, int64_t* strides) {
    qkvet_tensor t = {};
    t.data = data;
    t.device_type = QKVET_DEVICE_CPU;
    t.ndim = rank;
    t.dtype = type;
    t.shape = shape;
    t.strides = strides;
    return t;
  }
  void give(qkvet_forward_args& args) {
    constexpr qkvet_dtype kInts = {QKVET_DTYPE_INT, 32, 1};
    constexpr qkvet_dtype kBytes = {QKVET_DTYPE_UINT, 8, 1};
    args.segments_q = tensor(numbers, kInts, 2, rows, row_steps);
    args.segments_k = tensor(numbers + 16, kInts, 2, keys, key_steps);
    args.full_ranges = tensor(numbers + 32, kInts, 3, ranges, range_steps);
    args.tree_mask = tensor(tree, kBytes, 3, drafts, draft_steps);
  }
};

constexpr uint64_t kFields = QKVET_OPTION_SEGMENTS | QKVET_OPTION_FULL_RANGES |
                             QKVET_OPTION_CHUNK | QKVET_OPTION_TREE_MASK;

TEST(OptionsRefused, MasksInAFewNumbersThatDoNotFit) {
  FieldTensors fields;
  int64_t three[] = {2, 4, 5}, of_three[] = {2, 1, 3};
  using A = qkvet_forward_args;
  const Wrong wrongs[] = {
      {"segments of rows alone", 0, [](A& a) { a.segments_k = {}; }},
      {"segments of keys alone", 0, [](A& a) { a.segments_q = {}; }},
      {"as many rows as keys", 0,
       [&](A& a) { a.segments_q.shape = fields.keys; }},
      {"as many keys as rows", 0,
       [&](A& a) { a.segments_k.shape = fields.rows; }},
      {"two types", 0, [](A& a) { a.segments_k.dtype.bits = 64; }},
      {"segments type", 0,
       [](A& a) { a.segments_q.dtype = a.segments_k.dtype = kF32; }},
      {"ends alone", 0, [&](A& a) { a.full_ranges.shape = of_three; }},
      {"ranges type", 0, [](A& a) { a.full_ranges.dtype = kF32; }},
      {"ranges of one member", 0,
       [&](A& a) { a.full_ranges.shape = of_three + 1; }},
      {"a tree of keys", 0, [&](A& a) { a.tree_mask.shape = three; }},
      {"tree type", 0, [](A& a) { a.tree_mask.dtype = kF32; }},
      {"chunk", 0,
       [](A& a) {
         a.full_ranges = {};
         a.chunk = -1;
       }},
      {"a chunk beside ranges", 0, [](A& a) { a.chunk = 2; }}};
  for (const Wrong& wrong : wrongs) {
    int checked = 0;
    OptionCall call(usual(0), Storage::kF32);
    for (const qkvet_kernel* kernel : kernels_of_any_dialect()) {
      if ((kFields & ~kernel->capabilities->options) != 0) {
        continue;
      }
      ++checked;
      qkvet_forward_args args = call.args();
      fields.give(args);
      EXPECT_EQ(kernel->supports(kernel, &args, nullptr), QKVET_OK)
          << kernel->name;
      wrong.spoil(args);
      Reason why;
      EXPECT_EQ(kernel->supports(kernel, &args, &why.text), wrong.status)
          << kernel->name << " " << wrong.name;
      EXPECT_NE(std::string(why.room), "");
      EXPECT_EQ(OpenKernel(kernel).forward(args), wrong.status);
      EXPECT_TRUE(is_untouched(call)) << kernel->name << " " << wrong.name;
    }
    EXPECT_GE(checked, 2) << wrong.name;
  }
}

// The control of the above: what fits is read. Both members have segments 0 0 1
// 1 of rows, and 0 0 0 1 1 of keys.
TEST(OptionsRefused, MasksInAFewNumbersThatFitAreRead) {
  FieldTensors fields;
  const int32_t of_rows[] = {0, 0, 1, 1}, of_keys[] = {0, 0, 0, 1, 1};
  for (int b = 0; b < 2; ++b) {
    std::copy_n(of_rows, 4, fields.numbers + 4 * b);
    std::copy_n(of_keys, 5, fields.numbers + 16 + 5 * b);
  }
  for (const qkvet_kernel* kernel : kernels_of_any_dialect()) {
    if ((kFields & ~kernel->capabilities->options) != 0) {
      continue;
    }
    OptionCall call(usual(0), Storage::kF32);
    qkvet_forward_args args = call.args();
    fields.give(args);
    args.full_ranges = {};
    ASSERT_EQ(OpenKernel(kernel).forward(args), QKVET_OK) << kernel->name;
    const std::vector<float> apart = call.outputs();
    args.segments_q = args.segments_k = args.tree_mask = {};
    ASSERT_EQ(OpenKernel(kernel).forward(args), QKVET_OK) << kernel->name;
    EXPECT_NE(call.outputs(), apart) << kernel->name;
  }
}

}  // namespace
}  // namespace qkvet::impl::options_refused_test
