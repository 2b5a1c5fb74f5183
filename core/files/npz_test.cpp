// SPDX-License-Identifier: Apache-2.0
// .npz files: those that NumPy 1.24.2 wrote (testdata/numpy_*.npz), archives
// with more than NumPy writes, and messages about wrong files.
#include "core/files/npz.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstring>

#include "core/testing/file_calls.h"

namespace qkvet::npz_test {
namespace {

using Shape = std::vector<int64_t>;

NpzArrays read(const std::string& file) { return read_by(parse_npz, file); }
std::string error_of(const std::string& file) {
  return refusal_by(parse_npz, file);
}

template <class Number>
std::vector<Number> numbers_of(const NpzArray& array) {
  std::vector<Number> numbers(array.data().size() / sizeof(Number));
  std::memcpy(numbers.data(), array.data().data(), array.data().size());
  return numbers;
}

TEST(Npz, ReadsWhatSavezWrote) {
  for (const std::string name : {"numpy_stored.npz", "numpy_deflated.npz"}) {
    const NpzArrays arrays = read(test_file(name));
    ASSERT_EQ(arrays.size(), name == "numpy_stored.npz" ? 2u : 3u);
    const NpzArray& q = arrays.at("q");
    EXPECT_EQ(q.array.tensor.dtype, FileDtype::kF32);
    EXPECT_EQ(q.array.tensor.shape, (Shape{1, 2, 3}));
    EXPECT_FALSE(q.array.fortran_order);
    EXPECT_EQ(numbers_of<float>(q), (std::vector<float>{0, 1, 2, 3, 4, 5}));
    const NpzArray& mask = arrays.at("mask");
    EXPECT_EQ(mask.array.tensor.dtype, FileDtype::kBool);
    EXPECT_EQ(mask.array.tensor.shape, (Shape{2, 2}));
    EXPECT_EQ(numbers_of<char>(mask), (std::vector<char>{1, 0, 1, 1}));
    if (!arrays.contains("f")) continue;
    const NpzArray& f = arrays.at("f");
    EXPECT_TRUE(f.array.fortran_order);
    EXPECT_EQ(numbers_of<double>(f), (std::vector<double>{1, 3, 2, 4}));
  }
}

// If the file is not seekable, the sizes are after the data.
TEST(Npz, ReadsWhatWasWrittenIntoAPipe) {
  const NpzArrays arrays = read(test_file("numpy_streamed.npz"));
  ASSERT_EQ(arrays.size(), 1u);
  EXPECT_EQ(numbers_of<float>(arrays.at("q")),
            (std::vector<float>{0, 1, 2, 3, 4, 5}));
}

TEST(Npz, AnArchiveWithoutMembersIsNoArrays) {
  EXPECT_EQ(read("PK\x05\x06" + std::string(18, '\0')).size(), 0u);
}

// An archive by hand, in which everything can be wrong.
struct Member {
  std::string name{}, bytes{};
  uint32_t flags = 0, method = 0;
  // Wrong sizes in the directory.
  std::optional<uint32_t> packed{}, unpacked{};
  bool zip64 = false;  // the sizes are after the name
};

std::string le(uint64_t value, int bytes) {
  std::string text;
  for (int n = 0; n < bytes; ++n)
    text += static_cast<char>((value >> (8 * n)) & 0xff);
  return text;
}

std::string header_of(const Member& member, bool of_directory, size_t at) {
  const uint32_t size = static_cast<uint32_t>(member.bytes.size());
  const uint32_t packed = member.packed.value_or(size);
  const uint32_t unpacked = member.unpacked.value_or(size);
  const uint32_t sum = static_cast<uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(member.bytes.data()), size));
  const std::string extra =
      member.zip64 ? le(1, 2) + le(16, 2) + le(unpacked, 8) + le(packed, 8)
                   : "";
  std::string text = of_directory ? "PK\x01\x02" + le(45, 2) : "PK\x03\x04";
  text += le(45, 2) + le(member.flags, 2) + le(member.method, 2) + le(0, 4) +
          le(sum, 4) + le(member.zip64 ? ~0u : packed, 4) +
          le(member.zip64 ? ~0u : unpacked, 4) + le(member.name.size(), 2) +
          le(extra.size(), 2);
  if (of_directory) text += std::string(10, '\0') + le(at, 4);
  return text + member.name + extra;
}

