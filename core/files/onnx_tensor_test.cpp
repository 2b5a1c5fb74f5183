// SPDX-License-Identifier: Apache-2.0
// Tensors and models that onnx 1.23.2 wrote: its node tests of Attention
// (testdata/onnx_*), and what helper.make_tensor makes of each type.
#include "core/files/onnx_tensor.h"

#include <gtest/gtest.h>

#include "core/testing/file_calls.h"

namespace qkvet::onnx_tensor_test {
namespace {

using Shape = std::vector<int64_t>;

std::string from_hex(std::string_view digits) {
  const auto value = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::string bytes;
  for (size_t n = 0; n + 1 < digits.size(); n += 2)
    bytes += static_cast<char>(16 * value(digits[n]) + value(digits[n + 1]));
  return bytes;
}

OnnxTensor tensor_of(const std::string& file) {
  return read_by(parse_onnx_tensor, file);
}
OnnxNode node_of(const std::string& file) {
  return read_by(parse_onnx_node, file);
}

TEST(OnnxTensor, ReadsFilesOfNodeTests) {
  const OnnxTensor q = tensor_of(test_file("onnx_f16.pb"));
  EXPECT_EQ(q.name, "Q");
  EXPECT_EQ(q.dtype, FileDtype::kF16);
  EXPECT_EQ(q.shape, (Shape{2, 4, 1, 8}));
  ASSERT_EQ(q.data.size(), 128u);
  EXPECT_EQ(text_of(q.data).substr(0, 8), from_hex("6438b939d2385c38"));
  const OnnxTensor mask = tensor_of(test_file("onnx_bool.pb"));
  EXPECT_EQ(mask.name, "attn_mask");
  EXPECT_EQ(mask.dtype, FileDtype::kBool);
  EXPECT_EQ(mask.shape, (Shape{2, 2}));
  EXPECT_EQ(text_of(mask.data), from_hex("01000000"));
}

TEST(OnnxTensor, ReadsNumbersInTheFieldsOfTheirTypes) {
  const struct {
    std::string hex, name;
    FileDtype dtype;
    Shape shape;
    std::string data;
  } rows[] = {
      {"0802100122080000803f000020c0420166",
       "f",
       FileDtype::kF32,
       {2},
       "0000803f000020c0"},
      {"0801100b4201645208000000000000e03f",
       "d",
       FileDtype::kF64,
       {1},
       "000000000000e03f"},
      {"0802100a2a0580788080034201"
       "68",
       "h",
       FileDtype::kF16,
       {2},
       "003c00c0"},
      {"080210102a05807f808003420162", "b", FileDtype::kBf16, {2}, "803f00c0"},
      {"080310092a0301000142016d", "m", FileDtype::kBool, {3}, "010001"},
      {"080210073a0cffffffffffffffffff01ac02420169",
       "i",
       FileDtype::kInt64,
       {2},
       "ffffffffffffffff2c01000000000000"},
      {"080210032a0b80ffffffffffffffff017f420163",
       "c",
       FileDtype::kInt8,
       {2},
       "807f"},
      {"0801100d4201755a0a80808080808080808001",
       "u",
       FileDtype::kUint64,
       {1},
       "0000000000000080"},
      {"10062a0107420173", "s", FileDtype::kInt32, {}, "07000000"},
      // Not packed, as older writers have it.
      {"080210012500"
       "00803f25000020c0",
       "",
       FileDtype::kF32,
       {2},
       "0000803f000020c0"},
      {"0801100b51000000000000e03f",
       "",
       FileDtype::kF64,
       {1},
       "000000000000e03f"},
      // No numbers and no field for them.
      {"08001001", "", FileDtype::kF32, {0}, ""}};
  for (const auto& row : rows) {
    const OnnxTensor tensor = tensor_of(from_hex(row.hex));
    EXPECT_EQ(tensor.name, row.name) << row.hex;
    EXPECT_EQ(tensor.dtype, row.dtype) << row.hex;
    EXPECT_EQ(tensor.shape, row.shape) << row.hex;
    EXPECT_EQ(text_of(tensor.data), from_hex(row.data)) << row.hex;
  }
}

TEST(OnnxTensor, WhatIsWrongIsNamed) {
  const struct {
    std::string hex, error;
  } rows[] = {{"", "has no data_type"},
              {"0801", "has no data_type"},
              {"08021001220400"
               "00803f",
               "4 bytes of data, but f32 [2] takes 8"},
              {"08ffffffffffffffffff011001", "f32 [-1]: an extent is negative"},
              {"1001220300803f", "field 4 ends within a number"},
              {"10092a0102", "2 is no bool; allowed are 0 .. 1"},
              {"100a2a03808004", "65536 is no f16; allowed are 0 .. 65535"},
              {"10032a02ff01", "255 is no int8; allowed are -128 .. 127"},
              {"10013a0101",
               "has numbers of type FLOAT in field 7, not in 4 or raw_data"},
              {"100122040000803f4a040000803f", "has its numbers in two fields"},
              {"10017001", "its data lie in another file"},
              {"10016a00", "its data lie in another file"},
              {"10011a00", "is a segment of a tensor"},
              {"1008320161", "holds texts"},
              {"1500000000", "field 2 is of wire type 5, not 0"},
              {"4801", "field 9 is of wire type 0, not 2"},
              {"4a7f00", "is no tensor of ONNX: end of buffer exception"},
              {"07", "is no tensor of ONNX: invalid tag exception"},
              {"ffffffffffffffffffffff",
               "is no tensor of ONNX: varint too long exception"}};
  for (const auto& row : rows)
    EXPECT_EQ(refusal_by(parse_onnx_tensor, from_hex(row.hex)), row.error)
        << row.hex;
  EXPECT_TRUE(
      refusal_by(parse_onnx_tensor, from_hex("100e"))
          .starts_with("data_type 14; allowed are 1 (FLOAT), 2 (UINT8), "));
}

TEST(OnnxTensor, AFileThatIsCutIsRefused) {
  // From its last field on, which is what makes up the tensor; a message that
  // ends between two fields is whole as far as protobuf goes.
  for (const std::string name : {"onnx_f16.pb", "onnx_bool.pb"})
    expect_cuts_refused(parse_onnx_tensor, test_file(name));
}

TEST(OnnxTensor, AnyByteIsReadOrRefused) {
  const std::string file = test_file("onnx_bool.pb");
  const int read = read_with_any_byte(
      parse_onnx_tensor, file, file.size(),
      [](const OnnxTensor& tensor, const std::string&) {
        EXPECT_EQ(check_tensor({tensor.dtype, tensor.shape, tensor.data}), "");
      });
  const int refused = static_cast<int>(file.size()) * 256 - read;
  // The name and the four numbers may be anything.
  EXPECT_GE(read, 13 * 256);
  EXPECT_GT(refused, 6 * 200);
}

TEST(OnnxNode, ReadsModelsOfNodeTests) {
  OnnxNode wanted;
  wanted.op_type = "Attention";
  wanted.opset = 25;
  wanted.inputs = wanted.graph_inputs = {"Q", "K", "V"};
  wanted.outputs = wanted.graph_outputs = {"Y"};
  wanted.attributes = {{"left_window_size", int64_t{1}},
                       {"right_window_size", int64_t{2}}};
  EXPECT_EQ(node_of(test_file("onnx_window.onnx")), wanted);

  const OnnxNode padded = node_of(test_file("onnx_padded.onnx"));
  EXPECT_EQ(padded.opset, 24);
  EXPECT_EQ(padded.inputs,
            (std::vector<std::string>{"Q", "K", "V", "attn_mask", "", "",
                                      "nonpad_kv_seqlen"}));
  EXPECT_EQ(padded.graph_inputs,
            (std::vector<std::string>{"Q", "K", "V", "attn_mask",
                                      "nonpad_kv_seqlen"}));
  EXPECT_TRUE(padded.attributes.empty());
}

TEST(OnnxNode, ReadsAttributesOfEachKind) {
  // And a list of numbers with fractions, which is unused here.
  const auto field = [](int tag, const std::string& bytes) {
    return std::string(1, static_cast<char>(tag * 8 + 2)) +
           static_cast<char>(bytes.size()) + bytes;
  };
  const auto attribute = [&](const std::string& name, int type,
                             const std::string& value) {
    return field(
        5, field(1, name) + value + from_hex("a001") + static_cast<char>(type));
  };
  const std::string graph =
      field(1, field(4, "Op") + field(7, "ai.onnx") +
                   attribute("f", 1, from_hex("150000003f")) +
                   attribute("i", 2, from_hex("18ffffffffffffffffff01")) +
                   attribute("s", 3, field(4, "ab")) +
                   attribute("n", 7, from_hex("400140ac02")) +
                   attribute("p", 7, from_hex("42020107")) +
                   attribute("g", 6, from_hex("3a040000003f")));
  const std::string opset = field(8, field(1, "") + from_hex("1017"));
  const OnnxNode read = node_of(field(7, graph) + opset);
  EXPECT_EQ(read.op_type, "Op");
  EXPECT_EQ(read.domain, "");
  EXPECT_EQ(read.opset, 23);
  EXPECT_FALSE(read.has_initializers);
  const std::map<std::string, OnnxAttribute, std::less<>> wanted = {
      {"f", 0.5f},
      {"i", int64_t{-1}},
      {"s", std::string("ab")},
      {"n", std::vector<int64_t>{1, 300}},
      {"p", std::vector<int64_t>{1, 7}},
      {"g", OnnxAttribute{}}};
  EXPECT_EQ(read.attributes, wanted);

  expect_refused_by(
      parse_onnx_node,
      {{"", "has no node"},
       {field(7, field(1, "") + field(1, "")) + opset,
        "has more than one node"},
       {field(7, graph), "imports no opset of the node's domain \"\""},
       {field(7, field(1, attribute("f", 1, "") + attribute("f", 1, ""))),
        "attribute \"f\" is there twice"},
       {"\x38\x01", "field 7 is of wire type 0, not 2"}});
  EXPECT_TRUE(node_of(field(7, graph + field(5, "")) + opset).has_initializers);
}

TEST(OnnxNode, AnyByteAndAnyCutIsReadOrRefused) {
  const std::string file = test_file("onnx_window.onnx");
  const int read = read_with_any_byte(parse_onnx_node, file, file.size(),
                                      [](const OnnxNode&, const auto&) {});
  // All cuts, because the opset comes last.
  expect_cuts_refused(parse_onnx_node, file);
  EXPECT_GT(read, static_cast<int>(file.size()));
  EXPECT_LT(read, 256 * static_cast<int>(file.size()));
}

}  // namespace
}  // namespace qkvet::onnx_tensor_test
