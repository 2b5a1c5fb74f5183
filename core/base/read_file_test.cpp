// SPDX-License-Identifier: Apache-2.0
#include "core/base/read_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace qkvet::read_file_test {
namespace {

namespace fs = std::filesystem;

// The folder stays until the last test has ended: a file system may give the
// number of a file that is gone to another.
class ReadFile : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { fs::create_directories(folder()); }
  static void TearDownTestSuite() { fs::remove_all(folder()); }
  static fs::path folder() {
    return fs::temp_directory_path() /
           ("qkvet read " + std::to_string(getpid()));
  }
  static std::string path(const std::string& name) { return folder() / name; }
  static std::string wrong(const std::string& of) {
    std::string text;
    return read_file(of, &text, 10);
  }
};

TEST_F(ReadFile, RegularFilesUpToTheLimit) {
  std::ofstream(path("ten")) << "0123456789";
  std::ofstream(path("eleven")) << "0123456789a";
  std::ofstream(path("none")) << "";
  std::string text = "before";
  EXPECT_EQ(read_file(path("ten"), &text, 10), "");
  EXPECT_EQ(text, "0123456789");
  EXPECT_EQ(read_file(path("none"), &text, 10), "");
  EXPECT_EQ(text, "");
  EXPECT_EQ(wrong(path("eleven")),
            path("eleven") + ": 11 bytes; at most 10 are read");
  std::vector<std::byte> bytes;
  EXPECT_EQ(read_file(path("ten"), &bytes), "");
  EXPECT_EQ(bytes.size(), 10u);
}

TEST_F(ReadFile, FilesThatGiveNoSize) {
  std::string text;
  EXPECT_EQ(read_file("/proc/self/status", &text), "");
  EXPECT_NE(text.find("Pid:"), std::string::npos);
  EXPECT_EQ(wrong("/proc/self/status"),
            "/proc/self/status: 11 bytes; at most 10 are read");
}

TEST_F(ReadFile, WhatIsNoRegularFileIsRefusedAtOnce) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  fs::create_symlink("loop", path("loop"));
  EXPECT_EQ(wrong(path("pipe")), path("pipe") + ": is no regular file");
  EXPECT_EQ(wrong("/dev/zero"), "/dev/zero: is no regular file");
  EXPECT_EQ(wrong(path(".")), path(".") + ": is a directory");
  EXPECT_EQ(wrong(path("loop")), path("loop") + ": cannot be read");
  EXPECT_EQ(wrong(path("absent")), path("absent") + ": cannot be read");
  EXPECT_EQ(not_readable_reason(path("pipe")), "is no regular file");
  EXPECT_EQ(not_readable_reason(path("absent")), "no such file");
}

TEST_F(ReadFile, SparseFilesTakeNoMemory) {
  constexpr off_t kHuge = off_t{100} << 30;
  std::ofstream(path("sparse")) << "";
  ASSERT_EQ(truncate(path("sparse").c_str(), kHuge), 0);
  std::string text;
  EXPECT_EQ(
      read_file(path("sparse"), &text),
      path("sparse") + ": 107374182400 bytes; at most 268435456 are read");
  EXPECT_TRUE(text.empty());
}

TEST_F(ReadFile, FilesThatWereReadAreKnownByAllTheirNames) {
  std::ofstream(path("input")) << "x";
  std::ofstream(path("other")) << "x";
  fs::create_hard_link(path("input"), path("linked"));
  fs::create_symlink(path("input"), path("pointer"));
  EXPECT_FALSE(is_input(path("input")));
  std::string text;
  EXPECT_EQ(read_file(path("input"), &text), "");
  for (const char* name : {"input", "linked", "pointer"})
    EXPECT_TRUE(is_input(path(name))) << name;
  EXPECT_FALSE(is_input(path("other")));
  EXPECT_FALSE(is_input(path("absent")));
  remember_input(path("other"));
  EXPECT_TRUE(is_input(path("other")));
}

}  // namespace
}  // namespace qkvet::read_file_test
