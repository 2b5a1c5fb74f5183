// SPDX-License-Identifier: Apache-2.0
#include "cli/base/program_run.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <sstream>

namespace qkvet::cli {
namespace {

namespace fs = std::filesystem;

struct Folder {
  fs::path path =
      fs::temp_directory_path() / ("qkvet test " + std::to_string(getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() {
    std::error_code code;
    fs::remove_all(path, code);
  }
};

}  // namespace

fs::path scratch() {
  static const Folder folder;
  return folder.path;
}

Ran run_qkvet(const std::string& arguments, const fs::path& folder,
              const std::string& environment, const fs::path& program) {
  const fs::path error = scratch() / "stderr";
  const std::string command =
      "cd '" + folder.string() + "' && env -u CXX -u CC -u RUSTC -u COLUMNS " +
      "XDG_CACHE_HOME='" + (scratch() / "cache").string() + "' " + environment +
      " '" + (program.empty() ? QKVET_PROGRAM : program.string()) + "' " +
      arguments + " 2>'" + error.string() + "'";
  Ran ran;
  std::FILE* pipe = popen(command.c_str(), "r");
  std::array<char, 4096> buffer;
  for (size_t n; (n = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    ran.out.append(buffer.data(), n);
  const int status = pclose(pipe);
  ran.exit = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  ran.error = read_text(error);
  return ran;
}

Ran exits(int code, Ran ran, const char* file, int line) {
  if (ran.exit != code)
    ADD_FAILURE_AT(file, line)
        << "exit code " << ran.exit << ", expected " << code << "\n"
        << ran.out << ran.error;
  return ran;
}

void expect_wrong_use(const Ran& ran, const std::string& part, bool others) {
  EXPECT_EQ(ran.exit, 2) << ran.out << ran.error;
  ASSERT_FALSE(ran.error.empty());
  const size_t before = ran.error.rfind('\n', ran.error.size() - 2);
  const size_t start = before == std::string::npos ? 0 : before + 1;
  const std::string last = ran.error.substr(start);
  EXPECT_TRUE(last.starts_with("qkvet: ")) << ran.error;
  EXPECT_TRUE(has(last, part)) << ran.error;
  EXPECT_EQ(last.back(), '\n');
  EXPECT_EQ(start > 0, others) << ran.error;
}

testing::AssertionResult has(const std::string& text, const std::string& part) {
  return (text.find(part) != std::string::npos ? testing::AssertionSuccess()
                                               : testing::AssertionFailure())
         << "\"" << part << "\" in:\n"
         << text;
}

testing::AssertionResult has(const Ran& ran, const std::string& part) {
  return has(ran.out, part);
}

std::string read_text(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

void write_text(const fs::path& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
}

}  // namespace qkvet::cli
