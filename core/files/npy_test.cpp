// SPDX-License-Identifier: Apache-2.0
// .npy files: those of NumPy itself, written files that are read again, and
// messages about wrong files. The bytes under "NumPy" are those that
// numpy.lib.format.write_array of NumPy 2.4.6 wrote.
#include "core/files/npy.h"

#include <gtest/gtest.h>

#include <cstring>

#include "core/testing/file_calls.h"

namespace qkvet::npy_test {
namespace {

using Shape = std::vector<int64_t>;

// A file of version 1.0 with only this header.
std::string headed(const std::string& header, const std::string& data = "") {
  std::string file("\x93NUMPY\x01\0", 8);
  file += static_cast<char>(header.size() & 0xff);
  file += static_cast<char>(header.size() >> 8);
  return file + header + data;
}

// As NumPy pads it.
std::string numpy_file(std::string header, const std::string& data) {
  header.resize(117, ' ');
  return headed(header + "\n", data);
}

std::string described(const std::string& descr, const std::string& shape,
                      const std::string& data = "") {
  return headed("{'descr': '" + descr +
                    "', 'fortran_order': False, 'shape': " + shape + "}",
                data);
}

NpyArray parsed(const std::string& file) { return read_by(parse_npy, file); }

const std::string kFloats(
    "\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': "
    "(2, 3), }                                                          \n"
    "\x00\x00\x00\x00\x00\x00\x80?\x00\x00\x00@\x00\x00@@\x00\x00\x80@\x00\x00"
    "\xa0@",
    152);

TEST(Npy, ReadsTheFloatsOfNumPy) {
  const NpyArray array = parsed(kFloats);
  const NpyArray wanted = {{FileDtype::kF32, {2, 3}, 128, 24}, false};
  EXPECT_EQ(array, wanted);
  float numbers[6];
  const auto data = array.tensor.data(bytes_of(kFloats));
  ASSERT_EQ(data.size(), sizeof numbers);
  std::memcpy(numbers, data.data(), data.size());
  for (int i = 0; i < 6; ++i) EXPECT_EQ(numbers[i], static_cast<float>(i));
}

TEST(Npy, ReadsOtherArraysOfNumPy) {
  const struct {
    std::string header, data;
    FileDtype dtype;
    Shape shape;
    bool fortran;
  } rows[] = {
      {"{'descr': '<f8', 'fortran_order': True, 'shape': (2, 2), }",
       std::string("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0@\0\0\0\0\0\0\xf0?\0\0\0\0\0"
                   "\0\x08@",
                   32),
       FileDtype::kF64,
       {2, 2},
       true},
      {"{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }",
       std::string("\x01\0\x01", 3),
       FileDtype::kBool,
       {3},
       false},
      {"{'descr': '<f2', 'fortran_order': False, 'shape': (), }",
       std::string("\0>", 2),
       FileDtype::kF16,
       {},
       false},
      {"{'descr': '<i8', 'fortran_order': False, 'shape': (0, 3), }",
       "",
       FileDtype::kInt64,
       {0, 3},
       false},
      {"{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }",
       "\x07\x08",
       FileDtype::kUint8,
       {2},
       false},
      {"{'descr': '|i1', 'fortran_order': False, 'shape': (1,), }",
       "\xff",
       FileDtype::kInt8,
       {1},
       false}};
  for (const auto& row : rows) {
    const std::string file = numpy_file(row.header, row.data);
    const NpyArray wanted = {{row.dtype, row.shape, 128, row.data.size()},
                             row.fortran};
    EXPECT_EQ(parsed(file), wanted) << row.header;
    // A file written from it is identical to NumPy's.
    std::string error;
    const auto again = npy_bytes({row.dtype, row.shape, bytes_of(row.data)},
                                 row.fortran, &error);
    ASSERT_TRUE(again.has_value()) << error;
    EXPECT_EQ(text_of(*again), file);
  }
}

TEST(Npy, ReadsVersionsTwoAndThreeOfNumPy) {
  for (const char version : {'\x02', '\x03'}) {
    std::string file(
        "\x93NUMPY\x02\x00t\x00\x00\x00{'descr': '<i4', 'fortran_order': "
        "False, 'shape': (2,), }                                              "
        "            \n\x01\x00\x00\x00\xfe\xff\xff\xff",
        136);
    file[6] = version;
    const NpyArray wanted = {{FileDtype::kInt32, {2}, 128, 8}, false};
    EXPECT_EQ(parsed(file), wanted);
  }
}

TEST(Npy, ReadsAnyOrderQuotesAndWhiteSpace) {
  const NpyArray wanted = {{FileDtype::kInt16, {2, 1}, 0, 4}, true};
  for (const std::string header :
       {"{\"shape\":(2,1),\"descr\":\"<i2\",\"fortran_order\":True}",
        "\n{ 'fortran_order'\t:True ,'shape' : ( 2 , 1 , ) , \"descr\":'=i2',}",
        "{'descr':'<i2',\r\n\f'fortran_order':True,'shape':(2,1)} \n\n"}) {
    NpyArray array = parsed(headed(header, "abcd"));
    EXPECT_EQ(array.tensor.begin, 10 + header.size());
    array.tensor.begin = 0;
    EXPECT_EQ(array, wanted) << header;
  }
}

TEST(Npy, WhatIsWrittenIsReadAgain) {
  const std::string data(64, 'x');
  for (int i = 0; i < kFileDtypeCount; ++i) {
    const auto dtype = static_cast<FileDtype>(i);
    const auto width = static_cast<size_t>(file_dtype_bytes(dtype));
    for (const Shape& shape : {Shape{}, {4}, {1, 3}, {0}, {5, 0, 2}, {2, 1, 2}})
      for (const bool fortran : {false, true}) {
        size_t bytes = width;
        for (const int64_t extent : shape) bytes *= static_cast<size_t>(extent);
        std::string error;
        const auto file = npy_bytes({dtype, shape, bytes_of(data).first(bytes)},
                                    fortran, &error);
        ASSERT_TRUE(file.has_value()) << error;
        const NpyArray array = parsed(text_of(*file));
        EXPECT_EQ(array.tensor.shape, shape);
        EXPECT_EQ(array.fortran_order, fortran);
        EXPECT_EQ(array.tensor.begin % 64, 0u);
        EXPECT_EQ(text_of(array.tensor.data(*file)), data.substr(0, bytes));
        // NumPy has no bf16 and no fp8: their bits.
        FileDtype wanted = dtype;
        if (dtype == FileDtype::kBf16) wanted = FileDtype::kUint16;
        if (dtype == FileDtype::kFp8e4m3 || dtype == FileDtype::kFp8e5m2)
          wanted = FileDtype::kUint8;
        EXPECT_EQ(array.tensor.dtype, wanted);
      }
  }
}

TEST(Npy, TheLongestHeaderIsReadAgain) {
  Shape shape(kMostFileExtents, INT64_MAX);
  shape[63] = 0;
  shape[0] = 1;
  std::string error;
  EXPECT_FALSE(npy_bytes({FileDtype::kInt8, shape, {}}, false, &error));
  EXPECT_EQ(error.substr(error.find(']')), "] takes more than 2^63 - 1 bytes");
  shape.assign(kMostFileExtents, 1);
  shape[5] = INT64_MAX;
  shape[63] = 0;
  const auto file = npy_bytes({FileDtype::kInt8, shape, {}}, false, &error);
  ASSERT_TRUE(file.has_value()) << error;
  EXPECT_EQ(parsed(text_of(*file)).tensor.shape, shape);
}

TEST(Npy, EveryWrongFrameIsNamed) {
  expect_refused_by(
      parse_npy,
      {{"", "is not a .npy file: it begins with \"\", not with \"\\x93NUMPY\""},
       {"PK\x03\x04\"\\abc",
        "is not a .npy file: it begins with \"PK\\x03\\x04\\\"\\\\\", not with "
        "\"\\x93NUMPY\""},
       {"\x93NUMPY\x01", "ends before its version"},
       {std::string("\x93NUMPY\0\0", 8),
        "is of version 0.0; allowed are 1.0, 2.0 and 3.0"},
       {"\x93NUMPY\x01\x01", "is of version 1.1; allowed are 1.0, 2.0 and 3.0"},
       {std::string("\x93NUMPY\x04\0\0\0\0\0", 12),
        "is of version 4.0; allowed are 1.0, 2.0 and 3.0"},
       {std::string("\x93NUMPY\x01\0v", 9),
        "ends before the length of its header"},
       {std::string("\x93NUMPY\x02\0v\0\0", 11),
        "ends before the length of its header"},
       {std::string("\x93NUMPY\x01\0v\0{}", 12),
        "header of 118 bytes, but only 2 follow"},
       {std::string("\x93NUMPY\x03\0\xff\xff\xff\xff{}", 14),
        "header of 4294967295 bytes, but only 2 follow"}});
}

TEST(Npy, EveryWrongKeyIsNamed) {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, ";
  const std::string keys =
      "; allowed are descr, fortran_order and shape, each once";
  expect_refused_by(
      parse_npy,
      {{headed(""), "header, byte 0: ends where \"{\" must stand"},
       {headed("[]"), "header, byte 0: \"[\" where \"{\" must stand"},
       {headed("{"), "header, byte 1: ends where a text in quotes must stand"},
       {headed("{,}"),
        "header, byte 1: \",\" where a text in quotes must stand"},
       {headed("{}"), "header: descr is missing" + keys},
       {headed(good + "}"), "header: shape is missing" + keys},
       {headed("{'descr': '<f4', 'shape': (), }"),
        "header: fortran_order is missing" + keys},
       {headed(good + "'descr': '<f4'}"),
        "header: descr is there twice" + keys},
       {headed(good + "'\ncolour': 1}"),
        "header: unknown key \"\\x0acolour\"" + keys},
       {headed("{'descr"), "header, byte 2: a text without its end"},
       {headed("{'descr\"}"), "header, byte 2: a text without its end"},
       {headed("{'de\\'scr'}"), "header, byte 2: a backslash in a text"},
       {headed("{'descr' '<f4'}"),
        "header, byte 9: \"'\" where \":\" must stand"},
       {headed("{'descr': <f4}"),
        "header, byte 10: \"<\" where a text in quotes must stand"},
       {headed("{'descr': '<f4' 'shape': ()}"),
        "header, byte 16: \"'\" where \",\" or \"}\" must stand"},
       {headed("{'fortran_order': 0}"),
        "header, byte 18: \"0\" where True or False must stand"},
       {headed("{'fortran_order': Truely}"),
        "header, byte 22: \"l\" where \",\" or \"}\" must stand"}});
}

TEST(Npy, EveryWrongValueIsNamed) {
  std::string many = "(";
  for (int i = 0; i < 65; ++i) many += "1,";
  expect_refused_by(
      parse_npy,
      {{headed("{'shape': 3}"),
        "header, byte 10: \"3\" where a tuple must stand"},
       {headed("{'shape': (3)}"),
        "header, byte 12: \")\" where \",\" must stand"},
       {headed("{'shape': (3 4)}"),
        "header, byte 13: \"4\" where \",\" must stand"},
       {headed("{'shape': (3, 4 5)}"),
        "header, byte 16: \"5\" where \",\" or \")\" must stand"},
       {headed("{'shape': (,)}"),
        "header, byte 11: \",\" where an extent or \")\" must stand"},
       {headed("{'shape': (3,"),
        "header, byte 13: ends where an extent or \")\" must stand"},
       {headed("{'shape': (3.5,)}"),
        "header, byte 12: \".\" where \",\" must stand"},
       {headed("{'shape': (03,)}"),
        "shape: \"03\" is not a whole number below 2^63 as Python writes it"},
       {headed("{'shape': (1-2,)}"),
        "shape: \"1-2\" is not a whole number below 2^63 as Python writes it"},
       {headed("{'shape': (9223372036854775808,)}"),
        "shape: \"9223372036854775808\" is not a whole number below 2^63 as "
        "Python writes it"},
       {headed("{'shape': " + many + ")}"), "a shape of more than 64 extents"},
       {headed("{'shape': (2,)} x"),
        "header, byte 16: \"x\" where white space must stand"}});
}

TEST(Npy, EveryWrongTypeIsNamed) {
  const std::string types =
      "; allowed are <f8, <f4, <f2, |b1, |i1, <i2, <i4, <i8, |u1, <u2, <u4, "
      "<u8";
  expect_refused_by(
      parse_npy,
      {{described(">f4", "(1,)", "abcd"),
        "descr \">f4\" has the most significant byte first; allowed is \"<\""},
       {described("|O", "(1,)"), "descr \"|O\": objects are never read"},
       {headed("{'descr': [('a', '<i4'), ('b', '<f4')], 'shape': ()}"),
        "descr is a structured type; allowed is one number per element"},
       {headed("{'descr': ('<f4', (2,))}"),
        "descr is a structured type; allowed is one number per element"},
       {described("<c8", "(1,)"), "descr \"<c8\"" + types},
       {described("<f16", "(1,)"), "descr \"<f16\"" + types},
       {described("<V2", "(1,)"), "descr \"<V2\"" + types},
       {described("|S2", "(1,)"), "descr \"|S2\"" + types},
       {described("<M8[D]", "(1,)"), "descr \"<M8[D]\"" + types},
       {described("|f4", "(1,)"), "descr \"|f4\"" + types},
       {described("f4", "(1,)"), "descr \"f4\"" + types},
       {described("", "(1,)"), "descr \"\"" + types},
       {described(std::string(99, 'x'), "(1,)"),
        "descr \"" + std::string(60, 'x') + "...\"" + types},
       {described("<f4", "(3, -1)"), "f32 [3, -1]: an extent is negative"},
       {described("<f8", "(4294967296, 268435456)"),
        "f64 [4294967296, 268435456] takes more than 2^63 - 1 bytes"},
       {described("<f8", "(0, 4294967296, 268435456)"),
        "f64 [0, 4294967296, 268435456] takes more than 2^63 - 1 bytes"},
       {described("<f4", "(3,)", "hello world"),
        "11 bytes of data, but f32 [3] takes 12"},
       {described("<f4", "()", "hello"), "5 bytes of data, but f32 [] takes 4"},
       {described("<u2", "(7, 0)", "!"),
        "1 bytes of data, but uint16 [7, 0] takes 0"}});
}

TEST(Npy, AWriterIsToldWhatIsWrong) {
  std::string error;
  EXPECT_FALSE(npy_bytes({FileDtype::kF32, {2}, bytes_of("abc")},
                         /*fortran_order=*/false, &error));
  EXPECT_EQ(error, "3 bytes of data, but f32 [2] takes 8");
  EXPECT_FALSE(npy_bytes({FileDtype::kF32, {-2}, {}}, false, &error));
  EXPECT_EQ(error, "f32 [-2]: an extent is negative");
  EXPECT_FALSE(npy_bytes({FileDtype::kF32, Shape(65, 1), bytes_of("abcd")},
                         false, &error));
  EXPECT_EQ(error, "a shape of 65 extents; at most 64 are allowed");
}

TEST(Npy, AFileThatIsCutAnywhereIsRefused) {
  expect_cuts_refused(parse_npy, kFloats);
  expect_refused_by(parse_npy, {{kFloats + '\0',
                                 "25 bytes of data, but f32 [2, 3] takes 24"}});
}

// With any value in one byte of the header the result is either one line, or an
// array inside the file.
TEST(Npy, AnyByteInTheHeaderIsReadOrRefused) {
  const int read = read_with_any_byte(
      parse_npy, kFloats, 128,
      [](const NpyArray& array, const std::string& file) {
        EXPECT_EQ(array.tensor.begin + array.tensor.bytes, file.size());
        EXPECT_EQ(array.tensor.data(bytes_of(file)).size(), 24u);
      });
  EXPECT_GT(read, 128);  // at least what was there before
  EXPECT_LT(read, 128 * 256 / 10);
}

TEST(FileTensor, EveryTypeHasANameAndAWidth) {
  std::string text;
  for (int i = 0; i < kFileDtypeCount; ++i) {
    const auto dtype = static_cast<FileDtype>(i);
    text += std::string(file_dtype_name(dtype)) + " " +
            std::to_string(file_dtype_bytes(dtype)) + " ";
    const auto back = dtype_of_file(dtype);
    text += back ? std::string(dtype_name(*back)) + "\n" : "-\n";
    const bool same = back && file_dtype(*back) == dtype;
    EXPECT_EQ(same, i < kDtypeCount);
  }
  EXPECT_EQ(text,
            "f64 8 f64\nf32 4 f32\nf16 2 f16\nbf16 2 bf16\n"
            "fp8e4m3 1 fp8e4m3\nfp8e5m2 1 fp8e5m2\nint8 1 int8\n"
            "uint8 1 uint8\nint64 8 int64\nint32 4 int32\nbool 1 uint8\n"
            "uint16 2 -\nint16 2 -\nuint32 4 -\nuint64 8 -\n");
}

}  // namespace
}  // namespace qkvet::npy_test