std::string archive(const std::vector<Member>& members) {
  std::string file, directory;
  for (const Member& member : members) {
    const size_t at = file.size();
    file += header_of(member, false, at) + member.bytes;
    directory += header_of(member, true, at);
  }
  const size_t at = file.size();
  return file + directory + "PK\x05\x06" + le(0, 4) + le(members.size(), 2) +
         le(members.size(), 2) + le(directory.size(), 4) + le(at, 4) + le(0, 2);
}

std::string npy_text() {
  const std::vector<std::byte> data(24);
  std::string error;
  const auto file = npy_bytes({FileDtype::kF32, {2, 3}, data}, false, &error);
  return text_of(*file);
}

TEST(Npz, AnyNameIsANameOfAnArray) {
  const NpzArrays arrays =
      read(archive({{.name = "a/b c.npy", .bytes = npy_text()},
                    {.name = ".npy", .bytes = npy_text()}}));
  ASSERT_EQ(arrays.size(), 2u);
  EXPECT_EQ(arrays.at("a/b c"), arrays.at(""));
  EXPECT_EQ(arrays.at("").array.tensor.shape, (Shape{2, 3}));
}

TEST(Npz, WhatNumPyDoesNotWriteIsRefused) {
  const std::string npy = npy_text();
  const Member good = {.name = "q.npy", .bytes = npy};
  const auto with = [&](Member member) { return archive({good, member}); };
  const std::vector<WrongFile> rows = {
      {archive({good, good}), "member \"q.npy\" is there twice"},
      {with({.name = "notes.txt", .bytes = "x"}),
       "member \"notes.txt\" is no .npy file; allowed are those alone"},
      {with({.name = "folder/"}),
       "member \"folder/\" is no .npy file; allowed are those alone"},
      {with({}), "member \"\" is no .npy file; allowed are those alone"},
      {with({.name = "k.npy", .bytes = npy, .flags = 1}),
       "member \"k.npy\" is encrypted"},
      {with({.name = "k.npy", .bytes = npy, .method = 12}),
       "member \"k.npy\" is packed by method 12; allowed are 0 (stored) and 8 "
       "(deflated)"},
      {with({.name = "k\n.npy", .bytes = "hello"}),
       "member \"k\\x0a.npy\": is not a .npy file: it begins with \"hello\", "
       "not with \"\\x93NUMPY\""},
      {with({.name = "k.npy", .bytes = npy + "!"}),
       "member \"k.npy\": 25 bytes of data, but f32 [2, 3] takes 24"},
      {with({.name = "k.npy", .bytes = npy, .method = 8}),
       "member \"k.npy\" is damaged"}};
  expect_refused_by(parse_npz, rows);
}

