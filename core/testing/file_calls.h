// SPDX-License-Identifier: Apache-2.0
// For tests of parsers of files: bytes as text, and what is read or refused.
#ifndef QKVET_CORE_TESTING_FILE_CALLS_H_
#define QKVET_CORE_TESTING_FILE_CALLS_H_

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace qkvet {

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

inline std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline std::string test_file(const std::string& name) {
  std::ifstream file(QKVET_TESTDATA "/" + name, std::ios::binary);
  EXPECT_TRUE(file.good()) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

// Reads a copy that ends where the file does, so that a sanitizer sees one byte
// too many.
template <class Parse>
auto read_exactly(const Parse& parse, const std::string& file,
                  std::string* error) {
  const std::vector<char> exact(file.begin(), file.end());
  return parse(std::as_bytes(std::span(exact)), error);
}

template <class Parse>
auto read_by(const Parse& parse, const std::string& file) {
  std::string error;
  const auto result = parse(bytes_of(file), &error);
  EXPECT_TRUE(result.has_value()) << error;
  return result.value_or(typename decltype(result)::value_type{});
}

template <class Parse>
std::string refusal_by(const Parse& parse, const std::string& file) {
  std::string error;
  EXPECT_FALSE(read_exactly(parse, file, &error).has_value()) << file;
  EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  return error;
}

struct WrongFile {
  std::string file, error;
};
template <class Parse>
void expect_refused_by(const Parse& parse,
                       const std::vector<WrongFile>& files) {
  for (const WrongFile& wrong : files)
    EXPECT_EQ(refusal_by(parse, wrong.file), wrong.error);
}

template <class Parse>
void expect_cuts_refused(const Parse& parse, const std::string& file) {
  for (size_t size = 0; size < file.size(); ++size)
    EXPECT_NE(refusal_by(parse, file.substr(0, size)), "") << size;
}

// The number of files that are read, out of those with any value in one of the
// first bytes. The others are refused in one line; `check` checks the result.
template <class Parse, class Check>
int read_with_any_byte(const Parse& parse, const std::string& file, size_t end,
                       const Check& check) {
  int read = 0;
  for (size_t at = 0; at < end; ++at)
    for (int value = 0; value < 256; ++value) {
      std::string changed = file, error;
      changed[at] = static_cast<char>(value);
      const auto result = read_exactly(parse, changed, &error);
      EXPECT_EQ(result.has_value(), error.empty());
      EXPECT_EQ(error.find('\n'), std::string::npos);
      if (!result) continue;
      ++read;
      check(*result, changed);
    }
  return read;
}

}  // namespace qkvet

#endif  // QKVET_CORE_TESTING_FILE_CALLS_H_
