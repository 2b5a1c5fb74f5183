// SPDX-License-Identifier: Apache-2.0
// For tests that run the built program as a user does, through a shell.
#ifndef QKVET_CLI_BASE_PROGRAM_RUN_H_
#define QKVET_CLI_BASE_PROGRAM_RUN_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace qkvet::cli {

struct Ran {
  int exit = -1;
  std::string out;    // stdout
  std::string error;  // stderr
};

// A folder for this test process, with a space in its name; removed when the
// process ends.
std::filesystem::path scratch();

// Runs `qkvet ARGUMENTS` in a folder, with a cache in scratch() and without
// $CXX, $CC, $RUSTC and $COLUMNS unless the environment ("NAME=value ...") sets
// them. `program` replaces the built program.
Ran run_qkvet(const std::string& arguments,
              const std::filesystem::path& folder = scratch(),
              const std::string& environment = "",
              const std::filesystem::path& program = {});

// The same run, which has this exit code. A failure prints its output.
Ran exits(int code, Ran ran, const char* file = __builtin_FILE(),
          int line = __builtin_LINE());

// Exit code 2 and exactly one line, which names `part`. If `others` is set,
// output of a compiler may precede it.
void expect_wrong_use(const Ran& ran, const std::string& part,
                      bool others = false);

// Whether the text contains the part. A failure prints the text.
testing::AssertionResult has(const std::string& text, const std::string& part);
testing::AssertionResult has(const Ran& ran, const std::string& part);

std::string read_text(const std::filesystem::path& file);
void write_text(const std::filesystem::path& file, const std::string& text);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_BASE_PROGRAM_RUN_H_
