// SPDX-License-Identifier: Apache-2.0
// Files of safetensors: one of the library itself, written files that are read
// again, and messages about wrong files.
#include "core/files/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>

#include "core/testing/file_calls.h"

namespace qkvet::safetensors_test {
namespace {

using Shape = std::vector<int64_t>;
using Tensors = std::map<std::string, TensorToWrite, std::less<>>;

std::string headed(const std::string& header, const std::string& data = "") {
  std::string file;
  for (int i = 0; i < 8; ++i)
    file += static_cast<char>((header.size() >> (8 * i)) & 0xff);
  return file + header + data;
}

Safetensors parsed(const std::string& file) {
  return read_by(parse_safetensors, file);
}

// safetensors.numpy.save of safetensors 0.8.0 wrote it.
const std::string kFile(
    "\x08\x01\x00\x00\x00\x00\x00\x00{\"__metadata__\":{\"q\\\"\":\"x\","
    "\"format\":\"np\"},\"a\":{\"dtype\":\"I64\",\"shape\":[2,1],"
    "\"data_offsets\":[0,16]},\"b\":{\"dtype\":\"F32\",\"shape\":[2],"
    "\"data_offsets\":[16,24]},\"e\":{\"dtype\":\"F32\",\"shape\":[0,4],"
    "\"data_offsets\":[24,24]},\"s\":{\"dtype\":\"F16\",\"shape\":[],"
    "\"data_offsets\":[24,26]}}"
    "\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    "\xc0?\x00\x00\x00\xc0\x00"
    "B",
    298);
constexpr size_t kHeader = 8 + 264;  // bytes before its data

TEST(Safetensors, ReadsAFileOfTheLibrary) {
  const Safetensors file = parsed(kFile);
  const Safetensors wanted = {
      {{"a", {FileDtype::kInt64, {2, 1}, kHeader, 16}},
       {"b", {FileDtype::kF32, {2}, kHeader + 16, 8}},
       {"e", {FileDtype::kF32, {0, 4}, kHeader + 24, 0}},
       {"s", {FileDtype::kF16, {}, kHeader + 24, 2}}},
      {{"q\"", "x"}, {"format", "np"}}};
  EXPECT_EQ(file, wanted);
  float numbers[2];
  const auto data = file.tensors.at("b").data(bytes_of(kFile));
  ASSERT_EQ(data.size(), sizeof numbers);
  std::memcpy(numbers, data.data(), data.size());
  EXPECT_EQ(numbers[0], 1.5f);
  EXPECT_EQ(numbers[1], -2.0f);
}

// Orders and spaces that the library also reads.
TEST(Safetensors, ReadsAnyOrderOfTheHeader) {
  const Safetensors file = parsed(
      headed("{ \"b\": {\"shape\":[1], \"data_offsets\" : [4 ,8],\n"
             "\"dtype\":\"F32\"}, \"\":{\"dtype\":\"U8\",\"data_offsets\":[0,4]"
             ",\"shape\":[2,2]},\"c\":{\"dtype\":\"BF16\",\"shape\":[0],"
             "\"data_offsets\":[4,4]}} \t\r\n ",
             "abcdefgh"));
  ASSERT_EQ(file.tensors.size(), 3u);
  EXPECT_EQ(file.tensors.at("b").dtype, FileDtype::kF32);
  EXPECT_EQ(file.tensors.at("b").begin, file.tensors.at("").begin + 4);
  EXPECT_EQ(file.tensors.at("").shape, (Shape{2, 2}));
  EXPECT_EQ(file.tensors.at("c").bytes, 0u);
  EXPECT_EQ(parsed(headed("{}")), Safetensors{});
  EXPECT_EQ(parsed(headed("{\"__metadata__\":{}}   ")), Safetensors{});
}

TEST(Safetensors, WhatIsWrittenIsReadAgain) {
  const std::string data(64, 'x');
  Tensors tensors;
  for (int i = 0; i < kFileDtypeCount; ++i) {
    const auto dtype = static_cast<FileDtype>(i);
    const std::string name(file_dtype_name(dtype));
    const auto width = static_cast<size_t>(file_dtype_bytes(dtype));
    tensors[name] = {dtype, {2, 1, 3}, bytes_of(data).first(6 * width)};
    tensors[name + ".number"] = {dtype, {}, bytes_of(data).first(width)};
    tensors["empty " + name] = {dtype, {3, 0}, {}};
  }
  const std::string odd("\xc3\xa4\0\n\"\\", 6);
  tensors[odd] = {FileDtype::kUint8, {1}, bytes_of("!")};
  const SafetensorsMetadata metadata = {{odd, odd}, {"", ""}};
  std::string error;
  const auto file = safetensors_bytes(tensors, metadata, &error);
  ASSERT_TRUE(file.has_value()) << error;
  EXPECT_EQ(std::to_integer<int>((*file)[0]) % 8, 0);  // the header's length
  const Safetensors result = parsed(text_of(*file));
  EXPECT_EQ(result.metadata, metadata);
  ASSERT_EQ(result.tensors.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const FileTensor& read = result.tensors.at(name);
    EXPECT_EQ(read.dtype, tensor.dtype) << name;
    EXPECT_EQ(read.shape, tensor.shape) << name;
    EXPECT_EQ(text_of(read.data(*file)), text_of(tensor.data)) << name;
    EXPECT_EQ(read.begin % static_cast<size_t>(file_dtype_bytes(read.dtype)),
              0u)
        << name;
  }
}

TEST(Safetensors, TheBytesOfAFileAreThese) {
  std::string error;
  const auto file =
      safetensors_bytes({{"b", {FileDtype::kF16, {2}, bytes_of("wxyz")}},
                         {"a", {FileDtype::kBool, {}, bytes_of("!")}},
                         {"c", {FileDtype::kF16, {1, 1}, bytes_of("uv")}}},
                        {{"format", "pt"}}, &error);
  ASSERT_TRUE(file.has_value()) << error;
  EXPECT_EQ(text_of(*file),
            headed("{\"__metadata__\":{\"format\":\"pt\"},"
                   "\"a\":{\"data_offsets\":[6,7],\"dtype\":\"BOOL\","
                   "\"shape\":[]},"
                   "\"b\":{\"data_offsets\":[0,4],\"dtype\":\"F16\","
                   "\"shape\":[2]},"
                   "\"c\":{\"data_offsets\":[4,6],\"dtype\":\"F16\","
                   "\"shape\":[1,1]}}       ",
                   "wxyzuv!"));
  const auto empty = safetensors_bytes({}, {}, &error);
  ASSERT_TRUE(empty.has_value()) << error;
  EXPECT_EQ(text_of(*empty), headed("{}      "));
}

TEST(Safetensors, EveryWrongFrameIsNamed) {
  expect_refused_by(
      parse_safetensors,
      {{"",
        "is not a safetensors file: 0 bytes, and the length of the header "
        "takes 8"},
       {"1234567",
        "is not a safetensors file: 7 bytes, and the length of the header "
        "takes 8"},
       {std::string("\x01\xe1\xf5\x05\0\0\0\0{}", 10),
        "header of 100000001 bytes; at most 100000000 are allowed"},
       {std::string(8, '\xff') + "{}",
        "header of 18446744073709551615 bytes; at most 100000000 are allowed"},
       {std::string("\0\xe1\xf5\x05\0\0\0\0{}", 10),
        "header of 100000000 bytes, but only 2 follow"},
       {headed(""), "header begins with \"\", not with \"{\""},
       {headed(" {}"), "header begins with \" \", not with \"{\""},
       {headed("\xef\xbb\xbf{}"),
        "header begins with \"\\xef\", not with "
        "\"{\""},
       {headed(std::string("{}\0\0", 4)), "header: no JSON at byte 2"},
       {headed("{"), "header: no JSON at byte 1"},
       {headed("{} {}"), "header: no JSON at byte 3"},
       {headed("{\"\xff\":{}}"), "header: no JSON at byte 2"},
       {headed("{\"a\":{\"shape\":[1e999]}}"),
        "header: a number too large at byte 19"},
       {headed("{/**/}"), "header: no JSON at byte 1"},
       {headed("{}", "x"), "1 bytes of data, but the tensors take 0"}});
}

TEST(Safetensors, EveryWrongPlaceIsNamed) {
  const std::string twice =
      "{\"dtype\":\"U8\",\"shape\":[0],"
      "\"data_offsets\":[0,0]}";
  expect_refused_by(
      parse_safetensors,
      {{headed("{\"a\":1}"),
        "tensor \"a\": a number where an object must stand"},
       {headed("{\"a\":[]}"),
        "tensor \"a\": a list where an object must stand"},
       {headed("{\"a\":null}"),
        "tensor \"a\": null where an object must stand"},
       {headed("{\"__metadata__\":null}"),
        "__metadata__: null where an object must stand"},
       {headed("{\"__metadata__\":{\"n\":1}}"),
        "__metadata__, key \"n\": a number where a text must stand"},
       {headed("{\"__metadata__\":{\"n\":{}}}"),
        "__metadata__, key \"n\": an object where a text must stand"},
       {headed("{\"__metadata__\":{\"n\":\"\",\"n\":\"\"}}"),
        "__metadata__, key \"n\" is there twice"},
       {headed("{\"__metadata__\":{},\"__metadata__\":{}}"),
        "__metadata__ is there twice"},
       {headed("{\"a\":" + twice + ",\"a\":" + twice + "}"),
        "tensor \"a\" is there twice"},
       {headed("{\"\\u0061\\n\":" + twice + ",\"a\\n\":" + twice + "}"),
        "tensor \"a\\x0a\" is there twice"},
       {headed("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\"}}"),
        "tensor \"a\": dtype is there twice"},
       {headed("{\"a\":{\"strides\":[]}}"),
        "tensor \"a\": unknown key \"strides\"; allowed are dtype, shape, "
        "data_offsets"},
       {headed("{\"a\":{}}"), "tensor \"a\": dtype is missing"},
       {headed("{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,0]}}"),
        "tensor \"a\": shape is missing"},
       {headed("{\"a\":{\"dtype\":\"U8\",\"shape\":[]}}"),
        "tensor \"a\": data_offsets is missing"},
       {headed("{\"a\":{\"dtype\":[]}}"),
        "tensor \"a\", dtype: a list where a text must stand"},
       {headed("{\"a\":{\"shape\":\"\"}}"),
        "tensor \"a\", shape: a text where a list must stand"},
       {headed("{\"a\":{\"shape\":3}}"),
        "tensor \"a\", shape: a number where a list must stand"},
       {headed("{\"a\":{\"data_offsets\":{}}}"),
        "tensor \"a\", data_offsets: an object where a list must stand"}});
}

std::string entry(const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

std::string one(const std::string& dtype, const std::string& shape,
                const std::string& offsets, const std::string& data = "") {
  return headed("{\"a\":" + entry(dtype, shape, offsets) + "}", data);
}

TEST(Safetensors, EveryWrongNumberIsNamed) {
  const std::string whole = " where a whole number from 0 on must stand";
  std::string many = "[1";
  for (int i = 1; i < 65; ++i) many += ",1";
  expect_refused_by(
      parse_safetensors,
      {{one("U8", "[-1]", "[0,0]"),
        "tensor \"a\", shape: a negative number" + whole},
       {one("U8", "[1.0]", "[0,1]"),
        "tensor \"a\", shape: a number with a fraction" + whole},
       {one("U8", "[true]", "[0,1]"),
        "tensor \"a\", shape: true or false" + whole},
       {one("U8", "[\"1\"]", "[0,1]"), "tensor \"a\", shape: a text" + whole},
       {one("U8", "[[1]]", "[0,1]"), "tensor \"a\", shape: a list" + whole},
       {one("U8", "[9223372036854775808]", "[0,1]"),
        "tensor \"a\", shape: a number beyond 2^63 - 1" + whole},
       {one("U8", "[18446744073709551616]", "[0,1]"),
        "tensor \"a\", shape: a number with a fraction" + whole},
       {one("U8", many + "]", "[0,1]"),
        "tensor \"a\": a shape of more than 64 extents"},
       {one("U8", "[1]", "[0,{}]"),
        "tensor \"a\", data_offsets: an object" + whole},
       {one("U8", "[1]", "[]"),
        "tensor \"a\": data_offsets with 0 numbers, "
        "not 2"},
       {one("U8", "[1]", "[0]"),
        "tensor \"a\": data_offsets with 1 numbers, "
        "not 2"},
       {one("U8", "[1]", "[0,1,2]"),
        "tensor \"a\": data_offsets with more than 2 numbers"},
       {one("F6_E2M3", "[4]", "[0,3]", "abc"),
        "tensor \"a\": dtype \"F6_E2M3\"; allowed are F64, F32, F16, BF16, "
        "F8_E4M3, F8_E5M2, I8, U8, I64, I32, BOOL, U16, I16, U32, U64"},
       {one("F64", "[4294967296,268435456]", "[0,0]"),
        "tensor \"a\": f64 [4294967296, 268435456] takes more than 2^63 - 1 "
        "bytes"}});
}

TEST(Safetensors, EveryWrongRangeIsNamed) {
  const auto two = [](const std::string& a, const std::string& b,
                      const std::string& data) {
    return headed("{\"a\":" + a + ",\"b\":" + b + "}", data);
  };
  expect_refused_by(
      parse_safetensors,
      {{one("F32", "[1]", "[4,0]", "abcd"),
        "tensor \"a\": data_offsets 4 .. 0 run backwards"},
       {one("F32", "[2]", "[0,4]", "abcd"),
        "tensor \"a\": data_offsets 0 .. 4, but f32 [2] takes 8 bytes"},
       {one("F32", "[0]", "[0,4]", "abcd"),
        "tensor \"a\": data_offsets 0 .. 4, but f32 [0] takes 0 bytes"},
       {one("F32", "[1]", "[0,4]", "abcde"),
        "5 bytes of data, but the tensors take 4"},
       {one("F32", "[1]", "[0,4]", "abc"),
        "3 bytes of data, but the tensors take 4"},
       {one("F32", "[1]", "[4,8]", "abcdefgh"),
        "tensor \"a\" begins at byte 4 of the data, but 0 is where those "
        "before it end"},
       {one("U8", "[1]", "[9223372036854775806,9223372036854775807]"),
        "tensor \"a\" begins at byte 9223372036854775806 of the data, but 0 is "
        "where those before it end"},
       {two(entry("F32", "[1]", "[0,4]"), entry("F32", "[1]", "[0,4]"), "abcd"),
        "tensor \"b\" begins at byte 0 of the data, but 4 is where those "
        "before it end"},
       {two(entry("F32", "[1]", "[0,4]"), entry("U8", "[2]", "[3,5]"), "abcde"),
        "tensor \"b\" begins at byte 3 of the data, but 4 is where those "
        "before it end"},
       {two(entry("U8", "[1]", "[5,6]"), entry("F32", "[1]", "[0,4]"),
            "abcdef"),
        "tensor \"a\" begins at byte 5 of the data, but 4 is where those "
        "before it end"},
       {two(entry("F32", "[1]", "[0,4]"), entry("F32", "[0]", "[2,2]"), "abcd"),
        "tensor \"b\" begins at byte 2 of the data, but 4 is where those "
        "before it end"}});
}

// A recursive reader would need a stack of that depth.
TEST(Safetensors, NestingEndsTheReading) {
  const std::string deep(1'000'000, '[');
  expect_refused_by(
      parse_safetensors,
      {{headed("{\"a\":" + deep),
        "tensor \"a\": a list where an object must stand"},
       {headed("{\"a\":{\"shape\":" + deep),
        "tensor \"a\", shape: a list where a whole number from 0 on must "
        "stand"}});
}

TEST(Safetensors, AWriterIsToldWhatIsWrong) {
  std::string error;
  const TensorToWrite byte = {FileDtype::kUint8, {}, bytes_of("x")};
  EXPECT_FALSE(safetensors_bytes({{"__metadata__", byte}}, {}, &error));
  EXPECT_EQ(error,
            "tensor \"__metadata__\": this name is that of the metadata");
  EXPECT_FALSE(safetensors_bytes({{"\xff", byte}}, {}, &error));
  EXPECT_EQ(error, "tensor \"\\xff\": its name is not UTF-8");
  EXPECT_FALSE(safetensors_bytes({{"a", byte}}, {{"k", "\xc3"}}, &error));
  EXPECT_EQ(error, "__metadata__, key \"k\" is not UTF-8");
  EXPECT_FALSE(safetensors_bytes({{"a", {FileDtype::kF32, {2}, bytes_of("x")}}},
                                 {}, &error));
  EXPECT_EQ(error, "tensor \"a\": 1 bytes of data, but f32 [2] takes 8");
}

TEST(Safetensors, AFileThatIsCutAnywhereIsRefused) {
  expect_cuts_refused(parse_safetensors, kFile);
  expect_refused_by(
      parse_safetensors,
      {{kFile + '\0', "27 bytes of data, but the tensors take 26"}});
}

// With any value in one byte of the header the result is either one line, or
// tensors that cover the data.
TEST(Safetensors, AnyByteInTheHeaderIsReadOrRefused) {
  const int read = read_with_any_byte(
      parse_safetensors, kFile, kHeader,
      [](const Safetensors& result, const std::string& file) {
        size_t bytes = 0;
        for (const auto& [name, tensor] : result.tensors) {
          EXPECT_LE(tensor.begin + tensor.bytes, file.size());
          bytes += tensor.bytes;
        }
        EXPECT_EQ(bytes, 26u);
      });
  EXPECT_GT(read, static_cast<int>(kHeader));  // what was there before
  EXPECT_LT(read, static_cast<int>(kHeader) * 256 / 10);
}

}  // namespace
}  // namespace qkvet::safetensors_test
