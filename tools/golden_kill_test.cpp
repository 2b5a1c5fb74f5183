// SPDX-License-Identifier: Apache-2.0
// Whoever kills `qkvet golden record` finds the old sets or the new ones.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include "golden/manifest.h"
#include "tools/program_run.h"

namespace qkvet {
namespace {

namespace fs = std::filesystem;

using Content = std::map<std::string, std::string>;

Content content_of(const fs::path& folder) {
  Content content;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder, code))
    content[entry.path().filename().string()] = read_text(entry.path());
  return content;
}

// Runs `work` in a process of its own and kills it after so many microseconds;
// true if it was killed before its end.
template <class Work>
bool killed_after(int64_t microseconds, Work work) {
  const pid_t child = fork();
  if (child == 0) {
    const int nothing = open("/dev/null", O_WRONLY);
    dup2(nothing, STDOUT_FILENO);
    dup2(nothing, STDERR_FILENO);
    work();
    _exit(127);
  }
  usleep(static_cast<useconds_t>(microseconds));
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status);
}

void record(const std::string& folder, const char* kernel) {
  execl(QKVET_PROGRAM, QKVET_PROGRAM, "golden", "record", folder.c_str(), "-k",
        kernel, "--update", static_cast<char*>(nullptr));
}

class GoldenKill : public testing::Test {
 protected:
  // Two versions of the same sets, by kernels that round differently.
  GoldenKill() {
    fs::remove_all(scratch() / "kill");
    const std::string cases =
        " a:f32,B1,H2,Tq9,Tk17,d8 b:f32,B1,H1,Tq8,Tk33,d16,causal=br "
        "c:f32,B2,H2,Tq7,Tk29,d8 d:f32,B1,H1,Tq17,Tk19,d32";
    EXPECT_EQ(run_qkvet("golden record kill" + cases + " -k scalar/plain").exit,
              0);
    first_ = content_of(folder_);
    EXPECT_EQ(
        run_qkvet("golden record kill -k controls/reversed --update").exit, 0);
    second_ = content_of(folder_);
  }

  bool is_mixture() const {
    const Content now = content_of(folder_);
    return now != first_ && now != second_;
  }

  const fs::path folder_ = scratch() / "kill";
  Content first_, second_;
};

TEST_F(GoldenKill, LeavesOneSetOrTheOther) {
  ASSERT_NE(first_, second_);
  ASSERT_EQ(first_.size(), 5u);
  std::mt19937 random(1);
  int killed = 0, first = 0, second = 0;
  for (int n = 0; n < 100; ++n) {
    // Whichever is there, the other one is written.
    const bool is_first = content_of(folder_) == first_;
    killed += killed_after(static_cast<int64_t>(random() % 120000), [&] {
      record(folder_.string(), is_first ? "controls/reversed" : "scalar/plain");
    });
    ASSERT_FALSE(is_mixture()) << n;
    GoldenFolder read;
    ASSERT_EQ(read_golden_folder(folder_.string(), &read), "");
    (content_of(folder_) == first_ ? first : second) += 1;
  }
  EXPECT_GT(killed, 20);
  EXPECT_GT(first + second, 99);
  // What killed processes left behind is gone with the next record.
  ASSERT_EQ(run_qkvet("golden record kill -k scalar/plain --update").exit, 0);
  ASSERT_EQ(run_qkvet("golden record kill -k controls/reversed --update").exit,
            0);
  for (const auto& entry : fs::directory_iterator(scratch()))
    EXPECT_FALSE(entry.path().filename().string().starts_with(".kill"))
        << entry.path();
}

// The control: files written in their places are a mixture soon.
TEST_F(GoldenKill, AWriterInPlaceIsSeenToMix) {
  std::mt19937 random(1);
  int mixtures = 0;
  for (int n = 0; n < 100 && mixtures == 0; ++n) {
    const Content& wanted = n % 2 == 0 ? first_ : second_;
    killed_after(static_cast<int64_t>(random() % 10000), [&] {
      for (const auto& [name, text] : wanted) {
        std::ofstream(folder_ / name, std::ios::binary) << text;
        usleep(1000);
      }
    });
    mixtures += is_mixture();
  }
  EXPECT_GT(mixtures, 0);
}

}  // namespace
}  // namespace qkvet
