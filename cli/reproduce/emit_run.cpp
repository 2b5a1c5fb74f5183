// SPDX-License-Identifier: Apache-2.0
#include "cli/reproduce/emit_run.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <regex>
#include <sstream>
#include <vector>

namespace qkvet::cli {

namespace fs = std::filesystem;

Ran run_shell(const std::string& command, const fs::path& folder) {
  const std::string line =
      "cd '" + folder.string() + "' && { " + command + "; } 2>&1";
  Ran ran;
  std::FILE* pipe = popen(line.c_str(), "r");
  std::array<char, 4096> buffer;
  for (size_t n; (n = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    ran.out.append(buffer.data(), n);
  const int status = pclose(pipe);
  ran.exit = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ran;
}

const std::string& python() {
  static const std::string found = [] {
    for (const char* one : {"python3", "/usr/bin/python3"})
      if (run_shell(std::string(one) + " -c 'import numpy'", scratch()).exit ==
          0)
        return one;
    ADD_FAILURE() << "no python3 has numpy (ci/install_deps.sh installs it)";
    return "python3";
  }();
  return found;
}

std::string match(const std::string& text, const std::string& pattern) {
  std::smatch found;
  const bool is = std::regex_search(text, found, std::regex(pattern));
  EXPECT_TRUE(is) << pattern << " in\n" << text;
  return is ? found[1].str() : "";
}

std::string replaced(std::string text, const std::string& from,
                     const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

fs::path fresh_folder(const std::string& name) {
  write_text(scratch() / "before.txt", "softcap_order = before_mask\n");
  const fs::path folder = scratch() / name;
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

namespace {

// Up to the first text that can follow a number.
std::string first_words(const std::string& text) {
  return text.substr(
      0, std::min({text.find(" ("), text.find("  "), text.find(" allowed "),
                   text.find(", exa"), text.find(" error/bound")}));
}

}  // namespace

void expect_shown(const std::string& out, const std::string& report) {
  const std::string at = match(report, "\n  at +([^\n]+?)(?:, token \\d+)?\n");
  const std::string expected = match(report, "\n  expected +([^\n]+)\n");
  const std::string actual = match(report, "\n  actual +([^\n]+)\n");
  const bool two_ways = expected.find(" (") != std::string::npos;
  const std::string wanted =
      " expected " + (two_ways ? "" : first_words(expected));
  std::string allowed;
  if (expected.find(" .. ") != std::string::npos)
    allowed = expected.substr(expected.find(" allowed "));
  std::vector<std::string> ends = {" actual " + first_words(actual)};
  if (two_ways) ends.push_back(" actual " + first_words(expected));
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);)
    for (const std::string& end : ends)
      if (line.find(at) != std::string::npos &&
          line.find(wanted) != std::string::npos &&
          line.find(allowed) != std::string::npos && line.ends_with(end))
        return;
  ADD_FAILURE() << out << "shows nothing of" << report;
}

}  // namespace qkvet::cli