TEST(Npz, ClaimsAreNotBelieved) {
  const std::string npy = npy_text();
  const std::string large =
      " makes the arrays larger than 67108864 bytes, 64 times the file";
  const auto claiming = [&](uint32_t method, uint32_t packed,
                            uint32_t unpacked) {
    return archive({{.name = "q.npy",
                     .bytes = npy,
                     .method = method,
                     .packed = packed,
                     .unpacked = unpacked}});
  };
  for (const uint32_t method : {0u, 8u}) {
    EXPECT_EQ(error_of(claiming(method, 152, 60'000'000)),
              "member \"q.npy\" claims to hold 60000000 bytes in 152");
    EXPECT_EQ(error_of(claiming(method, 152, 67'108'865)),
              "member \"q.npy\"" + large);
    // The sizes are in a field of zip64, which minizip 1.1 of Debian 12 does
    // not read: it takes them for 2^32 - 1.
    EXPECT_EQ(error_of(archive({{.name = "q.npy",
                                 .bytes = npy,
                                 .method = method,
                                 .packed = 152,
                                 .unpacked = 3'000'000'000,
                                 .zip64 = true}})),
              "member \"q.npy\"" + large);
  }
  EXPECT_EQ(error_of(claiming(8, 152, 100'000)), "member \"q.npy\" is damaged");
  const std::string file = claiming(0, 9'999, 9'999);
  EXPECT_EQ(error_of(file),
            "member \"q.npy\" claims 9999 bytes of the file, "
            "but only " +
                std::to_string(file.size()) + " are left");
  // Two that each claim most of the file share bytes of it.
  const Member first = {.name = "a.npy", .bytes = npy};
  const Member again = {
      .name = "b.npy", .bytes = "", .packed = 300, .unpacked = 300};
  const std::string error = error_of(archive({first, again}));
  EXPECT_TRUE(
      error.starts_with("member \"b.npy\" claims 300 bytes of the file"))
      << error;
}

// The same data with another checksum.
TEST(Npz, AWrongChecksumIsRefused) {
  std::string file = test_file("numpy_stored.npz");
  const size_t at = file.find("\xa0@");  // 5, the last number of q
  ASSERT_NE(at, std::string::npos);
  file[at] ^= 1;
  EXPECT_EQ(error_of(file),
            "member \"q.npy\" has another checksum than it should");
}

// A megabyte of zeros in a kilobyte is what deflate may do.
TEST(Npz, WhatIsPackedTightlyIsRead) {
  const std::vector<std::byte> data(size_t{3} << 20);
  std::string error;
  const auto npy =
      npy_bytes({FileDtype::kUint8, {3 << 20}, data}, false, &error);
  z_stream stream{};
  ASSERT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, -15, 9, Z_DEFAULT_STRATEGY),
            Z_OK);
  std::string packed(1 << 16, '\0');
  stream.next_in =
      reinterpret_cast<Bytef*>(const_cast<std::byte*>(npy->data()));
  stream.avail_in = static_cast<uInt>(npy->size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  ASSERT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  EXPECT_LT(packed.size(), 5000u);
  Member member = {.name = "z.npy",
                   .bytes = packed,
                   .method = 8,
                   .packed = static_cast<uint32_t>(packed.size()),
                   .unpacked = static_cast<uint32_t>(npy->size())};
  std::string file = archive({member});
  // The checksum is that of what was packed.
  const std::string sum =
      le(crc32(0, reinterpret_cast<const Bytef*>(npy->data()),
               static_cast<uInt>(npy->size())),
         4);
  const std::string wrong =
      le(crc32(0, reinterpret_cast<const Bytef*>(packed.data()),
               static_cast<uInt>(packed.size())),
         4);
  for (int n = 0; n < 2; ++n) file.replace(file.find(wrong), 4, sum);
  const NpzArrays arrays = read(file);
  ASSERT_EQ(arrays.size(), 1u);
  EXPECT_EQ(arrays.at("z").file, *npy);
}

TEST(Npz, EveryWrongFrameIsNamed) {
  expect_refused_by(
      parse_npz,
      {{"",
        "is not a .npz file: it begins with \"\", not with \"PK\\x03\\x04\""},
       {npy_text(),
        "is not a .npz file: it begins with \"\\x93NUM\", not with "
        "\"PK\\x03\\x04\""},
       {"PK\x03\x04",
        "is not a whole .npz file: there is no directory at its end"}});
}

TEST(Npz, AFileThatIsCutAnywhereIsRefused) {
  for (const std::string name :
       {"numpy_stored.npz", "numpy_deflated.npz", "numpy_streamed.npz"})
    expect_cuts_refused(parse_npz, test_file(name));
}

// With any value in one byte the result is either one line, or arrays inside
// the unpacked data. A checksum protects data from other values.
TEST(Npz, AnyByteIsReadOrRefused) {
  for (const std::string name :
       {"numpy_stored.npz", "numpy_deflated.npz", "numpy_streamed.npz"}) {
    const std::string file = test_file(name);
    const NpzArrays wanted = read(file);
    int same = 0, other = 0, refused = 0;
    for (size_t at = 0; at < file.size(); ++at)
      for (const int bits : {0, 1, 2, 4, 8, 16, 32, 64, 128, 255}) {
        std::string flipped = file, error;
        flipped[at] = static_cast<char>(flipped[at] ^ bits);
        const auto arrays = read_exactly(parse_npz, flipped, &error);
        if (!arrays) {
          ++refused;
          ASSERT_NE(error, "");
          ASSERT_EQ(error.find('\n'), std::string::npos);
          continue;
        }
        bool equal = arrays->size() == wanted.size();
        for (const auto& [key, array] : *arrays) {
          ASSERT_LE(array.array.tensor.begin + array.array.tensor.bytes,
                    array.file.size());
          // Names in the directory have no checksum; data do.
          equal = equal && wanted.contains(key) && wanted.at(key) == array;
        }
        ++(equal ? same : other);
      }
    EXPECT_GE(same, static_cast<int>(file.size())) << name;
    EXPECT_GT(refused, same) << name;
    // Two or three letters of names, and no data.
    EXPECT_LT(other, 10 * 10) << name;
    RecordProperty(name, std::to_string(same) + " " + std::to_string(other));
  }
}

}  // namespace
}  // namespace qkvet::npz_test
