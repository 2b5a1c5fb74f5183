// SPDX-License-Identifier: Apache-2.0
// Node tests of Attention that onnx 1.23.2 made (testdata/onnx_*), and nodes
// that these do not have.
#include "golden/import/import_onnx.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "golden/format/reshape.h"

namespace qkvet::golden::import_onnx_test {
namespace {

using Shape = std::vector<int64_t>;

ImportedOnnx folder(const std::string& name) {
  std::string error;
  const auto result = import_onnx_folder(QKVET_TESTDATA "/" + name, &error);
  EXPECT_TRUE(result.has_value()) << error;
  return result.value_or(ImportedOnnx{});
}

TEST(ImportOnnx, ReadsNodeTests) {
  const struct {
    std::string name, options, tensors;
  } rows[] = {
      {"onnx_3d", "",
       "k f32 [1, 3, 2, 4], o f32 [1, 3, 2, 4], q f32 [1, 3, 2, 4], v f32 [1, "
       "3, 2, 4]"},
      {"onnx_past", "causal=br",
       "k f32 [2, 3, 7, 8], o f32 [2, 3, 4, 8], q f32 [2, 3, 4, 8], v f32 [2, "
       "3, 7, 8]"},
      {"onnx_lengths", "causal=br,kvlen=8.5",
       "k f16 [2, 2, 8, 8], o f16 [2, 4, 1, 8], q f16 [2, 4, 1, 8], v f16 [2, "
       "2, 8, 8]"},
      {"onnx_weights", "",
       "k f16 [1, 2, 2, 8], mask bool [1, 1, 2, 2], o f16 [1, 2, 2, 8], q f16 "
       "[1, 2, 2, 8], v f16 [1, 2, 2, 8], weights f16 [1, 2, 2, 2]"},
      {"onnx_window", "window=1.2",
       "k f32 [1, 1, 5, 1], o f32 [1, 1, 5, 1], q f32 [1, 1, 5, 1], v f32 [1, "
       "1, 5, 1]"}};
  for (const auto& row : rows) {
    const ImportedOnnx result = folder(row.name);
    EXPECT_EQ(result.options, row.options) << row.name;
    EXPECT_EQ(names_text(result.tensors), row.tensors) << row.name;
  }
}

// [B,T,H*d]: the heads of a token are adjacent.
TEST(ImportOnnx, HeadsOfThreeExtentsAreTakenApart) {
  const ImportedOnnx result = folder("onnx_3d");
  const NamedTensor& q = result.tensors.at("q");
  // onnx gives every token of Q the number of its head in this test, from 1.
  for (size_t n = 0; n < 24; ++n)
    EXPECT_EQ(numbers_of(q)[n], static_cast<double>(n / 8 + 1)) << n;
}

TEST(ImportOnnx, WhatIsNoNodeTestIsNamed) {
  std::string error;
  EXPECT_FALSE(import_onnx_folder(QKVET_TESTDATA "/nowhere", &error));
  EXPECT_TRUE(error.ends_with("model.onnx: cannot be read")) << error;
}

// A node with Q, K and V of one member, one head and one channel.
struct NodeTest {
  explicit NodeTest(int64_t queries, int64_t keys) {
    node.op_type = "Attention";
    node.opset = 25;
    node.outputs = node.graph_outputs = {"Y"};
    outputs.push_back(counted({1, 1, queries, 1}, 90));
    give("Q", counted({1, 1, queries, 1}, 0));
    give("K", counted({1, 1, keys, 1}, 10));
    give("V", counted({1, 1, keys, 1}, 20));
  }

  static OnnxTensor counted(const Shape& shape, float first) {
    OnnxTensor tensor = {"", FileDtype::kF32, shape, {}};
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    for (int64_t n = 0; n < count; ++n) {
      const float number = first + static_cast<float>(n);
      const auto bytes = std::as_bytes(std::span(&number, 1));
      tensor.data.insert(tensor.data.end(), bytes.begin(), bytes.end());
    }
    return tensor;
  }
  // At the next position; "" leaves it out.
  void give(const std::string& name, const OnnxTensor& tensor) {
    node.inputs.push_back(name);
    if (name.empty()) return;
    node.graph_inputs.push_back(name);
    inputs.push_back(tensor);
  }
  void give_past(int64_t tokens) {
    if (node.inputs.size() == 3) give("", {});
    give("pk", counted({1, 1, tokens, 1}, 50));
    give("pv", counted({1, 1, tokens, 1}, 60));
  }
  void give_mask(const Shape& shape, const std::string& flags) {
    OnnxTensor mask = {"", FileDtype::kBool, shape, {}};
    for (const char c : flags) mask.data.push_back(std::byte(c == '1'));
    give("m", mask);
  }
  void give_length(int64_t length) {
    while (node.inputs.size() < 6) give("", {});
    OnnxTensor lengths = {"", FileDtype::kInt64, {1}, {}};
    lengths.data.resize(8);
    std::memcpy(lengths.data.data(), &length, 8);
    give("n", lengths);
  }
  ImportedOnnx read() const {
    std::string error;
    const auto result = import_onnx(node, inputs, outputs, &error);
    EXPECT_TRUE(result.has_value()) << error;
    return result.value_or(ImportedOnnx{});
  }
  std::string error() const {
    std::string error;
    EXPECT_FALSE(import_onnx(node, inputs, outputs, &error).has_value());
    EXPECT_EQ(error.find('\n'), std::string::npos);
    return error;
  }

