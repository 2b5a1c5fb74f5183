// SPDX-License-Identifier: Apache-2.0
// Sanitizers see the threads of a kernel like those of a program: each seeded
// bug is reported with its lines, and its correct twin is not. A sanitizer ends
// the program after a report, so each bug runs in a program of its own.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define QKVET_TEST_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__)
#define QKVET_TEST_TSAN 1
#endif
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define QKVET_TEST_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define QKVET_TEST_TSAN 1
#endif
#endif

namespace simt_sanitizers_test {
namespace {

struct Ran {
  int exit = -1;
  std::string out;
};

Ran run(const std::string& arguments) {
  Ran ran;
  // ThreadSanitizer waits for a second at the end of a program.
  const std::string command =
      std::string("TSAN_OPTIONS=\"$TSAN_OPTIONS atexit_sleep_ms=0\" '") +
      SIMT_PROGRAM + "' " + arguments + " 2>&1";
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) {
    return ran;
  }
  std::array<char, 4096> part;
  for (size_t n; (n = fread(part.data(), 1, part.size(), pipe)) > 0;) {
    ran.out.append(part.data(), n);
  }
  const int status = pclose(pipe);
  ran.exit = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ran;
}

// "simt_seeded_program.cpp:LINE" of every line that ends with "// NAME".
std::vector<std::string> marked_lines(const std::string& name) {
  std::ifstream source(SIMT_SOURCE);
  std::vector<std::string> found;
  int number = 0;
  const std::string mark = "// " + name;
  for (std::string line; std::getline(source, line);) {
    ++number;
    const size_t at = line.find(mark);
    if (at != std::string::npos && at + mark.size() == line.size()) {
      found.push_back("simt_seeded_program.cpp:" + std::to_string(number));
    }
  }
  return found;
}

// The report has `words` and all lines of the bug; the twin has no report.
[[maybe_unused]] void expect_report(const std::string& bug,
                                    const std::string& words) {
  SCOPED_TRACE(bug);
  const Ran wrong = run(bug);
  EXPECT_NE(wrong.exit, 0);
  EXPECT_NE(wrong.out.find(words), std::string::npos) << wrong.out;
  const std::vector<std::string> lines = marked_lines(bug);
  EXPECT_FALSE(lines.empty());
  for (const std::string& line : lines) {
    EXPECT_NE(wrong.out.find(line), std::string::npos) << line << "\n"
                                                       << wrong.out;
  }
  const Ran right = run(bug + " right");
  EXPECT_EQ(right.exit, 0) << right.out;
  EXPECT_EQ(right.out.rfind("ran ", 0), 0U) << right.out;
}

TEST(SimtSanitizers, ThreadSanitizerSeesRacesWithBothLines) {
#if defined(QKVET_TEST_TSAN)
  for (const char* bug : {"missing_barrier", "late_barrier", "reused_tile",
                          "warp_race", "reused_by_warp", "counter_race"}) {
    expect_report(bug, "WARNING: ThreadSanitizer: data race");
  }
#else
  GTEST_SKIP() << "built without ThreadSanitizer";
#endif
}

TEST(SimtSanitizers, AddressSanitizerSeesOverruns) {
#if defined(QKVET_TEST_ASAN)
  expect_report("static_overrun", "ERROR: AddressSanitizer: global-buffer");
  for (const char* bug : {"dynamic_overread", "dynamic_underrun"}) {
    expect_report(bug, "ERROR: AddressSanitizer: use-after-poison");
  }
#else
  GTEST_SKIP() << "built without AddressSanitizer";
#endif
}

// In every build; sanitizers must report nothing.
TEST(SimtSanitizers, AreSilentAboutRightKernelsAndFaults) {
  for (const char* bug :
       {"missing_barrier", "late_barrier", "reused_tile", "warp_race",
        "reused_by_warp", "counter_race", "static_overrun", "dynamic_overread",
        "dynamic_underrun", "after_a_fault"}) {
    const Ran ran = run(std::string(bug) + " right");
    EXPECT_EQ(ran.exit, 0) << bug << ran.out;
    EXPECT_EQ(ran.out.rfind("ran ", 0), 0U) << ran.out;
  }
  const Ran fault = run("after_a_fault");
  EXPECT_EQ(fault.exit, 0) << fault.out;
  EXPECT_EQ(fault.out.rfind("ran ", 0), 0U) << fault.out;
  EXPECT_EQ(run("no_such_kernel").exit, 2);
}

}  // namespace
}  // namespace simt_sanitizers_test