  OnnxNode node;
  std::vector<OnnxTensor> inputs, outputs;
};

std::string flags_of(const ImportedOnnx& result) {
  if (!result.tensors.contains("mask")) return "none";
  std::string text;
  for (const std::byte flag : result.tensors.at("mask").data)
    text += flag == std::byte{0} ? '0' : '1';
  return text;
}

TEST(ImportOnnx, CausalIsTheAlignmentThatTheOffsetMeans) {
  NodeTest plain(2, 3);
  plain.node.attributes["is_causal"] = int64_t{1};
  EXPECT_EQ(plain.read().options, "causal=tl");
  plain.node.opset = 23;
  EXPECT_EQ(plain.read().options, "causal=tl");

  NodeTest past(2, 2);
  past.node.attributes["is_causal"] = int64_t{1};
  past.give_past(3);
  EXPECT_EQ(past.read().options, "causal=br");
  EXPECT_EQ(flags_of(past.read()), "none");

  NodeTest lengths(2, 3);
  lengths.node.attributes["is_causal"] = int64_t{1};
  lengths.give_length(1);
  EXPECT_EQ(lengths.read().options, "causal=br,kvlen=1");
}

// Two queries after one token of the past, and three new keys: query 0 sees
// keys 0 and 1 of four, as in neither alignment.
TEST(ImportOnnx, WhatIsNoAlignmentBecomesAMask) {
  NodeTest test(2, 3);
  test.node.attributes["is_causal"] = int64_t{1};
  test.give_past(1);
  EXPECT_EQ(test.read().options, "");
  EXPECT_EQ(flags_of(test.read()), "11001110");
  EXPECT_EQ(test.read().tensors.at("mask").shape, (Shape{1, 1, 2, 4}));
  // With a window: one key to the left.
  test.node.attributes["left_window_size"] = int64_t{1};
  EXPECT_EQ(flags_of(test.read()), "11000110");
  // With a mask of its own, of one row.
  NodeTest masked(2, 3);
  masked.node.attributes["is_causal"] = int64_t{1};
  masked.give_mask({1, 4}, "0111");
  masked.give_past(1);
  EXPECT_EQ(flags_of(masked.read()), "01000110");
  // A window without a causal rule counts from the top left here.
  NodeTest window(2, 3);
  window.node.attributes["right_window_size"] = int64_t{0};
  window.node.attributes["left_window_size"] = int64_t{-1};
  EXPECT_EQ(window.read().options, "");
  EXPECT_EQ(flags_of(window.read()), "100110");
}

TEST(ImportOnnx, PastTokensStandInFront) {
  NodeTest test(2, 2);
  test.give_past(1);
  const ImportedOnnx result = test.read();
  EXPECT_EQ(numbers_of(result.tensors.at("k")),
            (std::vector<double>{50, 10, 11}));
  EXPECT_EQ(numbers_of(result.tensors.at("v")),
            (std::vector<double>{60, 20, 21}));
}

TEST(ImportOnnx, AMaskThatIsShortHidesTheRest) {
  NodeTest flags(2, 3);
  flags.give_mask({2, 1}, "11");
  EXPECT_EQ(flags_of(flags.read()), "100100");
  NodeTest numbers(1, 3);
  numbers.give("m", NodeTest::counted({2}, 5));
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(numbers_of(numbers.read().tensors.at("bias")),
            (std::vector<double>{5, 6, -inf}));
}

TEST(ImportOnnx, ScaleAndSoftcapAreTokens) {
  NodeTest test(1, 1);
  test.node.attributes["scale"] = 0.01f;
  test.node.attributes["softcap"] = 2.0f;
  test.node.attributes["softmax_precision"] = int64_t{1};
  EXPECT_EQ(test.read().options, "scale=0.01,softcap=2");
  test.node.attributes["softcap"] = 0.0f;
  EXPECT_EQ(test.read().options, "scale=0.01");
}

TEST(ImportOnnx, OnlyWeightsOfTheSoftmaxAreKept) {
  NodeTest test(1, 2);
  test.node.outputs = {"Y", "", "", "W"};
  test.node.graph_outputs = {"Y", "W"};
  test.outputs.push_back(NodeTest::counted({1, 1, 1, 2}, 7));
  for (int64_t mode = 0; mode < 4; ++mode) {
    test.node.attributes["qk_matmul_output_mode"] = mode;
    EXPECT_EQ(test.read().tensors.contains("weights"), mode == 3);
  }
  EXPECT_EQ(numbers_of(test.read().tensors.at("weights")),
            (std::vector<double>{7, 8}));
}

TEST(ImportOnnx, WhatCannotBeSpelledIsNamed) {
  const auto error_of = [](auto change) {
    NodeTest test(2, 3);
    change(test);
    return test.error();
  };
  EXPECT_EQ(
      error_of([](NodeTest& t) { t.node.op_type = "MatMul"; }),
      "the node is \"MatMul\" of domain \"\"; allowed is \"Attention\" of "
      "\"\"");
  EXPECT_EQ(error_of([](NodeTest& t) { t.node.opset = 26; }),
            "the node is of opset 26; allowed are 23, 24 and 25");
  EXPECT_EQ(error_of([](NodeTest& t) { t.node.has_initializers = true; }),
            "the model has tensors of its own");
  EXPECT_EQ(error_of([](NodeTest& t) { t.node.attributes["x"] = int64_t{1}; }),
            "attribute \"x\" is none of Attention of opset 25");
  EXPECT_EQ(error_of([](NodeTest& t) {
              t.node.opset = 24;
              t.node.attributes["left_window_size"] = int64_t{1};
            }),
            "attribute \"left_window_size\" is none of Attention of opset 24");
  EXPECT_EQ(
      error_of([](NodeTest& t) { t.node.attributes["scale"] = int64_t{1}; }),
      "attribute \"scale\" is of another type than it should");
  EXPECT_EQ(error_of([](NodeTest& t) {
              t.node.attributes["left_window_size"] = int64_t{-2};
            }),
            "a window of -2 and -1 keys; allowed are -1 (all) and numbers from "
            "0 on");
  EXPECT_EQ(error_of([](NodeTest& t) { t.inputs.pop_back(); }),
            "V has no file: \"V\" is none of the graph's first 2");
  EXPECT_EQ(error_of([](NodeTest& t) { t.node.inputs[1] = ""; }),
            "K is missing");
  EXPECT_EQ(error_of([](NodeTest& t) { t.node.outputs[0] = ""; }),
            "Y is missing");
  EXPECT_EQ(error_of([](NodeTest& t) { t.node.inputs.resize(8); }),
            "the node has 8 tensors where Attention has 7");
  EXPECT_EQ(error_of([](NodeTest& t) {
              t.give_past(1);
              t.node.inputs.pop_back();
            }),
            "past_key and past_value go together");
  EXPECT_EQ(error_of([](NodeTest& t) {
              t.give_past(1);
              t.give_length(1);
            }),
            "nonpad_kv_seqlen does not go with past_key");
  EXPECT_EQ(error_of([](NodeTest& t) {
              t.node.opset = 23;
              t.give_length(1);
            }),
            "nonpad_kv_seqlen is none of opset 23");
}

TEST(ImportOnnx, ExtentsThatDoNotFitAreNamed) {
  const auto error_of = [](auto change) {
    NodeTest test(2, 3);
    change(test);
    return test.error();
  };
  EXPECT_EQ(error_of([](NodeTest& t) { t.inputs[0].shape = {2}; }),
            "Q is f32 [2]; allowed are [B,H,T,d] and [B,T,H*d]");
  EXPECT_EQ(error_of([](NodeTest& t) {
              t.inputs[0].shape = {1, 2, 1};
            }),
            "Q is f32 [1, 2, 1]: [B,T,H*d] does not go with 0 heads");
  EXPECT_EQ(error_of([](NodeTest& t) {
              t.inputs[2] = NodeTest::counted({1, 1, 2, 1}, 0);
            }),
            "Q is f32 [1, 1, 2, 1], K is f32 [1, 1, 3, 1] and V is f32 [1, 1, "
            "2, 1], which do not go together");
  EXPECT_EQ(error_of([](NodeTest& t) {
              t.give_past(1);
              t.inputs[3].shape = {1, 1, 1};
            }),
            "past_key is f32 [1, 1, 1], which does not go in front of K is f32 "
            "[1, 1, 3, 1]");
  EXPECT_EQ(error_of([](NodeTest& t) { t.give_length(4); }),
            "nonpad_kv_seqlen holds 4; allowed are 0 .. 3");
  EXPECT_EQ(error_of([](NodeTest& t) {
              t.give_mask({1, 4}, "1111");
            }),
            "attn_mask is bool [1, 4], which does not go with bool [1, 1, 2, "
            "3]");
  EXPECT_EQ(error_of([](NodeTest& t) {
              t.give_mask({3}, "111");
              t.inputs[3].dtype = FileDtype::kInt8;
            }),
            "attn_mask is int8 [3]; allowed are bool and f32");
}

}  // namespace
}  // namespace qkvet::golden::import_onnx_test
